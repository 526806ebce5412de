"""`dragoman classify`: label texts or words."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import BatchTokens, Device, FormatOption, OutputFile, TextFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dragoman.inference import Classification, Classifier, Tag, Tagger

Model = Annotated[Path, typer.Argument(help="Run folder or exported model.", show_default=False)]
Input = Annotated[
    str,
    typer.Option(
        "--input", "-i", help="File of segments, one per line (also .gz, .bz2, .xz, .zst); - is standard input."
    ),
]
All = Annotated[bool, typer.Option("--all", help="Print all labels with their probabilities, most probable first.")]


def classify(
    model: Model,
    *,
    input_: Input = "-",
    output: OutputFile = "-",
    all_: All = False,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    format_: FormatOption = TextFormat.TEXT,
) -> None:
    """Print the label of each text, or of each word, with its probability.

    A classifier prints one tab-separated line per text. A tagger prints one line per word and an empty line after each
    text; words are separated by spaces in the input.
    """
    from dragoman.cli import streams
    from dragoman.data.readers.text_lines import ReadWarnings

    loaded = _loaded(model, device=device, batch_tokens=batch_tokens)
    repairs = ReadWarnings()
    texts = streams.read_lines(input_, repairs)
    typed = input_ == streams.STANDARD and sys.stdin.isatty()
    lines = _lines(loaded, texts, typed=typed, every=all_, format_=format_)
    with closing(streams.counted(lines, "lines", out=output)) as counted, streams.output(output) as stream:
        for line in counted:
            stream.write(line + "\n")
    streams.report_repairs(repairs)


def _loaded(run: Path, *, device: str | None, batch_tokens: int | None) -> Classifier | Tagger:
    from dragoman.cli.loading import VERBS, load_as
    from dragoman.errors import RunError
    from dragoman.inference import Classifier, Tagger

    loaded = load_as(object, run, device=device, batch_tokens=batch_tokens)
    if isinstance(loaded, Classifier | Tagger):
        return loaded
    found = type(loaded).__name__
    raise RunError(
        f"{run}: is a {found.lower()}, and this needs a classifier or a tagger; "
        f"use it with: dragoman {VERBS.get(found, 'info')} {run}"
    )


def _lines(
    loaded: Classifier | Tagger, texts: Iterable[str], *, typed: bool, every: bool, format_: TextFormat
) -> Iterator[str]:
    from dragoman.errors import ConfigError
    from dragoman.inference import Tagger

    chunk = {"chunk": 1} if typed else {}
    if isinstance(loaded, Tagger):
        if every:
            raise ConfigError("--all has no effect on a run that labels words; leave it out")
        tagged = loaded.tag_stream((text.split() for text in texts), **chunk)
        return _json_of_words(tagged) if format_ is TextFormat.JSONL else _text_of_words(tagged)
    found = loaded.classify_stream(texts, **chunk)
    return _json_of_texts(found) if format_ is TextFormat.JSONL else _text_of_texts(found, every)


def _text_of_texts(found: Iterator[Classification], every: bool) -> Iterator[str]:
    for one in found:
        shown = one.probabilities if every else {one.label: one.probability}
        yield "\t".join(f"{label}\t{probability:.6f}" for label, probability in shown.items())


def _json_of_texts(found: Iterator[Classification]) -> Iterator[str]:
    import json

    for number, one in enumerate(found, start=1):
        row = {"line": number, "label": one.label, "probability": one.probability}
        yield json.dumps({**row, "probabilities": dict(one.probabilities)}, ensure_ascii=False)


def _text_of_words(found: Iterator[list[Tag]]) -> Iterator[str]:
    for tags in found:
        yield "".join(f"{tag.word}\t{tag.label}\t{tag.probability:.6f}\n" for tag in tags)


def _json_of_words(found: Iterator[list[Tag]]) -> Iterator[str]:
    import json

    for number, tags in enumerate(found, start=1):
        words = [{"word": tag.word, "label": tag.label, "probability": tag.probability} for tag in tags]
        yield json.dumps({"line": number, "words": words}, ensure_ascii=False)
