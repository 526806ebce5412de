"""Questions with their contexts: SQuAD and JSON objects."""

import gzip
import json

import pytest

from dragoman.config import Config, parse
from dragoman.data.readers import qa
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.qa import (
    AnswerSpan,
    Question,
    QuestionCorpus,
    QuestionJsonl,
    SquadFile,
    read_questions,
)
from dragoman.errors import ConfigError, DataError

CONTEXT = "Zwei Hunde 👩‍👧 spielen im Schnee."


class Holder(Config):
    corpus: QuestionCorpus


def asked(*answers: tuple[str, object], name: str = "q1", **more: object) -> dict:
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": "Wer spielt?", "answers": found, **more}


def article(*questions: dict, context: str = CONTEXT) -> dict:
    return {"title": "T", "paragraphs": [{"context": context, "qas": list(questions)}]}


def squad(folder, *articles: dict, **choices) -> SquadFile:
    path = folder / "dev.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"version": "1.1", "data": articles}).encode()))
    return SquadFile(path=path, **choices)


def objects(folder, *rows: object, **choices) -> QuestionJsonl:
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return QuestionJsonl(path=folder / "a.jsonl", **choices)


def test_answers_have_offsets(tmp_path):
    start = CONTEXT.index("spielen")
    [found] = read_questions(squad(tmp_path, article(asked(("Hunde", 5), ("spielen", start)))))
    place = f"{tmp_path}/dev.json.gz: data[0].paragraphs[0].qas[0]"
    assert found == Question(
        "q1", "Wer spielt?", CONTEXT, (AnswerSpan("Hunde", 5), AnswerSpan("spielen", start)), place
    )
    assert found.accepted_answers == ("Hunde", "spielen")


def test_huge_file_is_refused(tmp_path, monkeypatch):
    corpus = squad(tmp_path, article(asked(("Hunde", 5))))
    monkeypatch.setattr(qa, "MAX_SQUAD_BYTES", 99)
    with pytest.raises(
        DataError, match=r"dev\.json\.gz: larger than 99 bytes of JSON.* Give the questions as JSON lines"
    ):
        list(read_questions(corpus))


def test_squad_2_has_unanswerable_questions(tmp_path):
    plausible = {"plausible_answers": [{"text": "Hunde", "answer_start": 5}]}
    rows = [asked(is_impossible=True, **plausible), asked(("Hunde", 5), is_impossible=False), asked()]
    assert [one.accepted_answers for one in read_questions(squad(tmp_path, article(*rows)))] == [(), ("Hunde",), ()]


def test_file_is_split_by_articles(tmp_path):
    articles = [article(asked(name=f"q{n}")) for n in range(5)]

    def names(*chosen: int) -> list[str]:
        return [one.id for one in read_questions(squad(tmp_path, *articles, articles=chosen or None))]

    assert names() == ["q0", "q1", "q2", "q3", "q4"]
    assert (names(1, 3), names(4, 4), names(5, 5)) == (["q0", "q1", "q2"], ["q3"], ["q4"])
    with pytest.raises(DataError, match=r"has 5 articles, so number 6 is missing; lower articles"):
        names(4, 6)
    with pytest.raises(ConfigError, match=r"articles = \[3, 2\]: the first is after the last"):
        parse(Holder, {"corpus": {"kind": "squad", "path": "x", "articles": [3, 2]}})


