"""Running text: held-out part, cache and errors."""

import gzip

import pytest

from dragoman.config import parse
from dragoman.data.datasets import text as module
from dragoman.data.datasets.text import (
    DocumentRange,
    DocumentStore,
    PreparedText,
    TextDataConfig,
    prepare_text,
    tokenize_documents,
)
from dragoman.data.readers.plain_text import TextFile, TextJsonl
from dragoman.data.tokenizers import BpeConfig, CharacterConfig, Tokenizer
from dragoman.errors import ConfigError, DataError


def text_file(folder, content: str, name: str = "a.txt", **choices) -> TextFile:
    (folder / name).write_text(content, encoding="utf-8", newline="")
    return TextFile(path=folder / name, **choices)


def whole(documents: DocumentRange) -> str:
    return "".join(documents.texts())


def lines(documents: DocumentRange) -> list[int]:
    return [passage.line for passage in documents.passages()]


def tokens(store: DocumentStore, tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.source.decode(store.texts.row(index)) for index in range(len(store))]


@pytest.mark.parametrize(("share", "cut"), [(None, 90), (0.3, 70)])
def test_end_of_a_file_is_held_out_by_characters(tmp_path, share, cut):
    text = "".join(f"line {n:03}\n" for n in range(11)) + "\n"
    assert len(text) == 100
    prepared = prepare_text(TextDataConfig(train=text_file(tmp_path, text), valid_size=share))
    assert (whole(prepared.train), whole(prepared.valid)) == (text[:cut], text[cut:])
    assert prepared.test is None
    assert [passage.is_first for passage in prepared.valid.passages()] == [True]
    assert lines(prepared.valid) == [cut // 9 + 1]


def test_empty_training_part_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no document is left for training when those in the last 0\.999 of its"):
        prepare_text(TextDataConfig(train=text_file(tmp_path, "line\n"), valid_size=0.999))


def test_any_passage_may_be_cut(tmp_path):
    text = "".join(f"line {n:07}\n" for n in range(30_000))
    prepared = prepare_text(TextDataConfig(train=text_file(tmp_path, text), valid_size=0.5))
    assert whole(prepared.train) + whole(prepared.valid) == text
    assert len(whole(prepared.valid)) == len(text) / 2
    for part in (prepared.train, prepared.valid):
        first, *others = [passage.is_first for passage in part.passages()]
        assert first
        assert len(others) > 1
        assert not any(others)
    assert lines(prepared.valid)[0] == 15_001


def test_documents_belong_to_the_part_they_begin_in(tmp_path):
    texts = ["a" * 40, "b" * 29, "c" * 11, "d" * 7, "e" * 13]
    corpus = text_file(tmp_path, "\n\n".join(texts) + "\n", documents="blank_line")
    prepared = prepare_text(TextDataConfig(train=corpus, valid_size=0.25))
    assert list(prepared.train.texts()) == texts[:3]
    assert list(prepared.valid.texts()) == texts[3:]
    assert lines(prepared.valid) == [7, 9]


def test_json_objects_are_documents(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "dog {n}"}}\n' for n in range(10)))
    prepared = prepare_text(TextDataConfig(train=TextJsonl(path=tmp_path / "a.jsonl"), valid_size=0.2))
    assert list(prepared.valid.texts()) == ["dog 8", "dog 9"]


def test_given_corpora_are_whole_and_fingerprinted(tmp_path):
    parts = {name: text_file(tmp_path, f"{name}\n", f"{name}.txt") for name in ("train", "valid", "test")}
    prepared = prepare_text(TextDataConfig(**parts))
    assert [whole(part) for part in (prepared.train, prepared.valid, prepared.test)] == ["train\n", "valid\n", "test\n"]
    assert set(prepared.fingerprints) == {str(path) for path in tmp_path.iterdir()}
    assert {len(digest) for digest in prepared.fingerprints.values()} == {64}


def test_repairs_are_noted_and_blank_lines_are_not(tmp_path):
    prepared = prepare_text(TextDataConfig(train=text_file(tmp_path, "one\r\n\r\ntwo\n" * 9)))
    [note] = prepared.notes
    assert "18 x Windows line end" in note


@pytest.mark.parametrize("content", ["", "\n \n\t\n"])
@pytest.mark.parametrize("documents", ["file", "line"])
def test_corpus_without_text_is_refused(tmp_path, content, documents):
    with pytest.raises(DataError, match=r"a\.txt: the corpus holds no text; give another file"):
        prepare_text(TextDataConfig(train=text_file(tmp_path, content, documents=documents)))


def test_single_document_cannot_be_held_out(tmp_path):
    corpus = text_file(tmp_path, "one\ntwo\n", documents="blank_line")
    with pytest.raises(DataError, match=r"no document is left to hold out .* give data\.valid, or give more text"):
        prepare_text(TextDataConfig(train=corpus))


