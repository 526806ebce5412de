"""`dragoman score`: how probable given translations are to a trained run."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import (
    BatchTokens,
    Device,
    FormatOption,
    LengthPenalty,
    NormalisationName,
    NormalisationOption,
    OutputFile,
    TextFormat,
    normalisation_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.decoding import Hypothesis

SourceFile = Annotated[Path, typer.Option(help="File of texts, one a line (.gz, .xz, .zst too).", show_default=False)]
TargetFile = Annotated[Path, typer.Option(help="File of their translations, one a line.", show_default=False)]


def score(
    model: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    *,
    source: SourceFile,
    target: TargetFile,
    output: OutputFile = "-",
    normalisation: NormalisationOption = NormalisationName.AVERAGE,
    length_penalty: LengthPenalty = None,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    format_: FormatOption = TextFormat.TEXT,
) -> None:
    """Print the log-probability of each target given its source, and its score, between tabs; totals to standard error.

    The log-probability (natural logarithm) counts the end symbol; the score is the one that translate ranks by.
    """
    from dragoman.cli import streams
    from dragoman.data.corpora import ParallelFiles, Repairs, read

    settings = normalisation_of(normalisation, length_penalty)

    from dragoman.experiment.load import load
    from dragoman.runtime.translator import BATCH_TOKENS

    translator = load(model, device=device, batch_tokens=batch_tokens or BATCH_TOKENS)
    repairs = Repairs()
    pairs = ((example.source, example.target) for example in read(ParallelFiles(source=source, target=target), repairs))
    totals = _Totals()
    lines = _lines(totals.counting(translator.score_stream(pairs, normalisation=settings)), format_)
    with closing(streams.counted(lines, "lines", out=output)) as counted, streams.output(output) as stream:
        for line in counted:
            stream.write(line + "\n")
    streams.report_repairs(repairs)
    streams.say(totals.sentence())


class _Totals:
    """What the whole of the targets comes to."""

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
        """Lines, tokens, and the perplexity of a token; end symbols count as tokens."""
        if not self._tokens:
            return "0 lines"
        each = self._log_prob / self._tokens
        perplexity = f"{math.exp(-each):,.4f}" if each > -700 else "beyond 1e304"
        return (
            f"{self._lines:,} lines, {self._tokens:,} tokens with end symbols: log-probability {self._log_prob:,.3f}, "
            f"{each:.4f} a token, perplexity {perplexity}"
        )


def _lines(scored: Iterator[Hypothesis], format_: TextFormat) -> Iterator[str]:
    import json

    for number, one in enumerate(scored, start=1):
        if format_ is TextFormat.JSONL:
            row = {"line": number, "log_prob": one.log_prob, "score": one.score, "tokens": one.length}
            yield json.dumps(row | {"token_log_probs": list(one.token_log_probs)})
        else:
            yield f"{one.log_prob:.6f}\t{one.score:.6f}"
