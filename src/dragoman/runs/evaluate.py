"""Evaluate runs on test sets, and analyze their errors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from pydantic import TypeAdapter, ValidationError

from dragoman.config import Config
from dragoman.data.readers.line_reader import read_lines
from dragoman.data.readers.parallel import read_corpus
from dragoman.data.readers.recognize_format import recognize_pairs
from dragoman.data.tokenizers import Direction, LanguageTokenizer
from dragoman.errors import ConfigError
from dragoman.evaluation import (
    Bleu,
    Metric,
    MetricName,
    PairedResult,
    Score,
    check_aligned,
    compare_systems,
    corpus_score,
    require_metrics,
)
from dragoman.evaluation.error_analysis import ErrorAnalysis, analyze_errors
from dragoman.inference.length_batches import text_list
from dragoman.inference.translation_options import DecodingOptions, LanguageOptions, TranslationOptions
from dragoman.inference.translator import Translator
from dragoman.interpret.attention_recorder import ForwardPass, record_pairs
from dragoman.interpret.report.serialization import SentencePasses
from dragoman.runs.load import load


class EvaluationOptions(DecodingOptions, LanguageOptions, total=False):
    """Options of the translation of a test set."""


METRIC: TypeAdapter[Metric] = TypeAdapter(Metric)


def evaluate(
    run: str | Path,
    *,
    source: str | Path | Iterable[str] | None = None,
    reference: str | Path | Iterable[str] | None = None,
    pairs: str | Path | None = None,
    metrics: MetricName | Metric | Sequence[MetricName | Metric] = ("bleu", "chrf"),
    device: str | None = None,
    **decoding: Unpack[EvaluationOptions],
) -> list[Score]:
    """Translate a test set with a run and score it against references.

    `source` and `reference` are files or lists of texts, or `pairs` is one file with both, in the formats of
    `dragoman.train`; `metrics` are names such as `bleu`, `chrf`, `ter` or `exact`, or their configurations; `decoding`
    options are those of `Translator.translate`, such as `beam_size`. Raises ConfigError if a metric is unknown or there
    is no test set, RunError if the run is no translator, DataError if the numbers of texts differ.
    """
    sources, references = read_test_set(source, reference, pairs)
    configs = [_parse_metric(one) for one in ([metrics] if isinstance(metrics, str | Config) else metrics)]
    if not configs:
        raise ConfigError("metrics is empty. Name at least one, such as bleu.")
    require_metrics(configs)
    translator = load(run, Translator, device=device)
    outputs = [result.text for result in translator.translate(sources, **decoding)]
    return [corpus_score(outputs, [references], config) for config in configs]


def _parse_metric(name: MetricName | Metric) -> Metric:
    try:
        return METRIC.validate_python(name if isinstance(name, Config) else {"kind": str(name).lower()})
    except ValidationError as error:
        known = error.errors()[0].get("ctx", {}).get("expected_tags", "")
        raise ConfigError(f"metrics: {name!r} is not a metric. Choose among {known}.") from error


def read_test_set(
    source: str | Path | Iterable[str] | None, reference: str | Path | Iterable[str] | None, pairs: str | Path | None
) -> tuple[list[str], list[str]]:
    """Return the sources and references of a test set, in one file or two. Raises ConfigError without one."""
    if pairs is not None:
        if source is not None or reference is not None:
            raise ConfigError("pairs contains sources and references. Leave source and reference out.")
        examples = list(read_corpus(recognize_pairs(Path(pairs), options=("source", "reference"))))
        return [one.source for one in examples], [one.target for one in examples]
    if source is None or reference is None:
        raise ConfigError("The test set is missing. Give source and reference, or pairs.")
    sources, references = _read_lines(source, name="source"), _read_lines(reference, name="reference")
    check_aligned(sources, [references], names=[_name(source, "source"), _name(reference, "reference")])
    return sources, references


def _name(texts: str | Path | Iterable[str], argument: str) -> str:
    """Return the name of texts in messages: that of their file, or of their argument."""
    return str(texts) if isinstance(texts, str | Path) else argument


def _read_lines(texts: str | Path | Iterable[str], *, name: str) -> list[str]:
    if isinstance(texts, str | Path):
        return [line for _, line in read_lines(Path(texts))]
    return text_list(texts, name=name)


@dataclass(frozen=True)
class SystemAnalysis:
    """Errors of a system, its outputs, and the attention of its worst sentences if it is a run."""

    analysis: ErrorAnalysis
    passes: SentencePasses
    outputs: Sequence[str]


def compare_bleu(systems: Sequence[SystemAnalysis], references: Sequence[str]) -> list[PairedResult]:
    """Compare the BLEU of every system with the first by two significance tests; empty for a single system."""
    if len(systems) < 2:
        return []
    return compare_systems({str(number): one.outputs for number, one in enumerate(systems)}, [references], [Bleu()])


def analyse_run(
    name: str,
    translator: Translator,
    *,
    sources: Sequence[str],
    references: Sequence[str],
    frequencies: Mapping[str, int] | None,
    worst: int,
    options: TranslationOptions,
) -> SystemAnalysis:
    """Translate the sources with these options and analyze the outputs, with the attention of the `worst` sentences."""
    found = [best for best, *_ in translator.translate(sources, **options)]
    languages = options.get("source_language"), options.get("target_language")
    direction = translator.tokenizer.prefixes.resolve(*languages)
    outputs = [one.text for one in found]
    analysis = analyze_errors(
        name, outputs, sources=sources, references=references, frequencies=frequencies, worst=worst
    )
    passes = {
        bad.index: _record_attention(translator, direction, bad.source, list(found[bad.index].hypothesis.tokens))
        for bad in analysis.worst
        if bad.source.strip() and len(translator.tokenizer.source.encode(bad.source)) <= translator.max_segment_length
    }
    return SystemAnalysis(analysis, passes, outputs)


def _record_attention(
    translator: Translator, direction: Direction, source: str, output: list[int]
) -> tuple[list[str], list[str], ForwardPass]:
    tokenizer = translator.tokenizer
    [ids] = direction.encode_sources(tokenizer.source, [source])
    (passed,) = record_pairs(translator.model, [ids], [output])
    return _display_tokens(tokenizer.source, passed.source), _display_tokens(tokenizer.target, passed.target), passed


def _display_tokens(side: LanguageTokenizer, ids: Sequence[int]) -> list[str]:
    return [token.strip("▁ ") or token for token in side.ids_to_tokens(ids)]
