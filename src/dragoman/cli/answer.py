"""`dragoman answer`: the part of a text that answers a question, by a trained run."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import BatchTokens, Device, FormatOption, OutputFile, TextFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.data.readers import Repairs
    from dragoman.inference import Answer, Answerer, AnswerSettings

Model = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]
Input = Annotated[
    str | None,
    typer.Option(
        "--input", "-i", help="File of JSON objects with question and context, one a line; - is standard input."
    ),
]
QuestionText = Annotated[str | None, typer.Option("--question", "-q", help="A question.", show_default=False)]
Context = Annotated[
    str | None,
    typer.Option(
        "--context", "-c", help="What it is about: a file, the text itself, or - to read it.", show_default=False
    ),
]
LongestAnswer = Annotated[int | None, typer.Option(min=1, help="Most tokens of an answer.", show_default="the run's")]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Leave the line empty where no answer is more probable by more than this (log-probability).",
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
    n_best: Annotated[
        int | None, typer.Option(min=1, help="How many answers to each question.", show_default="1")
    ] = None,
    longest_answer: LongestAnswer = None,
    threshold: Threshold = None,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    format_: FormatOption = TextFormat.TEXT,
) -> None:
    """Cut the answer to a question out of a text; where there is none, the line is empty.

    As text, --n-best prints several lines a question: its number from 1, the probability, where the answer begins and
    ends in the context, and the answer, between tabs.
    """
    from dragoman.cli import streams
    from dragoman.cli.loading import load_as
    from dragoman.data.readers import Repairs
    from dragoman.inference import Answerer

    repairs = Repairs()
    asked = _asked(question, context, input_, repairs)
    answerer = load_as(Answerer, model, device=device, batch_tokens=batch_tokens)
    settings = _settings(answerer, best=n_best, longest_answer=longest_answer, threshold=threshold)
    typed = {"chunk": 1} if input_ == streams.STANDARD and sys.stdin.isatty() else {}
    found = answerer.stream(asked, settings, **typed)
    lines = _json_lines(found) if format_ is TextFormat.JSONL else _text_lines(found, several=settings.best > 1)
    with closing(streams.counted(lines, "questions", out=output)) as counted, streams.output(output) as stream:
        for line in counted:
            stream.write(line + "\n")
    streams.report_repairs(repairs)


def _asked(
    question: str | None, context: str | None, input_: str | None, repairs: Repairs
) -> Iterator[tuple[str, str]]:
    """The questions with their contexts. Raises ConfigError unless they come in exactly one way."""
    from dragoman.errors import ConfigError

    if input_ is not None:
        if question is not None or context is not None:
            raise ConfigError("answer takes --question and --context, or --input, not both; leave one out")
        return _from_objects(input_, repairs)
    if question is None or context is None:
        raise ConfigError("answer needs --question TEXT and --context FILE, or --input FILE with both on each line")
    return iter([(question, _context(context, repairs))])


def _from_objects(name: str, repairs: Repairs) -> Iterator[tuple[str, str]]:
    from dragoman.cli import streams
    from dragoman.data.readers.json_fields import parse_object, text_of

    called = "standard input" if name == streams.STANDARD else name
    for number, line in enumerate(streams.read_lines(name, repairs), start=1):
        where = f"{called}:{number}"
        row = parse_object(line, where)
        yield text_of(row, "question", where), text_of(row, "context", where)


def _context(given: str, repairs: Repairs) -> str:
    """The text of a file, of standard input, or given as it is."""
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


def _settings(answerer: Answerer, **given: Any) -> AnswerSettings:
    """What the run was made with, with the options laid over it."""
    from dragoman.config import parse
    from dragoman.inference import AnswerSettings

    chosen = {name: value for name, value in given.items() if value is not None}
    return parse(AnswerSettings, {**answerer.settings.model_dump(), **chosen}, where="answer")


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
