"""`dragoman translate`: translate text with a trained model."""

from __future__ import annotations

import sys
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

    from dragoman.inference import Translation
    from dragoman.inference.segmentation import Split

ENDS_OF_LINES = {ord("\n"): " ", ord("\r"): " "}


class SplitName(StrEnum):
    """Unit of the segmentation."""

    SENTENCES = "sentences"


Model = Annotated[Path, typer.Argument(help="Run folder or exported model.", show_default=False)]
Input = Annotated[
    str,
    typer.Option(
        "--input", "-i", help="File of segments, one per line (also .gz, .bz2, .xz, .zst); - is standard input."
    ),
]
Scores = Annotated[
    bool, typer.Option("--scores", help="Print score and log-probability before each translation, separated by tabs.")
]
SplitOption = Annotated[
    SplitName | None,
    typer.Option(
        "--split", help="Translate each line sentence by sentence, and keep what stands between.", show_default=False
    ),
]
Language = Annotated[str | None, typer.Option(help="Language code of the source, for --split.", show_default="en")]
ShortlistOption = Annotated[
    bool,
    typer.Option("--shortlist", help="Restrict the output vocabulary to the model's lexical shortlist of each source."),
]


DECODING = (
    "beam_size",
    "length_penalty",
    "length_penalty_kind",
    "method",
    "min_length",
    "max_length",
    "max_length_ratio",
    "allow_unk",
)


@config_options(DecodingConfig, ("n_best",), into="returned", default="1")
@config_options(DecodingConfig, DECODING, into="decoding")
def translate(
    model: Model,
    *,
    beside: EnsembleRuns = None,
    input_: Input = "-",
    source_trees: SourceTrees = None,
    split: SplitOption = None,
    language: Language = None,
    output: OutputFile = "-",
    decoding: dict[str, Any],
    returned: dict[str, int],
    batch_tokens: BatchTokens = None,
    shortlist: ShortlistOption = False,
    device: Device = None,
    compute: ComputeOption = ComputeName.AUTO,
    scores: Scores = False,
    format_: FormatOption = TextFormat.TEXT,
) -> None:
    """Translate text, one segment per line.

    The output has the order of the input; empty lines produce empty lines. Decoding options that are not given have
    the values under `decoding` in the run's configuration.

    With --n-best, each hypothesis is a line of the segment number (from 0), text, log-probability and score, separated
    by bars as in Moses and Marian. With --split, the log-probability of a line is the sum over its sentences.
    """
    from dragoman.cli import streams
    from dragoman.cli.loading import collect_seldom, load_as
    from dragoman.data.readers.text_lines import ReadWarnings

    collect_seldom()
    n_best = returned.get("n_best", 1)
    _refuse_without_effect(scores=scores, n_best=n_best, format_=format_)

    from dragoman.inference.translator import STREAM_CHUNK, Translator

    translator = load_as(Translator, model, device=device, compute=compute, batch_tokens=batch_tokens, beside=beside)
    settings = translator.decoding_config(where="translate", **decoding, n_best=n_best)
    if shortlist:
        from dragoman.runs.folder import RunFolder
        from dragoman.runs.load import load_shortlist

        translator = load_shortlist(translator, RunFolder(model))
    repairs = ReadWarnings()
    read = streams.read_lines(input_, repairs)
    texts, trees = streams.with_trees(read, source_trees, of=str, name=input_)
    typed = input_ == streams.STANDARD and sys.stdin.isatty()
    chunk = 1 if typed else STREAM_CHUNK
    cut: Split | None = None if split is None else "sentences"
    translations = translator.stream_n_best(texts, settings, chunk=chunk, trees=trees, split=cut, language=language)
    lines = _json_lines(translations) if format_ is TextFormat.JSONL else _text_lines(translations, n_best, scores)
    total = streams.number_of_lines(input_)
    with closing(streams.counted(lines, "lines", out=output, total=total)) as counted, streams.output(output) as stream:
        for line in counted:
            stream.write(line + "\n")
    streams.report_repairs(repairs)


def _refuse_without_effect(*, scores: bool, n_best: int, format_: TextFormat) -> None:
    from dragoman.errors import ConfigError

    if scores and format_ is TextFormat.JSONL:
        raise ConfigError("--scores has no effect with --format jsonl, which holds them always; leave --scores out")
    if scores and n_best > 1:
        raise ConfigError("--scores has no effect with --n-best, which prints them always; leave --scores out")


def _text_lines(found: Iterator[list[Translation]], n_best: int, scores: bool) -> Iterator[str]:
    for number, translations in enumerate(found):
        best = translations[0]
        if n_best > 1:
            yield "\n".join(
                f"{number} ||| {_in_one_line(one.text)} "
                f"||| log_prob= {one.hypothesis.log_prob:.6f} ||| {one.hypothesis.score:.6f}"
                for one in translations
            )
        elif scores:
            yield f"{best.hypothesis.score:.6f}\t{best.hypothesis.log_prob:.6f}\t{_in_one_line(best.text)}"
        else:
            yield _in_one_line(best.text)


def _in_one_line(text: str) -> str:
    """Replace line breaks in a translation, so that output lines stay aligned with input lines."""
    return text.translate(ENDS_OF_LINES)


def _json_lines(found: Iterator[list[Translation]]) -> Iterator[str]:
    import json

    for number, translations in enumerate(found, start=1):
        row = {"line": number, "translations": [_json_tree(one) for one in translations]}
        yield json.dumps(row, ensure_ascii=False)


def _json_tree(translation: Translation) -> dict[str, Any]:
    hypothesis = translation.hypothesis
    return {
        "text": translation.text,
        "score": hypothesis.score,
        "log_prob": hypothesis.log_prob,
        "finished": hypothesis.finished,
        "tokens": list(translation.tokens),
        "token_log_probs": list(hypothesis.token_log_probs),
    }
