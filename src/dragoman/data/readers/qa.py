"""Extractive questions: SQuAD (Rajpurkar et al., 2016; 2018), or JSON objects, one per line."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self, assert_never

from pydantic import Field, PositiveInt, model_validator

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
    read_objects,
)
from dragoman.data.readers.line_reader import CorpusFile, ReadWarnings, open_binary, read_error
from dragoman.errors import DataError

Mismatch = Literal["refuse", "skip"]
MAX_SQUAD_BYTES = 256 * 2**20
"""Size above which a SQuAD file, which is read at once, is refused; SQuAD 2.0 has 42 MB."""


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """Answer and its offset (in characters, from 0) in the context."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Question:
    """Question about a context with its accepted answers; a question without answers is unanswerable."""

    id: str
    question: str
    context: str
    answers: tuple[AnswerSpan, ...]
    location: str
    """Location in the file, for messages."""

    @property
    def accepted_answers(self) -> tuple[str, ...]:
        """Texts of the answers, for `evaluation.span_scores`."""
        return tuple(answer.text for answer in self.answers)


class SquadFile(CorpusFile):
    """A SQuAD file, version 1.1 or 2, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["squad"] = "squad"
    articles: tuple[PositiveInt, PositiveInt] | None = None
    """First and last article to read, from 1, so that one file can be split; by default all."""
    mismatch: Mismatch = "refuse"
    """Treatment of an answer that is not at its offset: refuse the file, or skip and count the answer."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.articles is not None and self.articles[0] > self.articles[1]:
            raise ValueError(f"articles = {list(self.articles)}: the first is after the last; swap them")
        return self


class QuestionJsonl(CorpusFile):
    """A file of JSON objects with the fields `question`, `context` and `answers`, one per line, plain or compressed.

    `answers` holds two lists, `text` and `answer_start`, as data sets on the Hugging Face hub do; `id` is optional.
    """

    kind: Literal["jsonl"] = "jsonl"
    mismatch: Mismatch = "refuse"
    """Treatment of an answer that is not at its offset: refuse the file, or skip and count the answer."""


QuestionCorpus = Annotated[SquadFile | QuestionJsonl, Field(discriminator="kind")]


def read_questions(corpus: QuestionCorpus, warnings: ReadWarnings | None = None) -> Iterator[Question]:
    """Yield the questions of a corpus.

    A question that loses all answers is left out, because it is answerable with an unknown answer. Raises DataError,
    with file, place and remedy, if the corpus is unreadable.
    """
    warnings = ReadWarnings() if warnings is None else warnings
    match corpus:
        case SquadFile():
            questions = _read_squad(corpus, warnings)
        case QuestionJsonl():
            questions = _read_json_lines(corpus, warnings)
        case _:
            assert_never(corpus)
    for question in questions:
        yield from _check_offsets(question, corpus.mismatch, warnings)


def _read_squad(corpus: SquadFile, warnings: ReadWarnings) -> Iterator[Question]:
    with open_binary(corpus.path, warnings) as stream:
        try:
            content = stream.read(MAX_SQUAD_BYTES + 1)
        except (EOFError, OSError) as error:
            raise read_error(str(corpus.path), error) from error
    if len(content) > MAX_SQUAD_BYTES:
        raise DataError(
            f"{corpus.path}: larger than {MAX_SQUAD_BYTES:,} bytes of JSON, which is read at once. Give the questions "
            "as JSON lines, one object per line."
        )
    tree = parse_object(content, str(corpus.path))
    articles = list(get_objects(tree, "data", str(corpus.path)))
    first, last = corpus.articles or (1, len(articles))
    if last > len(articles):
        raise DataError(f"{corpus.path}: has {len(articles)} articles, so number {last} is missing; lower articles")
    for article, place in articles[first - 1 : last]:
        for paragraph, inside in get_objects(article, "paragraphs", place):
            context = get_text(paragraph, "context", inside)
            for row, where in get_objects(paragraph, "qas", inside):
                name = str(get_value(row, "id", where))
                yield Question(name, get_text(row, "question", where), context, _answers(row, where), where)


def _answers(row: JsonObject, where: str) -> tuple[AnswerSpan, ...]:
    """Return the answers as written in the file; version 2 marks unanswerable questions."""
    if row.get("is_impossible") is True:
        return ()
    answers = get_objects(row, "answers", where)
    return tuple(
        _answer_span(get_value(one, "text", at), get_value(one, "answer_start", at), at) for one, at in answers
    )


def _answer_span(text: Any, start: Any, where: str) -> AnswerSpan:
    return AnswerSpan(check_text(text, "text", where), check_index(start, "answer_start", where))


def _read_json_lines(corpus: QuestionJsonl, warnings: ReadWarnings) -> Iterator[Question]:
    for number, where, row in read_objects(corpus.path, warnings):
        given = check_object(get_value(row, "answers", where), where)
        texts, starts = get_list(given, "text", where), get_list(given, "answer_start", where)
        if len(texts) != len(starts):
            raise DataError(f"{where}: {len(texts)} answers but {len(starts)} offsets; give one offset per answer")
        answers = tuple(_answer_span(text, start, where) for text, start in zip(texts, starts, strict=True))
        name = str(row.get("id", number))
        yield Question(name, get_text(row, "question", where), get_text(row, "context", where), answers, where)


def _check_offsets(question: Question, mismatch: Mismatch, warnings: ReadWarnings) -> Iterator[Question]:
    """Yield the question with the answers that are at their offsets, unless all of several answers are wrong."""
    context = question.context
    wrong = [one for one in question.answers if not one.text or not context.startswith(one.text, one.start)]
    if not wrong:
        yield question
        return
    if mismatch == "refuse":
        found = context[wrong[0].start : wrong[0].start + max(1, len(wrong[0].text))]
        raise DataError(
            f"{question.location} (id {question.id}): the answer {wrong[0].text!r} is not at character "
            f"{wrong[0].start} of its context, which holds {found!r}; correct answer_start, or set mismatch: skip"
        )
    warnings.skipped_answers += [question.location] * len(wrong)
    if len(wrong) < len(question.answers):
        yield replace(question, answers=tuple(one for one in question.answers if one not in wrong))
