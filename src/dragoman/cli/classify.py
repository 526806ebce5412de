"""`dragoman classify`: label texts or words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import text_io
from dragoman.cli.live_input import LiveLines
from dragoman.cli.load_run import load_as
from dragoman.cli.options import FormatOption, InputFile, OutputFile, RunArgument, TextsOption, refuse, shared_options
from dragoman.data.readers.line_reader import ReadWarnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.inference import Classification, Tag


@shared_options(("device", "batch_tokens"), into="loading")
def classify(
    run: RunArgument,
    *,
    text: TextsOption = None,
    input_: InputFile = "-",
    output: OutputFile = "-",
    all_: Annotated[bool, typer.Option("--all", help="Print all labels, most probable first.")] = False,
    loading: dict[str, Any],
    format_: FormatOption = "text",
) -> None:
    """Print the label of each text, or of each word, with its probability.

    A classifier prints one tab-separated line per text. A tagger prints one line per word and an empty line after each
    text; words are separated by spaces in the input.
    """
    from dragoman.inference import Classifier, Tagger

    loaded: Any = load_as((Classifier, Tagger), run, **loading)
    warnings = ReadWarnings()
    texts = text_io.read_given(text, input_, warnings)
    options = {"chunk": 1} if not text and text_io.is_typed(input_) else {}
    if isinstance(loaded, Tagger):
        refuse({"all": all_}, "on a run that labels words")
        tagged = loaded.tag_stream(LiveLines((one.split() for one in texts), texts), **options)
        records = ({"words": [tag.to_dict() for tag in tags]} for tags in tagged)
        lines = text_io.json_records(records) if format_ == "jsonl" else _text_of_words(tagged)
    else:
        found = loaded.classify_stream(texts, **options)
        lines = text_io.json_lines(found) if format_ == "jsonl" else _text_of_texts(found, all_labels=all_)
    text_io.write_lines(lines, output, warnings, total=len(text) if text else text_io.count_lines(input_))


def _text_of_texts(found: Iterator[Classification], *, all_labels: bool) -> Iterator[str]:
    for one in found:
        shown = one.probabilities if all_labels else {one.label: one.probability}
        yield "\t".join(f"{label}\t{probability:.6f}" for label, probability in shown.items())


def _text_of_words(found: Iterator[list[Tag]]) -> Iterator[str]:
    for tags in found:
        yield "".join(f"{tag.word}\t{tag.label}\t{tag.probability:.6f}\n" for tag in tags)