@pytest.mark.parametrize(("text", "start"), [("Hunde", 4), ("Katzen", 5), ("Schnee.", 1000), ("", 3)])
def test_answer_off_its_offset_is_refused_or_skipped(tmp_path, text, start):
    rows = [asked(("Hunde", 5)), asked(("Hunde", 5), (text, start), name="q2"), asked((text, start), name="q3")]
    with pytest.raises(DataError, match=rf"data\[0\].paragraphs\[0\].qas\[1\] \(id q2\): the answer '{text}' is not"):
        list(read_questions(squad(tmp_path, article(*rows))))
    warnings = ReadWarnings()
    found = read_questions(squad(tmp_path, article(*rows), mismatch="skip"), warnings)
    assert [(one.id, one.accepted_answers) for one in found] == [("q1", ("Hunde",)), ("q2", ("Hunde",))]
    assert len(warnings.skipped_answers) == 2
    [sentence] = warnings.messages()
    assert sentence.startswith("skipped 2 answers not at their offsets (first: ")
    assert sentence.endswith("data[0].paragraphs[0].qas[1])")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"date": []}, "dev.json: no field 'data'; did you mean 'date'"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, r"data\[0\].paragraphs\[0\]: no field 'context'"),
        ({"data": {}}, "dev.json: field 'data' holds dict, not a list"),
        ({"data": [3]}, r"dev.json: data\[0\]: holds a JSON int, not an object"),
        ({"data": [article({"id": "x", "question": 3, "answers": []})]}, "field 'question' holds int, not a text"),
        ({"data": [article(asked(("Hunde", "5")))]}, r"answers\[0\]: field 'answer_start' holds '5', not a whole"),
        ({"data": [article(asked(("Hunde", -5)))]}, "holds -5, not a whole number from 0 on"),
        ({"data": [article(asked(("Hunde", True)))]}, "holds True, not a whole number"),
    ],
)
def test_invalid_squad_is_refused_with_its_place(tmp_path, tree, message):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        list(read_questions(SquadFile(path=path)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"data": [', r"dev\.json\.gz: not valid JSON"),
        (b"\xff\xfe\xfd", r"dev\.json\.gz: not valid JSON \(UnicodeDecodeError\)"),
        (b"[]", "holds a JSON list"),
    ],
)
def test_invalid_json_is_refused(tmp_path, content, message):
    path = tmp_path / "dev.json.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match=message):
        list(read_questions(SquadFile(path=path)))


def test_truncated_file_is_refused(tmp_path):
    corpus = squad(tmp_path, *[article(asked(name=str(n * n))) for n in range(100)])
    corpus.path.write_bytes(corpus.path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"dev\.json\.gz: the compressed file is cut off or damaged"):
        list(read_questions(corpus))


def test_jsonl_has_the_fields_of_the_hub(tmp_path):
    answers = {"text": ["Hunde"], "answer_start": [5]}
    none = {"text": [], "answer_start": []}
    rows = [
        {"id": "x", "question": "Wer?", "context": CONTEXT, "answers": answers},
        {"question": "Wann?", "context": CONTEXT, "answers": none},
    ]
    found = list(read_questions(objects(tmp_path, *rows), ReadWarnings()))
    assert [(one.id, one.question, one.accepted_answers) for one in found] == [
        ("x", "Wer?", ("Hunde",)),
        ("2", "Wann?", ()),
    ]
    assert found[1].location == f"{tmp_path}/a.jsonl:2"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"text": ["Hunde"], "answer_start": []}, "1 answers but 0 offsets"),
        ({"text": ["Hunde"]}, "no field 'answer_start'"),
        (["Hunde"], "holds a JSON list, not an object"),
        ({"text": ["Hunde"], "answer_start": [6]}, r"\(id 1\): the answer 'Hunde' is not at character 6"),
    ],
)
def test_invalid_object_is_refused(tmp_path, answers, message):
    row = {"question": "Wer?", "context": CONTEXT, "answers": answers}
    with pytest.raises(DataError, match=rf"a\.jsonl:1.*{message}"):
        list(read_questions(objects(tmp_path, row)))


def test_squad_is_read_whole(shared_data):
    path = shared_data / "qa" / "squad" / "dev-v1.1.json.gz"
    found = list(read_questions(SquadFile(path=path)))
    assert len(found) == 10_570
    assert len({one.id for one in found}) == 10_570
    assert all(one.answers for one in found)
    parts = [[1, 40], [41, 44], [45, 48]]
    split = [list(read_questions(SquadFile(path=path, articles=part))) for part in parts]
    assert [one for part in split for one in part] == found
    with pytest.raises(DataError, match="has 48 articles"):
        list(read_questions(SquadFile(path=path, articles=(1, 49))))
