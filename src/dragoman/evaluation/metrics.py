"""Metrics: their configurations, and corpus and sentence scores of outputs against references by sacreBLEU.

References have the layout of sacreBLEU: `references[k][i]` is reference `k` of sentence `i`.

Exact match and ROUGE are implemented as metrics of sacreBLEU, with signature, several references and paired tests.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, Literal, assert_never, final

from pydantic import BeforeValidator, Field
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.base import Score as SacrebleuScore
from sacrebleu.metrics.base import Signature
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.config import Config
from dragoman.errors import ConfigError, DataError, MissingExtraError
from dragoman.html_tables import html_table
from dragoman.number_words import counted

Tokenization = Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200"]
RougeVariant = Literal["1", "2", "L", "Lsum"]
Row = dict[str, str | float | bool | None]
"""Plain data for JSON and tables."""


MAX_ORDER = 20
"""Maximum length of n-grams: counting takes time in proportion."""


class Bleu(Config):
    """BLEU (Papineni et al., 2002), as sacreBLEU defines it (Post, 2018)."""

    kind: Literal["bleu"] = "bleu"
    tokenize: Tokenization = Field(default="13a", description="How sacreBLEU splits words; `none` for tokenized text.")
    lowercase: bool = Field(default=False, description="Compare in lower case.")
    smoothing: Literal["exp", "floor", "add-k", "none"] = Field(
        default="exp", description="Smoothing of n-gram orders without a match."
    )
    order: int = Field(default=4, ge=1, le=MAX_ORDER, description="The longest n-gram.")


class Chrf(Config):
    """chrF (Popović, 2015): F-score over character n-grams, with recall weighted `beta` times."""

    kind: Literal["chrf"] = "chrf"
    lowercase: bool = Field(default=False, description="Compare in lower case.")
    order: int = Field(default=6, ge=1, le=MAX_ORDER, description="The longest character n-gram.")
    beta: int = Field(default=2, ge=1, description="Weight of recall relative to precision.")


class ChrfPlusPlus(Config):
    """chrF++ (Popović, 2017): chrF with word unigrams and bigrams added."""

    kind: Literal["chrf++"] = "chrf++"
    lowercase: bool = Field(default=False, description="Compare in lower case.")
    order: int = Field(default=6, ge=1, le=MAX_ORDER, description="The longest character n-gram.")
    beta: int = Field(default=2, ge=1, description="Weight of recall relative to precision.")


class Ter(Config):
    """Translation edit rate (Snover et al., 2006): edits and shifts per 100 reference words; lower is better.

    Case-insensitive by default, as in Tercom and sacreBLEU.
    """

    kind: Literal["ter"] = "ter"
    lowercase: bool = Field(default=True, description="Compare in lower case.")
    normalize: bool = Field(default=False, description="Split punctuation from words first, as Tercom's `-N`.")
    punctuation: bool = Field(default=True, description="Count punctuation.")


class ExactMatch(Config):
    """Percentage of outputs that equal one of their references, apart from leading and trailing white space."""

    kind: Literal["exact"] = "exact"
    lowercase: bool = Field(default=False, description="Compare in lower case.")


class Rouge(Config):
    """ROUGE (Lin, 2004): F1 of shared words, word pairs or the longest common subsequence, by rouge-score.

    Only the letters a to z, lower-cased, and digits count.
    """

    kind: Literal["rouge"] = "rouge"
    variant: Annotated[RougeVariant, BeforeValidator(str)] = Field(
        default="L",
        description="Words (1), word pairs (2), longest common subsequence (L), or the same per line (Lsum).",
    )
    stemmer: bool = Field(default=False, description="Compare stems of English words (Porter, 1980).")


Metric = Annotated[Bleu | Chrf | ChrfPlusPlus | Ter | ExactMatch | Rouge, Field(discriminator="kind")]
"""Configuration of any metric, discriminated by `kind`."""
MetricName = Literal["bleu", "chrf", "chrf++", "ter", "exact", "rouge"]
"""Kinds of metrics."""


def build_metric(metric: Metric, *, sentence_level: bool = False) -> SacrebleuMetric:
    """Build the sacreBLEU object of a metric; sentence-level BLEU skips n-gram orders longer than the sentence.

    Raises ConfigError if a tokenizer needs a missing library or model, and MissingExtraError if rouge-score is missing.
    """
    match metric:
        case Bleu():
            return _build_bleu(metric, effective_order=sentence_level)
        case Chrf() | ChrfPlusPlus():
            words = 2 if isinstance(metric, ChrfPlusPlus) else 0
            return CHRF(char_order=metric.order, word_order=words, beta=metric.beta, lowercase=metric.lowercase)
        case Ter(lowercase=lowercase, normalize=normalize, punctuation=punctuation):
            return TER(case_sensitive=not lowercase, normalized=normalize, no_punct=not punctuation)
        case ExactMatch():
            return _build_exact_match(metric)
        case Rouge():
            return _build_rouge(metric)
        case _:
            assert_never(metric)


def require_metrics(metrics: Sequence[Metric]) -> None:
    """Raise MissingExtraError or ConfigError if a metric needs a missing library, before any text is translated."""
    for metric in metrics:
        build_metric(metric)


def higher_is_better(metric: Metric) -> bool:
    """Return whether higher values are better, as for all metrics but TER."""
    return not isinstance(metric, Ter)


def _build_bleu(metric: Bleu, *, effective_order: bool) -> BLEU:
    try:
        return BLEU(
            tokenize=metric.tokenize,
            lowercase=metric.lowercase,
            smooth_method=metric.smoothing,
            max_ngram_order=metric.order,
            effective_order=effective_order,
            force=True,  # without a warning about tokenized text, for which `none` is a setting
        )
    except (ImportError, RuntimeError) as error:
        library = {"ja-mecab": "'sacrebleu[ja]'", "ko-mecab": "'sacrebleu[ko]'"}.get(metric.tokenize, "sentencepiece")
        raise ConfigError(
            f"tokenize = {metric.tokenize}: an optional library is missing; install it with: pip install {library}"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"tokenize = {metric.tokenize}: its model cannot be downloaded ({error}); go online, or use 13a or intl"
        ) from error


def _build_exact_match(metric: ExactMatch) -> "_MeanMetric":
    def normalize(text: str) -> str:
        return text.strip().lower() if metric.lowercase else text.strip()

    def score(output: str, references: Sequence[str]) -> float:
        return float(normalize(output) in map(normalize, references))

    return _MeanMetric("exact", score, {"case": "lc" if metric.lowercase else "mixed"})


def _build_rouge(metric: Rouge) -> "_MeanMetric":
    """Build the F1 of rouge-score; with several references, the best counts."""
    try:
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]
        from rouge_score.tokenizers import DefaultTokenizer  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError(feature="ROUGE", extra="rouge") from error
    name = f"rouge{metric.variant}"
    scorer = RougeScorer([name], tokenizer=DefaultTokenizer(metric.stemmer))

    def score(output: str, references: Sequence[str]) -> float:
        return float(scorer.score_multi(references, output)[name].fmeasure)

    facts = {"case": "lc", "stem": metric.stemmer, "average": "mean", "rouge-score": version("rouge-score")}
    return _MeanMetric(f"ROUGE-{metric.variant}", score, facts)


@final
class _MeanSignature(Signature):
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.info |= settings["facts"]


@final
class _MeanMetric(SacrebleuMetric):
    """Mean score of the outputs against their references, in percent. The statistics of an output are (score, 1)."""

    _SIGNATURE_TYPE: type[Signature] = _MeanSignature

    def __init__(self, name: str, score: Callable[[str, Sequence[str]], float], facts: dict[str, Any]) -> None:
        """`facts` is the part of the signature that tells the options."""
        super().__init__()  # type: ignore[no-untyped-call]  # sacreBLEU has no annotations
        self.name, self.score, self.facts = name, score, facts

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": list(refs)}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        return [self.score(hypothesis, ref_kwargs["references"]), 1.0]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> SacrebleuScore:
        total, outputs = stats
        return SacrebleuScore(self.name, 100 * float(total) / float(outputs))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> SacrebleuScore:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])


@final
@dataclass(frozen=True, slots=True)
class Baseline:
    """Score of a model that ignores its input, on the same data."""

    value: float
    description: str
    """The model, such as `the most frequent label`."""


@dataclass(frozen=True, slots=True)
class Score:
    """Score with the name and signature of sacreBLEU, which make it comparable."""

    metric: str
    value: float
    signature: str
    detail: str
    higher_is_better: bool
    baseline: Baseline | None = None

    def __str__(self) -> str:
        return f"{self.metric}|{self.signature} = {self.value:z.2f} {self.detail}".rstrip()

    def to_dict(self) -> dict[str, str | float | bool]:
        """Return the object of this score in the output of `dragoman evaluate --json`."""
        return {
            "metric": self.metric,
            "score": round(self.value, 4),
            "signature": self.signature,
            "detail": self.detail,
            "higher_is_better": self.higher_is_better,
        }

    def __repr__(self) -> str:
        return f"Score({self.metric} = {self.value:z.2f})"

    def _repr_html_(self) -> str:
        header = ["metric", "score", "signature", "detail"]
        return html_table(header, [[self.metric, f"{self.value:z.2f}", self.signature, self.detail]])


def corpus_score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], metric: Metric) -> Score:
    """Score a whole corpus, in percent. Raises DataError if the numbers of sentences differ or are zero."""
    check_aligned(hypotheses, references)
    scorer = build_metric(metric)
    return _score(scorer.corpus_score(hypotheses, references), scorer, metric)


def sentence_scores(hypotheses: Sequence[str], references: Sequence[Sequence[str]], metric: Metric) -> list[Score]:
    """Score each sentence, in percent; the mean is not the corpus score. Raises DataError as `corpus_score` does."""
    check_aligned(hypotheses, references)
    scorer = build_metric(metric, sentence_level=True)
    rows = zip(hypotheses, *references, strict=True)
    return [_score(scorer.sentence_score(hypothesis, accepted), scorer, metric) for hypothesis, *accepted in rows]


def check_aligned(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, names: Sequence[str] | None = None
) -> None:
    """Raise DataError unless hypotheses and references have the same number of sentences, at least one.

    `names` of the hypotheses and of each reference appear in the message.
    """
    first, *others = names or ["hypotheses", *(f"reference {number}" for number, _ in enumerate(references, start=1))]
    if not references:
        raise DataError("no reference is given; give at least one")
    if not hypotheses:
        raise DataError(f"{first}: contains no sentences; give at least one")
    for name, sentences in zip(others, references, strict=True):
        if len(sentences) != len(hypotheses):
            raise DataError(
                f"{name}: {counted(len(sentences), 'sentences')}, but {first} has {len(hypotheses):,}; "
                "they must match one by one"
            )


def _score(computed: SacrebleuScore, scorer: SacrebleuMetric, metric: Metric) -> Score:
    signature, detail = str(scorer.get_signature()), computed._verbose
    return Score(computed.name, float(computed.score), signature, detail, higher_is_better(metric))


def perplexity(cross_entropy: float) -> float:
    """Return $e^H$ of a cross-entropy $H$ in nats, or infinity beyond the range of floats."""
    return math.exp(cross_entropy) if cross_entropy < 700 else math.inf


def sentence_rows(columns: Sequence[Sequence[Score]]) -> list[Row]:
    """Return one row per sentence and one column per metric, with lines from 1; `columns` has one list per metric."""
    return [
        {"line": line, **{score.metric: round(score.value, 4) for score in scores}}
        for line, scores in enumerate(zip(*columns, strict=True), start=1)
    ]
