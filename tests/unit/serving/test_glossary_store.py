"""Glossaries of clients: who sees them, limits, and the folder that keeps them."""

import asyncio

import pytest

from dragoman.errors import ConfigError, RunError
from dragoman.serving.config import LimitsConfig
from dragoman.serving.glossaries.glossary_store import GlossaryDictionary, GlossaryStore, StoredGlossary
from dragoman.serving.http.errors import RequestError


def dictionary(source="en", target="de", **entries: str) -> GlossaryDictionary:
    return GlossaryDictionary(source=source, target=target, entries=tuple((entries or {"dog": "Hund"}).items()))


def glossary(*dictionaries: GlossaryDictionary, owner="", name="animals") -> StoredGlossary:
    return StoredGlossary(owner=owner, name=name, dictionaries=dictionaries or (dictionary(),))


@pytest.fixture
def store() -> GlossaryStore:
    return GlossaryStore(LimitsConfig())


def test_a_folder_keeps_glossaries_and_their_changes(tmp_path):
    folder = tmp_path / "above" / "glossaries"
    store = GlossaryStore(LimitsConfig(), folder=folder)

    async def work() -> None:
        first, second, third = [await store.add(glossary(name=name)) for name in ("one", "two", "three")]
        await store.change("", second.identifier, lambda one: one.with_dictionary(dictionary("fr", "de"), merge=True))
        await store.delete("", first.identifier)
        await store.change("", third.identifier, lambda one: one.model_copy(update={"name": "four"}))

    asyncio.run(work())
    again = GlossaryStore(LimitsConfig(), folder=folder)
    assert again.of("") == store.of("")
    assert [(one.name, len(one.dictionaries)) for one in again.of("")] == [("two", 2), ("four", 1)]


def test_a_glossary_belongs_to_one_account(store):
    mine = asyncio.run(store.add(glossary(owner="key anna")))
    assert store.of("key anna") == [mine]
    assert store.of("key bert") == []
    for work in (
        lambda: store.get("key bert", mine.identifier),
        lambda: asyncio.run(store.delete("key bert", mine.identifier)),
        lambda: asyncio.run(store.change("key bert", mine.identifier, lambda one: one)),
    ):
        with pytest.raises(RequestError, match="Glossary not found") as error:
            work()
        assert error.value.status == 404
    assert store.get("key anna", mine.identifier.upper()) == mine


def test_an_identifier_of_another_form_is_invalid(store):
    with pytest.raises(RequestError) as error:
        store.get("", "../keys")
    assert error.value.status == 400


def test_limits_hold_for_all_glossaries_of_an_account():
    store = GlossaryStore(LimitsConfig(max_glossaries=2, max_glossary_entries=3))

    async def work() -> None:
        first = await store.add(glossary())
        await store.add(glossary(owner="key anna"))  # another account
        await store.add(glossary(dictionary(a="1", b="2")))
        with pytest.raises(RequestError, match="At most 2 glossaries"):
            await store.add(glossary())
        with pytest.raises(RequestError, match="have 4 entries, and at most 3"):
            await store.change("", first.identifier, lambda one: one.with_dictionary(dictionary(cat="1"), merge=True))
        await store.change("", first.identifier, lambda one: one.with_dictionary(dictionary(cat="1"), merge=False))

    asyncio.run(work())
    assert [one.dictionaries[0].entries for one in store.of("")] == [(("cat", "1"),), (("a", "1"), ("b", "2"))]


def test_dictionaries_are_merged_replaced_and_removed():
    both = glossary(dictionary("de", "en", Hund="dog"), dictionary())
    merged = both.with_dictionary(dictionary(dog="Köter", cat="Katze"), merge=True)
    assert merged.get(("en", "de")).entries == (("dog", "Köter"), ("cat", "Katze"))
    assert merged.with_dictionary(dictionary(cat="Kater"), merge=False).get(("en", "de")).entries == (("cat", "Kater"),)
    left = merged.without_dictionary(("en", "de"))
    assert [one.pair for one in left.dictionaries] == [("de", "en")]
    with pytest.raises(RequestError, match="no dictionary for en to de"):
        left.without_dictionary(("en", "de"))


def test_concurrent_changes_are_not_lost(store):
    async def work() -> StoredGlossary:
        first = await store.add(glossary())
        await asyncio.gather(
            *(
                store.change(
                    "", first.identifier, lambda one, k=k: one.with_dictionary(dictionary(**{k: "x"}), merge=True)
                )
                for k in "abcde"
            )
        )
        return store.get("", first.identifier)

    assert dict(asyncio.run(work()).dictionaries[0].entries).keys() == {"dog", *"abcde"}


@pytest.mark.parametrize("content", ["{}", "", '{"owner": "", "name": 3, "dictionaries": []}'])
def test_a_damaged_file_is_an_error_at_the_start(tmp_path, content):
    (tmp_path / "4c81ffb4-2e98-4ad0-9dd2-2f5bd0e41e2a.json").write_text(content)
    with pytest.raises(ConfigError, match=r"4c81ffb4.*is no glossary of this server"):
        GlossaryStore(LimitsConfig(), folder=tmp_path)


def test_a_file_under_another_name_is_an_error(tmp_path):
    (tmp_path / "a.json").write_text(glossary().model_dump_json())
    with pytest.raises(ConfigError, match="another name"):
        GlossaryStore(LimitsConfig(), folder=tmp_path)


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="glossary_folder"):
        GlossaryStore(LimitsConfig(), folder=tmp_path / "file" / "glossaries")


def test_what_cannot_be_written_is_not_stored(tmp_path):
    store = GlossaryStore(LimitsConfig(), folder=tmp_path / "glossaries")
    (tmp_path / "glossaries").rmdir()
    with pytest.raises(RunError, match="cannot be written"):
        asyncio.run(store.add(glossary()))
    assert store.of("") == []
