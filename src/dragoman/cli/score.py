"""`dragoman score`: log-probabilities of given translations, or perplexity."""

from __future__ import annotations

import math
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import (
    BatchTokens,
    ComputeName,
    ComputeOption,
    Device,
    EnsembleRuns,
    FormatOption,
    OutputFile,
    SourceTrees,
    TextFormat,
    config_options,
)
from dragoman.decoding.config import DecodingConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.data.readers.text_lines import ReadWarnings
    from dragoman.decoding import Hypothesis
    from dragoman.inference import Generator, Perplexity


class DocumentsName(StrEnum):
    """Separator of documents in a text file."""

    FILE = "file"
    BLANK_LINE = "blank_line"
    LINE = "line"


SourceFile = Annotated[
    Path | None,
    typer.Option(help="File of source segments, one per line (also .gz, .bz2, .xz, .zst).", show_default=False),
]
TargetFile = Annotated[
    Path,
    typer.Option(help="File of translations, one per line; with --perplexity, a text file.", show_default=False),
]
PerplexityFlag = Annotated[
    bool,
    typer.Option(
        "--perplexity", help="Print the perplexity of the target under a language model; --source has the prompts."
    ),
]
DocumentsOption = Annotated[
    DocumentsName | None, typer.Option(help="Separator of documents in a text file.", show_default="file")
]
Overlap = Annotated[
    int | None,
    typer.Option(min=0, help="Tokens by which consecutive windows of a long text overlap.", show_default="0"),
]


@config_options(DecodingConfig, ("length_penalty", "length_penalty_kind"), into="ranking")
def score(
    model: Annotated[Path, typer.Argument(help="Run folder or exported model.", show_default=False)],
    *,
    beside: EnsembleRuns = None,
    source: SourceFile = None,
    target: TargetFile,
    source_trees: SourceTrees = None,
    perplexity: PerplexityFlag = False,
    documents: DocumentsOption = None,
    overlap: Overlap = None,
    output: OutputFile = "-",
    ranking: dict[str, Any],
    batch_tokens: BatchTokens = None,
    device: Device = None,
    compute: ComputeOption = ComputeName.AUTO,
    format_: FormatOption = TextFormat.TEXT,
) -> None:
    """Print the log-probability of given translations, or the perplexity of a text.

    Each line has the natural log-probability, end symbol included, and the score that `dragoman translate` ranks by,
    separated by a tab. Totals go to standard error. --perplexity evaluates a language model and prints one line.
    """
    _refuse_without_effect(perplexity, source, documents=documents, overlap=overlap, ranked=bool(ranking))
    _refuse_of_translators(perplexity, source_trees, beside)

    from dragoman.cli import streams
    from dragoman.cli.loading import load_as
    from dragoman.data.readers.text_lines import ReadWarnings
    from dragoman.inference import Generator, Translator

    repairs, totals = ReadWarnings(), _Totals()
    if perplexity:
        generator = load_as(Generator, model, device=device, compute=compute, batch_tokens=batch_tokens)
        found = _measured(generator, source, target, documents or DocumentsName.FILE, overlap or 0, repairs)
        lines = iter([_perplexity_line(found, format_)])
    else:
        translator = load_as(
            Translator, model, device=device, compute=compute, batch_tokens=batch_tokens, beside=beside
        )
        pairs, trees = streams.with_trees(
            _pairs(source, target, repairs), source_trees, of=lambda pair: pair[0], name=str(source)
        )
        settings = translator.decoding_config(where="score", **ranking)
        scored = translator.score_stream(pairs, penalty=settings.penalty, trees=trees)
        lines = _lines(totals.counting(scored), format_)
    with closing(streams.counted(lines, "lines", out=output)) as counted, streams.output(output) as stream:
        for line in counted:
            stream.write(line + "\n")
    streams.report_repairs(repairs)
    if not perplexity:
        streams.say(totals.sentence())


