"""Questions whose answers stand in a text: SQuAD (Rajpurkar et al., 2016; 2018), or JSON objects one a line."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, assert_never

from pydantic import Field, PositiveInt, model_validator

from dragoman.config import Config
from dragoman.data.readers.json_fields import (
    JsonObject,
    check_index,
    check_object,
    check_text,
    get_list,
    get_objects,
    get_text,
    get_value,
    parse_object,
)
from dragoman.data.readers.text_lines import ReadWarnings, open_binary, read_lines
from dragoman.errors import DataError

Mismatch = Literal["refuse", "skip"]


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """An answer, and the character of the context (from 0) where it begins."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a context, and its accepted answers; without any it cannot be answered."""

    id: str
    """What its corpus calls it."""
    question: str
    context: str
    answers: tuple[AnswerSpan, ...]
    location: str
    """Where it stands in its file, in words."""

    @property
    def accepted_answers(self) -> tuple[str, ...]:
        """The texts of its answers, as `evaluation.span_scores` wants them."""
        return tuple(answer.text for answer in self.answers)


class SquadFile(Config):
    """A file of SQuAD, version 1.1 or 2, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["squad"] = "squad"

    path: Path
    """The file."""

    articles: tuple[PositiveInt, PositiveInt] | None = None
    """The first and the last article that are read, from 1; without it all. So that one file can be split."""

    mismatch: Mismatch = "refuse"
    """What happens to an answer that does not stand where its offset says: the file is refused, or the answer skipped
    and counted."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.articles is not None and self.articles[0] > self.articles[1]:
            raise ValueError(f"articles = {list(self.articles)}: the first stands after the last; swap them")
        return self


class QuestionJsonl(Config):
    """A file of JSON objects with the fields `question`, `context` and `answers`, an object a line;
    .gz, .bz2, .xz and .zst too.

    `answers` holds two lists, `text` and `answer_start`, as data sets on the Hugging Face hub do; `id` may be given.
    """

    kind: Literal["jsonl"] = "jsonl"

    path: Path
    """The file."""

    mismatch: Mismatch = "refuse"
    """What happens to an answer that does not stand where its offset says: the file is refused, or the answer skipped
    and counted."""


QuestionCorpus = Annotated[SquadFile | QuestionJsonl, Field(discriminator="kind")]


@dataclass
class SkippedAnswers:
    """Answers that did not stand at their offsets; handed to the reader, which counts."""

    count: int = 0
    first: str = ""
    """Where the first of them was."""

    def messages(self) -> list[str]:
        """One line for people, if there is anything to say."""
        if not self.count:
            return []
        return [f"{self.count:,} answers that do not stand at their offsets were skipped (first: {self.first})"]


def read_questions(
    corpus: QuestionCorpus, repairs: ReadWarnings | None = None, skipped: SkippedAnswers | None = None
) -> Iterator[Question]:
    """The questions of a corpus, in order.

    A question whose every answer is skipped is left out: it can be answered, only nobody knows how. Raises DataError
    with file, place and remedy where the corpus cannot be read as it is.
    """
    repairs = ReadWarnings() if repairs is None else repairs
    skipped = SkippedAnswers() if skipped is None else skipped
    match corpus:
        case SquadFile():
            found = _read_squad(corpus)
        case QuestionJsonl():
            found = _read_lines(corpus, repairs)
        case _:
            assert_never(corpus)
    for question in found:
        yield from _verified(question, corpus.mismatch, skipped)


def _read_squad(corpus: SquadFile) -> Iterator[Question]:
    tree = parse_object(_whole(corpus.path), str(corpus.path))
    articles = list(get_objects(tree, "data", str(corpus.path)))
    first, last = corpus.articles or (1, len(articles))
    if last > len(articles):
        raise DataError(
            f"{corpus.path}: has {len(articles)} articles, so there is none with number {last}; lower articles"
        )
    for article, place in articles[first - 1 : last]:
        for paragraph, inside in get_objects(article, "paragraphs", place):
            context = get_text(paragraph, "context", inside)
            for row, where in get_objects(paragraph, "qas", inside):
                name = str(get_value(row, "id", where))
                yield Question(name, get_text(row, "question", where), context, _answers(row, where), where)


def _answers(row: JsonObject, where: str) -> tuple[AnswerSpan, ...]:
    """The answers as the file has them; version 2 says where there are none."""
    if row.get("is_impossible") is True:
        return ()
    return tuple(
        _located(get_value(one, "text", place), get_value(one, "answer_start", place), place)
        for one, place in get_objects(row, "answers", where)
    )


def _located(text: Any, start: Any, where: str) -> AnswerSpan:
    return AnswerSpan(check_text(text, "text", where), check_index(start, "answer_start", where))


def _whole(path: Path) -> bytes:
    with open_binary(path) as stream:
        try:
            return stream.read()
        except EOFError as error:
            raise DataError(
                f"{path}: the compressed file is cut off or damaged ({error}); copy or download it again"
            ) from error
        except OSError as error:
            raise DataError(f"{path}: cannot be read further ({error.strerror}); check the disk") from error


def _read_lines(corpus: QuestionJsonl, repairs: ReadWarnings) -> Iterator[Question]:
    for number, line in read_lines(corpus.path, repairs):
        if not line.strip():
            continue
        where = f"{corpus.path}:{number}"
        row = parse_object(line, where)
        given = check_object(get_value(row, "answers", where), where)
        texts, starts = get_list(given, "text", where), get_list(given, "answer_start", where)
        if len(texts) != len(starts):
            raise DataError(f"{where}: {len(texts)} answers but {len(starts)} offsets; give one for each")
        answers = tuple(_located(text, start, where) for text, start in zip(texts, starts, strict=True))
        name = str(row.get("id", number))
        yield Question(name, get_text(row, "question", where), get_text(row, "context", where), answers, where)


def _verified(question: Question, mismatch: Mismatch, skipped: SkippedAnswers) -> Iterator[Question]:
    """The question with those of its answers that stand where they should; none where that leaves none of them."""
    context = question.context
    wrong = [one for one in question.answers if not one.text or not context.startswith(one.text, one.start)]
    if not wrong:
        yield question
        return
    if mismatch == "refuse":
        there = context[wrong[0].start : wrong[0].start + max(1, len(wrong[0].text))]
        raise DataError(
            f"{question.location} (id {question.id}): the answer {wrong[0].text!r} does not stand at character "
            f"{wrong[0].start} of its context, where {there!r} is; mend answer_start, or set mismatch: skip"
        )
    skipped.first = skipped.first or question.location
    skipped.count += len(wrong)
    if len(wrong) < len(question.answers):
        yield replace(question, answers=tuple(one for one in question.answers if one not in wrong))
