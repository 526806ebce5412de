"""`dragoman answer`: extractive question answering."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import BatchTokens, Device, FormatOption, OutputFile, TextFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.data.readers.text_lines import ReadWarnings
    from dragoman.inference import Answer, AnswerConfig, QuestionAnswerer

Model = Annotated[Path, typer.Argument(help="Run folder or exported model.", show_default=False)]
Input = Annotated[
    str | None,
    typer.Option(
        "--input", "-i", help="File with one JSON object with question and context per line; - is standard input."
    ),
]
QuestionText = Annotated[str | None, typer.Option("--question", "-q", help="A question.", show_default=False)]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        "-c",
        help="Context of the question: a file, the text itself, or - for standard input.",
        show_default=False,
    ),
]
LongestAnswer = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of tokens of an answer.", show_default="the run's")
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Log-probability by which 'no answer' must exceed the best answer to print an empty line.",
        show_default="the run's",
    ),
]


def answer(
    model: Model,
    *,
    question: QuestionText = None,
    context: Context = None,
    input_: Input = None,
    output: OutputFile = "-",
    n_best: Annotated[int | None, typer.Option(min=1, help="Answers per question.", show_default="1")] = None,
    max_answer_length: LongestAnswer = None,
    threshold: Threshold = None,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    format_: FormatOption = TextFormat.TEXT,
) -> None:
    """Answer questions with a part of the given text.

    Prints an empty line where the context has no answer. With --n-best, each answer is a tab-separated line of the
    question number (from 1), probability, start and end in the context, and text.
    """
    from dragoman.cli import streams
    from dragoman.cli.loading import load_as
    from dragoman.data.readers.text_lines import ReadWarnings
    from dragoman.inference import QuestionAnswerer

    repairs = ReadWarnings()
    asked = _asked(question, context, input_, repairs)
    answerer = load_as(QuestionAnswerer, model, device=device, batch_tokens=batch_tokens)
    settings = _settings(answerer, n_best=n_best, max_answer_length=max_answer_length, no_answer_threshold=threshold)
    typed = {"chunk": 1} if input_ == streams.STANDARD and sys.stdin.isatty() else {}
    found = answerer.answer_stream(asked, settings, **typed)
    lines = _json_lines(found) if format_ is TextFormat.JSONL else _text_lines(found, several=settings.n_best > 1)
    with closing(streams.counted(lines, "questions", out=output)) as counted, streams.output(output) as stream:
        for line in counted:
            stream.write(line + "\n")
    streams.report_repairs(repairs)


def _asked(
    question: str | None, context: str | None, input_: str | None, repairs: ReadWarnings
) -> Iterator[tuple[str, str]]:
    """Return pairs of question and context. Raises ConfigError unless exactly one input is given."""
    from dragoman.errors import ConfigError

    if input_ is not None:
        if question is not None or context is not None:
            raise ConfigError("answer takes --question and --context, or --input, not both; leave one out")
        return _from_objects(input_, repairs)
    if question is None or context is None:
        raise ConfigError("answer needs --question TEXT and --context FILE, or --input FILE with both on each line")
    return iter([(question, _context(context, repairs))])


def _from_objects(name: str, repairs: ReadWarnings) -> Iterator[tuple[str, str]]:
    from dragoman.cli import streams
    from dragoman.data.readers.json_fields import get_text, parse_object

    called = "standard input" if name == streams.STANDARD else name
    for number, line in enumerate(streams.read_lines(name, repairs), start=1):
        where = f"{called}:{number}"
        row = parse_object(line, where)
        yield get_text(row, "question", where), get_text(row, "context", where)


def _context(given: str, repairs: ReadWarnings) -> str:
    """Return the text of a file, of standard input, or the argument itself."""
    from dragoman.cli import streams
    from dragoman.errors import DataError

    if given == streams.STANDARD or _is_file(given):
        return "\n".join(streams.read_lines(given, repairs))
    if len(given.split()) < 2:
        raise DataError(f"--context {given}: there is no such file, and one word is no text; check the path")
    return given


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a text may be too long for the name of a file, or hold what no name can
        return False


def _settings(answerer: QuestionAnswerer, **given: Any) -> AnswerConfig:
    """Return the run's configuration with the options applied."""
    from dragoman.config import parse
    from dragoman.inference import AnswerConfig

    chosen = {name: value for name, value in given.items() if value is not None}
    return parse(AnswerConfig, {**answerer.config.model_dump(), **chosen}, where="answer")


def _text_lines(found: Iterator[list[Answer]], *, several: bool) -> Iterator[str]:
    for number, answers in enumerate(found, start=1):
        for one in answers:
            text = " ".join(one.text.split())  # an answer may go over a line break
            yield f"{number}\t{one.probability:.6f}\t{one.start}\t{one.end}\t{text}" if several else text


def _json_lines(found: Iterator[list[Answer]]) -> Iterator[str]:
    import json
    from dataclasses import asdict

    for number, answers in enumerate(found, start=1):
        yield json.dumps({"line": number, "answers": [asdict(one) for one in answers]}, ensure_ascii=False)
