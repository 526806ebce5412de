"""`dragoman evaluate`: score translations against references."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, assert_never

import typer

from dragoman.cli.options import EnsembleRuns, SourceTrees, config_options
from dragoman.decoding.config import DecodingConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.evaluation import Metric, Score


class MetricName(StrEnum):
    """Metrics of `--metric`."""

    BLEU = "bleu"
    CHRF = "chrf"
    CHRF_PLUS_PLUS = "chrf++"
    TER = "ter"
    EXACT = "exact"
    ROUGE_1 = "rouge1"
    ROUGE_2 = "rouge2"
    ROUGE_L = "rougeL"


class PerturbationName(StrEnum):
    """Perturbations of `--perturb`, a part of those of `data.noise`."""

    CAPITALS = "capitals"
    NO_END_MARKS = "no-end-marks"
    TYPOS = "typos"


Perturb = Annotated[
    PerturbationName | None,
    typer.Option(
        help="Perturb each source sentence: all capitals, no final punctuation, or one typing error.",
        show_default=False,
    ),
]
Reference = Annotated[
    list[str],
    typer.Option("--reference", "-r", help="File of references, one per line (repeatable for several references)."),
]
MetricNames = Annotated[list[MetricName], typer.Option("--metric", "-m", help="Metric (repeatable).")]
Tokenize = Annotated[
    str | None,
    typer.Option(
        help="Tokenizer of BLEU: 13a (default), none, intl, char, zh, ja-mecab, ko-mecab, flores101, flores200."
    ),
]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Ignore case.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DEFAULT_METRICS = [MetricName.BLEU, MetricName.CHRF]


@config_options(DecodingConfig, ("beam_size", "method"), into="decoding")
def evaluate(
    run: Annotated[Path | None, typer.Argument(help="Run folder that translates --source.")] = None,
    *,
    reference: Reference,
    hypothesis: Annotated[str | None, typer.Option(help="File of translations; - is standard input.")] = None,
    source: Annotated[str | None, typer.Option(help="Source side of the test set.")] = None,
    source_trees: SourceTrees = None,
    beside: EnsembleRuns = None,
    decoding: dict[str, Any],
    perturb: Perturb = None,
    metric: MetricNames = DEFAULT_METRICS,
    tokenize: Tokenize = None,
    lowercase: Lowercase = False,
    sentence: Annotated[bool, typer.Option("--sentence", help="Also print the scores of each sentence.")] = False,
    json: Json = False,
) -> None:
    """Score translations, or a run on a test set, against references.

    Prints each score with its sacreBLEU signature.
    """
    from dragoman.cli import streams
    from dragoman.evaluation import check_aligned, corpus_score, sentence_scores

    metrics = chosen_metrics(metric, tokenize=tokenize, lowercase=lowercase)
    references = [streams.read_all(name) for name in reference]
    options = {
        "--source-trees": source_trees,
        "--ensemble": beside,
        "--beam-size": decoding.get("beam_size"),
        "--decoding": decoding.get("method"),
        "--perturb": perturb,
    }
    name = _given(run, hypothesis=hypothesis, source=source, options=options)
    sentences = streams.read_all(name)
    check_aligned(sentences, references, names=[name, *reference])
    if perturb is not None:
        sentences = _perturbed(sentences, perturb)
    trees = None if source_trees is None else _trees(sentences, source_trees, name)
    outputs = sentences if run is None else _translated(run, sentences, trees, beside=beside, decoding=decoding)
    scores = [corpus_score(outputs, references, one) for one in metrics]
    columns = [sentence_scores(outputs, references, one) for one in metrics] if sentence else []
    if json:
        _print_json(scores, columns)
    else:
        _print_table(scores, columns)


def chosen_metrics(names: Sequence[MetricName], *, tokenize: str | None, lowercase: bool) -> list[Metric]:
    """Return the metric configurations, each once. Raises ConfigError on options without effect."""
    from dragoman.errors import ConfigError

    if tokenize is not None and MetricName.BLEU not in names:
        raise ConfigError("--tokenize: only BLEU splits words; add --metric bleu, or leave --tokenize out")
    return [_settings(name, tokenize=tokenize, lowercase=lowercase) for name in dict.fromkeys(names)]


def _settings(name: MetricName, *, tokenize: str | None, lowercase: bool) -> Metric:
    from dragoman.config import parse
    from dragoman.evaluation import Bleu, Chrf, ChrfPlusPlus, ExactMatch, Rouge, Ter

    match name:
        case MetricName.BLEU:
            return parse(Bleu, {"lowercase": lowercase} | ({} if tokenize is None else {"tokenize": tokenize}))
        case MetricName.CHRF:
            return Chrf(lowercase=lowercase)
        case MetricName.CHRF_PLUS_PLUS:
            return ChrfPlusPlus(lowercase=lowercase)
        case MetricName.TER:
            return Ter()  # in lower case always, as Tercom and sacreBLEU have it
        case MetricName.EXACT:
            return ExactMatch(lowercase=lowercase)
        case MetricName.ROUGE_1 | MetricName.ROUGE_2 | MetricName.ROUGE_L:
            return Rouge.model_validate({"variant": name.value.removeprefix("rouge")})  # in lower case always
        case _:
            assert_never(name)


def _given(run: Path | None, *, hypothesis: str | None, source: str | None, options: Mapping[str, object]) -> str:
    """The file to read: of outputs, or of what a run is to translate, as the options say.

    Raises ConfigError on neither and on both, and on options that do not go together.
    """
    from dragoman.errors import ConfigError

    if hypothesis is not None:
        if any(given is not None for given in (run, source, *options.values())):
            *others, last = options
            raise ConfigError(
                f"evaluate takes --hypothesis, or a run with --source, {', '.join(others)} and {last}, not both; leave "
                "one out"
            )
        return hypothesis
    if run is None or source is None:
        raise ConfigError("evaluate needs outputs: give --hypothesis FILE, or a run folder and --source FILE")
    if options["--perturb"] is not None and options["--source-trees"] is not None:
        raise ConfigError("--perturb changes the words that --source-trees is about; leave one of them out")
    return source


def _trees(sentences: list[str], source_trees: Path, name: str) -> list[Sequence[int]]:
    """Return the dependency heads of each sentence."""
    from dragoman.data.readers.conllu import read_heads

    return list(read_heads(sentences, source_trees, name=name))


def _perturbed(sentences: Sequence[str], kind: PerturbationName) -> list[str]:
    """Perturb each sentence deterministically and report how many sentences changed."""
    from dragoman.cli import streams
    from dragoman.data.augmentation import perturb_text

    faulty = [perturb_text(text, kind.value, number=number) for number, text in enumerate(sentences)]
    changed = sum(one != other for one, other in zip(sentences, faulty, strict=True))
    streams.say(f"{kind.value}: {changed:,} of {len(sentences):,} sentences are changed before they are translated")
    return faulty


def _translated(
    run: Path,
    sentences: list[str],
    trees: list[Sequence[int]] | None,
    *,
    beside: list[Path] | None,
    decoding: dict[str, Any],
) -> list[str]:
    from dragoman.cli.loading import load_as
    from dragoman.inference.translator import Translator

    translator = load_as(Translator, run, beside=beside)
    settings = translator.decoding_config(where="evaluate", **decoding)
    return [best.text for best, *_ in translator.translate_n_best(sentences, settings, trees=trees)]


def _print_json(scores: Sequence[Score], columns: Sequence[Sequence[Score]]) -> None:
    import json

    from dragoman.evaluation import score_rows, sentence_rows

    answer = {"scores": score_rows(scores)} | ({"sentences": sentence_rows(columns)} if columns else {})
    print(json.dumps(answer, ensure_ascii=False, indent=2))


def _print_table(scores: Sequence[Score], columns: Sequence[Sequence[Score]]) -> None:
    """Print the sentence scores as tab-separated lines, then the corpus scores as a table."""
    from rich.console import Console
    from rich.table import Table

    if columns:
        print("\t".join(["line", *(score.metric for score in scores)]))
        for line, row in enumerate(zip(*columns, strict=True), start=1):
            print("\t".join([str(line), *(f"{score.value:.2f}" for score in row)]))
        print()
    table = Table("metric", "score", "signature", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    table.columns[2].overflow = "fold"
    for score in scores:
        table.add_row(score.metric, f"{score.value:.2f}", score.signature)
    Console().print(table)