def _refuse_without_effect(
    perplexity: bool, source: Path | None, *, documents: DocumentsName | None, overlap: int | None, ranked: bool
) -> None:
    from dragoman.errors import ConfigError

    if perplexity and ranked:
        raise ConfigError("--length-penalty and --length-penalty-kind have no effect with --perplexity; leave them out")
    if perplexity and source is not None and documents is not None:
        raise ConfigError(
            "--documents has no effect with --source, whose lines go with those of --target; leave it out"
        )
    if not perplexity:
        if source is None:
            raise ConfigError(
                "--source is not given, and translations are scored given their sources; add it, or --perplexity"
            )
        for option, value in (("--documents", documents), ("--overlap", overlap)):
            if value is not None:
                raise ConfigError(f"{option} has no effect without --perplexity; leave it out")


def _pairs(source: Path | None, target: Path, repairs: ReadWarnings) -> Iterator[tuple[str, str]]:
    from dragoman.data.readers.corpus import read_corpus
    from dragoman.data.readers.parallel import ParallelFiles

    assert source is not None, "options are checked before files are read"
    return (
        (example.source, example.target)
        for example in read_corpus(ParallelFiles(source=source, target=target), repairs)
    )


def _refuse_of_translators(perplexity: bool, source_trees: Path | None, beside: list[Path] | None) -> None:
    from dragoman.errors import ConfigError

    if perplexity and beside:
        raise ConfigError("--ensemble has no effect with --perplexity, which asks one language model; leave it out")
    if perplexity and source_trees is not None:
        raise ConfigError("--source-trees has no effect with --perplexity, for language models read none; leave it out")


def _measured(
    generator: Generator, source: Path | None, target: Path, ends: DocumentsName, overlap: int, repairs: ReadWarnings
) -> Perplexity:
    """Measure the perplexity of texts, or of continuations given their prompts."""
    from dragoman.data.readers.text import TextFile, read_texts
    from dragoman.errors import DataError

    if source is not None:
        pairs = list(_pairs(source, target, repairs))
        prompts, texts = [prompt for prompt, _ in pairs], [text for _, text in pairs]
    else:
        documents: list[list[str]] = []
        for passage in read_texts(TextFile(path=target, documents=ends.value), repairs):
            if passage.is_first:
                documents.append([])
            documents[-1].append(passage.text)
        prompts, texts = None, ["".join(passages) for passages in documents]
    if not texts:
        raise DataError(f"{target}: holds no text to measure perplexity on; give another file")
    return generator.perplexity(texts, prompts=prompts, overlap=overlap)


def _perplexity_line(found: Perplexity, format_: TextFormat) -> str:
    import json

    if format_ is TextFormat.JSONL:
        numbers = {
            "perplexity": found.perplexity,
            "nats_per_token": found.nats_per_token,
            "bits_per_byte": found.bits_per_byte,
            "tokens": found.tokens,
            "bytes": found.bytes,
        }
        return json.dumps({name: number if math.isfinite(number) else None for name, number in numbers.items()})
    return (
        f"perplexity {found.perplexity:,.4f}: {found.nats_per_token:.4f} nats a token, {found.bits_per_byte:.4f} bits "
        f"a byte, {found.tokens:,} tokens with end symbols"
    )


class _Totals:
    """Totals over all targets."""

    def __init__(self) -> None:
        self._lines = 0
        self._tokens = 0
        self._log_prob = 0.0

    def counting(self, scored: Iterator[Hypothesis]) -> Iterator[Hypothesis]:
        for hypothesis in scored:
            self._lines += 1
            self._tokens += hypothesis.length
            self._log_prob += hypothesis.log_prob
            yield hypothesis

    def sentence(self) -> str:
        """Return lines, tokens and perplexity as text; end symbols count as tokens."""
        from dragoman.evaluation import perplexity

        if not self._tokens:
            return "0 lines"
        each = self._log_prob / self._tokens
        return (
            f"{self._lines:,} lines, {self._tokens:,} tokens with end symbols: log-probability {self._log_prob:,.3f}, "
            f"{each:.4f} a token, perplexity {perplexity(-each):,.4f}"
        )


def _lines(scored: Iterator[Hypothesis], format_: TextFormat) -> Iterator[str]:
    import json

    for number, one in enumerate(scored, start=1):
        if format_ is TextFormat.JSONL:
            row = {"line": number, "log_prob": one.log_prob, "score": one.score, "tokens": one.length}
            yield json.dumps(row | {"token_log_probs": list(one.token_log_probs)})
        else:
            yield f"{one.log_prob:.6f}\t{one.score:.6f}"
