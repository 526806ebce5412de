"""What can be measured on outputs: the settings of each metric, beside the sacreBLEU object that they stand for."""

from typing import Annotated, Literal, assert_never

from pydantic import BeforeValidator, Field
from sacrebleu.metrics.base import Metric as Measure
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.config import Config
from dragoman.errors import ConfigError
from dragoman.evaluation.exact_match import ExactMatchMeasure
from dragoman.evaluation.rouge import RougeMeasure, Variant

Tokenisation = Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200"]


class Bleu(Config):
    """BLEU (Papineni et al., 2002), as sacreBLEU defines it (Post, 2018)."""

    kind: Literal["bleu"] = "bleu"
    tokenize: Tokenisation = Field(
        default="13a", description="How sacreBLEU splits words; `none` for text tokenised already."
    )
    lowercase: bool = Field(default=False, description="Compare in lower case.")
    smoothing: Literal["exp", "floor", "add-k", "none"] = Field(
        default="exp", description="What an n-gram never matched counts."
    )
    order: int = Field(default=4, ge=1, description="The longest n-gram.")


class Chrf(Config):
    """chrF (Popović, 2015): F-score over character n-grams, with recall weighted `beta` times."""

    kind: Literal["chrf"] = "chrf"
    lowercase: bool = Field(default=False, description="Compare in lower case.")
    order: int = Field(default=6, ge=1, description="The longest character n-gram.")
    beta: int = Field(default=2, ge=1, description="How many times recall counts beside precision.")


class ChrfPlusPlus(Config):
    """chrF++ (Popović, 2017): chrF with word unigrams and bigrams added."""

    kind: Literal["chrf++"] = "chrf++"
    lowercase: bool = Field(default=False, description="Compare in lower case.")
    order: int = Field(default=6, ge=1, description="The longest character n-gram.")
    beta: int = Field(default=2, ge=1, description="How many times recall counts beside precision.")


class Ter(Config):
    """Translation edit rate (Snover et al., 2006): edits and shifts for 100 words of the reference; lower is better.

    In lower case by default, as Tercom and sacreBLEU do.
    """

    kind: Literal["ter"] = "ter"
    lowercase: bool = Field(default=True, description="Compare in lower case.")
    normalise: bool = Field(default=False, description="Split punctuation from words first, as Tercom's `-N`.")
    punctuation: bool = Field(default=True, description="Count punctuation.")


class ExactMatch(Config):
    """The percentage of outputs that equal one of their references, white space at the ends aside."""

    kind: Literal["exact"] = "exact"
    lowercase: bool = Field(default=False, description="Compare in lower case.")


class Rouge(Config):
    """ROUGE (Lin, 2004): F1 of shared words or word pairs, or of the longest common subsequence; by rouge-score.

    It sees the letters a to z and digits alone, always in lower case.
    """

    kind: Literal["rouge"] = "rouge"
    variant: Annotated[Variant, BeforeValidator(str)] = Field(
        default="L",
        description="Words (1), pairs (2), the longest common subsequence (L), or that of each line (Lsum).",
    )
    stemmer: bool = Field(default=False, description="Compare stems of English words (Porter, 1980).")


Metric = Annotated[Bleu | Chrf | ChrfPlusPlus | Ter | ExactMatch | Rouge, Field(discriminator="kind")]
"""The settings of any metric, told apart by `kind`."""


def measure(metric: Metric, *, one_sentence: bool = False) -> Measure:
    """The sacreBLEU object that computes a metric; sentence-level BLEU leaves out the orders longer than the sentence.

    Raises ConfigError when a tokenisation needs a library or a model that is not there, and MissingExtraError when
    ROUGE does.
    """
    match metric:
        case Bleu():
            return _bleu(metric, effective_order=one_sentence)
        case Chrf():
            return CHRF(char_order=metric.order, beta=metric.beta, lowercase=metric.lowercase)
        case ChrfPlusPlus():
            return CHRF(char_order=metric.order, word_order=2, beta=metric.beta, lowercase=metric.lowercase)
        case Ter():
            return TER(
                case_sensitive=not metric.lowercase, normalized=metric.normalise, no_punct=not metric.punctuation
            )
        case ExactMatch():
            return ExactMatchMeasure(lowercase=metric.lowercase)
        case Rouge():
            return RougeMeasure(variant=metric.variant, stemmer=metric.stemmer)
        case _:
            assert_never(metric)


def higher_is_better(metric: Metric) -> bool:
    """Whether a greater value is a better output: of all metrics only TER counts errors."""
    return not isinstance(metric, Ter)


def _bleu(metric: Bleu, *, effective_order: bool) -> BLEU:
    try:
        return BLEU(
            tokenize=metric.tokenize,
            lowercase=metric.lowercase,
            smooth_method=metric.smoothing,
            max_ngram_order=metric.order,
            effective_order=effective_order,
            force=True,  # text that is tokenised already is a setting here (`none`), not a slip to be warned of
        )
    except (ImportError, RuntimeError) as error:
        raise ConfigError(
            f"tokenize = {metric.tokenize}: needs an optional library; install it with: {_install(metric.tokenize)}"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"tokenize = {metric.tokenize}: its model cannot be fetched ({error}); connect once, or choose 13a or intl"
        ) from error


def _install(tokenisation: Tokenisation) -> str:
    match tokenisation:
        case "ja-mecab":
            return "pip install 'sacrebleu[ja]'"
        case "ko-mecab":
            return "pip install 'sacrebleu[ko]'"
        case _:
            return "pip install sentencepiece"
