"""`dragoman answer`: extractive question answering."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import text_io
from dragoman.cli.live_input import LiveLines
from dragoman.cli.load_run import load_as
from dragoman.cli.options import FormatOption, OutputFile, RunArgument, config_options, shared_options
from dragoman.config import parse
from dragoman.data.readers.json_fields import get_text, parse_object
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.decoding.config import AnswerConfig
from dragoman.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.inference import Answer

QuestionFile = Annotated[
    str | None,
    typer.Option("--input", "-i", help="JSON lines with question and context, also compressed; - is standard input."),
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", "-c", help="Context of the question: a file, the text itself, or - for standard input."),
]


@shared_options(("device", "batch_tokens"), into="loading")
@config_options(AnswerConfig, ("n_best", "max_answer_length", "no_answer_threshold"), into="choice")
def answer(
    run: RunArgument,
    *,
    question: Annotated[str | None, typer.Option("--question", "-q", help="A question.")] = None,
    context: ContextOption = None,
    input_: QuestionFile = None,
    output: OutputFile = "-",
    choice: dict[str, Any],
    loading: dict[str, Any],
    format_: FormatOption = "text",
) -> None:
    """Answer questions with a part of the given text.

    Prints an empty line where the context has no answer. With --n-best, each answer is a tab-separated line of the
    question number (from 1), probability, start and end in the context, and text.
    """
    from dragoman.inference import QuestionAnswerer

    warnings = ReadWarnings()
    pairs = _question_pairs(question, context, input_, warnings)
    answerer = load_as(QuestionAnswerer, run, **loading)
    config = parse(AnswerConfig, answerer.config.model_dump() | choice, where="answer")
    options = {"chunk": 1} if text_io.is_typed(input_) else {}
    found = answerer.answer_stream(pairs, config, **options)
    if format_ == "jsonl":
        lines = text_io.json_records({"answers": [one.to_dict() for one in answers]} for answers in found)
    else:
        lines = _text_lines(found, n_best=config.n_best)
    text_io.write_lines(lines, output, warnings, unit="questions")


def _question_pairs(
    question: str | None, context: str | None, input_: str | None, warnings: ReadWarnings
) -> Iterator[tuple[str, str]]:
    """Return pairs of question and context. Raises ConfigError unless exactly one input is given."""
    if input_ is not None:
        if question is not None or context is not None:
            raise ConfigError("answer takes --question and --context, or --input, not both. Leave one out.")
        return _read_pairs(input_, warnings)
    if question is None or context is None:
        raise ConfigError("answer needs --question TEXT and --context FILE, or --input FILE with both on each line.")
    return iter([(question, _read_context(context, warnings))])


def _read_pairs(name: str, warnings: ReadWarnings) -> Iterator[tuple[str, str]]:
    """Read questions and contexts, which are ready when the input is."""
    lines = text_io.read_input(name, warnings)
    return LiveLines(_parse_pairs(lines, "standard input" if name == text_io.STANDARD else name), lines)


def _parse_pairs(lines: Iterator[str], name: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        row = parse_object(line, f"{name}:{number}")
        yield get_text(row, "question", f"{name}:{number}"), get_text(row, "context", f"{name}:{number}")


def _read_context(given: str, warnings: ReadWarnings) -> str:
    """Return the text of a file, of standard input, or the argument itself."""
    try:
        is_file = given == text_io.STANDARD or Path(given).is_file()
    except (OSError, ValueError):  # a text may be too long for a file name, or contain characters that no name can
        is_file = False
    if is_file:
        return "\n".join(text_io.read_input(given, warnings))
    if len(given.split()) < 2:
        raise DataError(f"--context {given}: there is no such file, and one word is no text. Check the path.")
    return given


def _text_lines(found: Iterator[list[Answer]], *, n_best: int) -> Iterator[str]:
    for number, answers in enumerate(found, start=1):
        for one in answers:
            text = " ".join(one.text.split())  # an answer may contain a line break
            yield f"{number}\t{one.probability:.6f}\t{one.start}\t{one.end}\t{text}" if n_best > 1 else text
