"""`dragoman translate`: translate text with a trained model."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dragoman.cli import options, text_io
from dragoman.cli.load_run import load_as
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.decoding.config import DecodingConfig, replace_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.inference import Translation

Scores = Annotated[bool, typer.Option("--scores", help="Print score and log-probability before each translation.")]
Language = Annotated[str | None, typer.Option(help="Language code of the source, for --split.", show_default="en")]
ShortlistFlag = Annotated[bool, typer.Option("--shortlist", help="Allow only words of the model's lexical shortlist.")]


@options.shared_options(options.LOADING, into="loading")
@options.config_options(DecodingConfig, ("n_best",), into="returned", default="1", panel=options.RUN_PANEL)
@options.config_options(DecodingConfig, options.DECODING, into="decoding")
@options.shared_options(options.LANGUAGES, into="languages")
def translate(
    run: options.RunArgument,
    *,
    text: options.TextsOption = None,
    input_: options.InputFile = "-",
    source_features: options.SourceFeaturesOption = None,
    split: Annotated[Literal["sentences"] | None, typer.Option(help="Translate sentence by sentence.")] = None,
    language: Language = None,
    languages: dict[str, Any],
    output: options.OutputFile = "-",
    decoding: dict[str, Any],
    returned: dict[str, int],
    shortlist: ShortlistFlag = False,
    loading: dict[str, Any],
    scores: Scores = False,
    format_: options.FormatOption = "text",
) -> None:
    """Translate text, one segment per line.

    The output has the order of the input; empty lines produce empty lines. Decoding options that are not given have
    the values under `decoding` in the run's configuration.

    With --scores, tabs separate score, log-probability and translation. With --n-best, each hypothesis is a line of
    the segment number (from 0), text, log-probability and score, separated by bars as in Moses and Marian. With
    --split, the log-probability of a line is the sum over its sentences.
    """
    gc.set_threshold(20_000)  # imports create many objects and no garbage
    from dragoman.inference.text_segmentation import build_splitter
    from dragoman.inference.translator import STREAM_CHUNK, Translator

    if split is None:
        options.refuse({"language": language}, "without --split")
    n_best = returned.get("n_best", 1)
    if format_ == "jsonl":
        options.refuse({"scores": scores}, "with --format jsonl, which contains the scores")
    if n_best > 1:
        options.refuse({"scores": scores}, "with --n-best, which prints the scores")
    build_splitter(split, language)  # so that an error comes before the model is loaded
    translator = load_as(Translator, run, shortlist=shortlist or None, **loading)
    config = replace_options(translator.config, {**decoding, "n_best": n_best}, where="translate")
    warnings = ReadWarnings()
    texts, features = text_io.with_source_features(
        text_io.read_given(text, input_, warnings), source_features, text_of=str, name=input_
    )
    chunk = 1 if not text and text_io.is_typed(input_) else STREAM_CHUNK
    found = translator.translate_stream(
        texts, config, chunk=chunk, source_features=features, split=split, language=language, **languages
    )
    lines = text_io.json_lines(found) if format_ == "jsonl" else _text_lines(found, n_best, scores)
    text_io.write_lines(lines, output, warnings, total=len(text) if text else text_io.count_lines(input_))


def _text_lines(found: Iterator[Sequence[Translation]], n_best: int, scores: bool) -> Iterator[str]:
    for number, translations in enumerate(found):
        rows = []
        for one in translations:
            text = text_io.one_line(one.text)  # output lines stay aligned with input lines
            if n_best > 1:
                rows.append(f"{number} ||| {text} ||| log_prob= {one.log_prob:z.6f} ||| {one.score:z.6f}")
            else:
                rows.append(f"{one.score:z.6f}\t{one.log_prob:z.6f}\t{text}" if scores else text)
        yield "\n".join(rows)