def test_valid_size_with_valid_is_refused():
    corpus = {"kind": "text", "path": "a"}
    with pytest.raises(ConfigError, match="valid_size has no effect if valid is given"):
        parse(TextDataConfig, {"train": corpus, "valid": corpus, "valid_size": 0.5})


# Ids


@pytest.fixture
def prepared(tmp_path) -> PreparedText:
    text = "\n\n".join(f"The dog plays {n}.\n  It  barks.\n\tIt sleeps {n}." for n in range(3000)) + "\n"
    return prepare_text(TextDataConfig(train=text_file(tmp_path, text, documents="blank_line")))


@pytest.mark.parametrize("whitespace", ["keep", "collapse"])
def test_ids_are_those_of_the_texts(prepared, tmp_path, whitespace):
    tokenizer = Tokenizer.train_on_texts(prepared.train.texts, BpeConfig(vocab_size=300, whitespace=whitespace))
    store = tokenize_documents(prepared.train, tokenizer, tmp_path / "cache")
    texts = list(prepared.train.texts())
    assert [store.texts.row(n).tolist() for n in range(len(store))] == tokenizer.source.encode_batch(texts)
    assert store.origins.tolist() == [1 + 4 * n for n in range(len(texts))]


@pytest.mark.parametrize("whitespace", ["keep", "collapse"])
def test_file_of_many_passages_is_one_document(tmp_path, whitespace):
    text = "".join(f"line {n:07}\n" for n in range(60_000))
    documents = prepare_text(TextDataConfig(train=text_file(tmp_path, text))).train
    tokenizer = Tokenizer.train_on_texts(documents.texts, CharacterConfig(byte_fallback=False, whitespace=whitespace))
    store = tokenize_documents(documents, tokenizer, tmp_path / "cache")
    assert tokens(store, tokenizer) == [tokenizer.source.normalize(text[: int(0.9 * len(text))])]


def test_damaged_store_is_built_again(prepared, tmp_path, monkeypatch):
    tokenizer = Tokenizer.train_on_texts(prepared.valid.texts, CharacterConfig(whitespace="keep"))
    cache = tmp_path / "cache"
    store = tokenize_documents(prepared.valid, tokenizer, cache)
    built = tokens(store, tokenizer)
    assert built == list(prepared.valid.texts())
    with monkeypatch.context() as patch:
        patch.setattr(module, "_tokenize", None)  # not called a second time
        assert tokens(tokenize_documents(prepared.valid, tokenizer, cache), tokenizer) == built
    (store.folder / "texts.values").write_bytes(b"")
    assert tokens(tokenize_documents(prepared.valid, tokenizer, cache), tokenizer) == built
    assert len(list(cache.glob("[!.]*"))) == 1


def test_other_text_or_tokenizer_has_another_store(prepared, tmp_path):
    kinds = (CharacterConfig(whitespace="keep"), CharacterConfig())
    first, second = (Tokenizer.train_on_texts(prepared.valid.texts, kind) for kind in kinds)
    by_line = prepared.valid.corpus.model_copy(update={"documents": "line"})
    other = text_file(tmp_path, "A cat.\n\nA dog.\n" * 20, "b.txt", documents="blank_line")
    stores = [
        tokenize_documents(prepared.valid, first, tmp_path),
        tokenize_documents(prepared.valid, second, tmp_path),
        tokenize_documents(prepared.train, first, tmp_path),
        tokenize_documents(DocumentRange(by_line, prepared.valid.file_hash), first, tmp_path),
        tokenize_documents(prepare_text(TextDataConfig(train=other)).valid, first, tmp_path),
    ]
    assert len({store.folder for store in stores}) == 5
    (tmp_path / "c.txt").write_bytes((tmp_path / "a.txt").read_bytes())
    moved = TextDataConfig(train=prepared.valid.corpus.model_copy(update={"path": tmp_path / "c.txt"}))
    assert tokenize_documents(prepare_text(moved).valid, first, tmp_path).folder == stores[0].folder


def test_tiny_shakespeare_is_split_as_in_nanogpt(shared_data, tmp_path):
    path = shared_data / "lm" / "tinyshakespeare.txt.gz"
    prepared = prepare_text(TextDataConfig(train=TextFile(path=path), context_length=64))
    text = gzip.decompress(path.read_bytes()).decode()
    tokenizer = Tokenizer.train_on_texts(prepared.train.texts, CharacterConfig(byte_fallback=False, whitespace="keep"))
    assert len(tokenizer.source) == 4 + 65
    for part, expected in ((prepared.train, text[: int(0.9 * len(text))]), (prepared.valid, text[1_003_854:])):
        store = tokenize_documents(part, tokenizer, tmp_path)
        assert store.tokens == len(expected)
        assert tokens(store, tokenizer) == [expected]
