"""Glossaries in the interface of DeepL: version 2 for one language pair each, version 3 for several.

Source: https://developers.deepl.com/api-reference/multilingual-glossaries.
"""

import re
from collections import defaultdict
from typing import Any, Literal

from fastapi import Request, Response
from pydantic import BaseModel, Field, model_validator

from dragoman.serving.glossaries.entries import EntriesFormat, read_entries, write_tsv
from dragoman.serving.glossaries.glossary_store import GlossaryDictionary, StoredGlossary
from dragoman.serving.http.errors import RequestError, invalid
from dragoman.serving.http.requests import body_schema, query_schema, read_body
from dragoman.serving.protocols.deepl_messages import ClientDep, DeepLBody, deepl_router
from dragoman.serving.served_models import LanguagePair
from dragoman.serving.server import Server, ServerDep

_one_pair = deepl_router("/v2")
_several_pairs = deepl_router("/v3")
ROUTERS = (_one_pair, _several_pairs)
TSV = "text/tab-separated-values"
MAX_NAME = 1024
"""Characters of the name of a glossary."""
_IN_FORM = re.compile(r"dictionaries\[(?P<number>[0-9]{1,3})\]\.(?P<name>\w{1,32})")
"""Parameter of a dictionary in a form, as `deepl-node` sends it."""


class PairBody(DeepLBody):
    """Language pair of a dictionary."""

    source_lang: str = Field(examples=["en"])
    target_lang: str = Field(examples=["de"])


class DictionaryBody(PairBody):
    """Entries of a language pair."""

    entries: str = Field(examples=["Hello\tGuten Tag"])
    entries_format: EntriesFormat = "tsv"


class GlossaryBody(DictionaryBody):
    """Glossary of one language pair."""

    name: str = Field(min_length=1, max_length=MAX_NAME, examples=["My Glossary"])


class _WithDictionaries(DeepLBody):
    @model_validator(mode="before")
    @classmethod
    def _read_form(cls, tree: Any) -> Any:
        """Return parameters in which dictionaries are a list, as in JSON; forms name `dictionaries[0].entries`."""
        if not isinstance(tree, dict) or "dictionaries" in tree:
            return tree
        dictionaries: dict[int, dict[str, Any]] = defaultdict(dict)
        other: dict[str, Any] = {}
        for name, value in tree.items():
            if match := _IN_FORM.fullmatch(name):
                dictionaries[int(match["number"])][match["name"]] = value
            else:
                other[name] = value
        return {**other, "dictionaries": [one for _, one in sorted(dictionaries.items())]} if dictionaries else other


class SeveralBody(_WithDictionaries):
    """Glossary of several language pairs."""

    name: str = Field(min_length=1, max_length=MAX_NAME, examples=["My Glossary"])
    dictionaries: list[DictionaryBody] = Field(min_length=1)


class PatchBody(_WithDictionaries):
    """Changes of a glossary: its name, entries of one of its dictionaries, or both."""

    name: str | None = Field(default=None, min_length=1, max_length=MAX_NAME)
    dictionaries: list[DictionaryBody] = Field(default=[], max_length=1)


class LanguagePairs(BaseModel):
    """Language pairs of glossaries."""

    supported_languages: list[dict[Literal["source_lang", "target_lang"], str]]


class DictionaryRecord(BaseModel):
    """Dictionary without its entries."""

    source_lang: str
    target_lang: str
    entry_count: int


class GlossaryRecord(DictionaryRecord):
    """Glossary of one language pair."""

    glossary_id: str
    name: str
    ready: bool
    creation_time: str


class GlossaryList(BaseModel):
    """Glossaries of one language pair each, the oldest first."""

    glossaries: list[GlossaryRecord]


class SeveralRecord(BaseModel):
    """Glossary of several language pairs."""

    glossary_id: str
    name: str
    dictionaries: list[DictionaryRecord]
    creation_time: str


class SeveralList(BaseModel):
    """All glossaries, the oldest first."""

    glossaries: list[SeveralRecord]


class EntriesRecord(BaseModel):
    """Entries of a dictionary."""

    source_lang: str
    target_lang: str
    entries: str
    entries_format: Literal["tsv"] = "tsv"


class EntriesAnswer(BaseModel):
    """Dictionaries with their entries."""

    dictionaries: list[EntriesRecord]


@_one_pair.get("/glossary-language-pairs", response_model=LanguagePairs)
async def glossary_language_pairs(server: ServerDep) -> LanguagePairs:
    """Return the language pairs that a model translates directly."""
    pairs = sorted(server.store.direct_pairs())
    return LanguagePairs(supported_languages=[{"source_lang": one, "target_lang": other} for one, other in pairs])


@_one_pair.post("/glossaries", response_model=GlossaryRecord, status_code=201, openapi_extra=body_schema(GlossaryBody))
async def create(request: Request, server: ServerDep, client: ClientDep) -> GlossaryRecord:
    """Store a glossary of one language pair."""
    body = await read_body(request, GlossaryBody)
    with server.admit(client):
        dictionaries = (_dictionary(server, body),)
        glossary = StoredGlossary(owner=server.account_of(client), name=body.name, dictionaries=dictionaries)
        return _record(await server.glossaries.add(glossary))


@_one_pair.get("/glossaries", response_model=GlossaryList)
async def list_glossaries(server: ServerDep, client: ClientDep) -> GlossaryList:
    """Return the glossaries of one language pair each."""
    found = server.glossaries.of(server.account_of(client))
    return GlossaryList(glossaries=[_record(one) for one in found if len(one.dictionaries) == 1])


@_one_pair.get("/glossaries/{glossary_id}", response_model=GlossaryRecord)
async def get(glossary_id: str, server: ServerDep, client: ClientDep) -> GlossaryRecord:
    """Return a glossary of one language pair, without its entries."""
    return _record(server.glossaries.get(server.account_of(client), glossary_id))


@_one_pair.get(
    "/glossaries/{glossary_id}/entries",
    response_class=Response,
    responses={200: {"content": {TSV: {"schema": {"type": "string"}}}}},
)
async def entries(glossary_id: str, request: Request, server: ServerDep, client: ClientDep) -> Response:
    """Return the entries of a glossary of one language pair, as tab-separated values."""
    accepted = request.headers.get("accept", "*/*")
    if not any(kind in accepted for kind in (TSV, "*/*", "text/*")):
        raise RequestError(415, f"Entries are returned as {TSV} only.")
    glossary = server.glossaries.get(server.account_of(client), glossary_id)
    _record(glossary)
    return Response(write_tsv(glossary.dictionaries[0].entries), media_type=TSV)


@_one_pair.delete("/glossaries/{glossary_id}", status_code=204, response_class=Response)
@_several_pairs.delete("/glossaries/{glossary_id}", status_code=204, response_class=Response)
async def delete(glossary_id: str, server: ServerDep, client: ClientDep) -> None:
    """Remove a glossary."""
    await server.glossaries.delete(server.account_of(client), glossary_id)


@_several_pairs.post(
    "/glossaries", response_model=SeveralRecord, status_code=201, openapi_extra=body_schema(SeveralBody)
)
async def create_several(request: Request, server: ServerDep, client: ClientDep) -> SeveralRecord:
    """Store a glossary of several language pairs."""
    body = await read_body(request, SeveralBody)
    with server.admit(client):
        dictionaries = tuple(_dictionary(server, one) for one in body.dictionaries)
        if len({one.pair for one in dictionaries}) < len(dictionaries):
            raise invalid("Invalid glossary: two dictionaries have the same language pair.", "dictionaries")
        glossary = StoredGlossary(owner=server.account_of(client), name=body.name, dictionaries=dictionaries)
        return _several_record(await server.glossaries.add(glossary))


@_several_pairs.get("/glossaries", response_model=SeveralList)
async def list_several(server: ServerDep, client: ClientDep) -> SeveralList:
    """Return all glossaries."""
    return SeveralList(glossaries=[_several_record(one) for one in server.glossaries.of(server.account_of(client))])


@_several_pairs.get("/glossaries/{glossary_id}", response_model=SeveralRecord)
async def get_several(glossary_id: str, server: ServerDep, client: ClientDep) -> SeveralRecord:
    """Return a glossary without its entries."""
    return _several_record(server.glossaries.get(server.account_of(client), glossary_id))


@_several_pairs.patch("/glossaries/{glossary_id}", response_model=SeveralRecord, openapi_extra=body_schema(PatchBody))
async def patch(glossary_id: str, request: Request, server: ServerDep, client: ClientDep) -> SeveralRecord:
    """Rename a glossary, and add entries to one of its dictionaries or change them."""
    body = await read_body(request, PatchBody)
    with server.admit(client):
        dictionaries = [_dictionary(server, one) for one in body.dictionaries]

        def changed(glossary: StoredGlossary) -> StoredGlossary:
            if body.name is not None:
                glossary = glossary.model_copy(update={"name": body.name})
            for one in dictionaries:
                glossary = glossary.with_dictionary(one, merge=True)
            return glossary

        return _several_record(await server.glossaries.change(server.account_of(client), glossary_id, changed))


@_several_pairs.put(
    "/glossaries/{glossary_id}/dictionaries",
    response_model=DictionaryRecord,
    openapi_extra=body_schema(DictionaryBody),
)
async def put_dictionary(glossary_id: str, request: Request, server: ServerDep, client: ClientDep) -> DictionaryRecord:
    """Add a dictionary to a glossary, or replace it."""
    body = await read_body(request, DictionaryBody)
    with server.admit(client):
        given = _dictionary(server, body)
        await server.glossaries.change(
            server.account_of(client), glossary_id, lambda one: one.with_dictionary(given, merge=False)
        )
        return _dictionary_record(given)


@_several_pairs.delete(
    "/glossaries/{glossary_id}/dictionaries",
    status_code=204,
    response_class=Response,
    openapi_extra=query_schema(PairBody),
)
async def delete_dictionary(glossary_id: str, request: Request, server: ServerDep, client: ClientDep) -> None:
    """Remove a dictionary of a glossary."""
    pair = _pair(server, await read_body(request, PairBody))
    await server.glossaries.change(server.account_of(client), glossary_id, lambda one: one.without_dictionary(pair))


@_several_pairs.get(
    "/glossaries/{glossary_id}/entries", response_model=EntriesAnswer, openapi_extra=query_schema(PairBody)
)
async def dictionary_entries(glossary_id: str, request: Request, server: ServerDep, client: ClientDep) -> EntriesAnswer:
    """Return the entries of a dictionary of a glossary, as tab-separated values."""
    body = await read_body(request, PairBody)
    found = server.glossaries.get(server.account_of(client), glossary_id).get(_pair(server, body))
    record = EntriesRecord(source_lang=found.source, target_lang=found.target, entries=write_tsv(found.entries))
    return EntriesAnswer(dictionaries=[record])


def _pair(server: Server, body: PairBody) -> LanguagePair:
    return server.store.find_pair(body.source_lang, body.target_lang)


def _dictionary(server: Server, body: DictionaryBody) -> GlossaryDictionary:
    """Return the dictionary of a body. Raises RequestError for invalid entries, and for a pair without a model."""
    pair = _pair(server, body)
    if pair not in server.store.direct_pairs():
        raise invalid(f"Glossaries are not supported for {pair[0]} to {pair[1]}: no model translates it directly.")
    return GlossaryDictionary(
        source=pair[0], target=pair[1], entries=read_entries(body.entries, body.entries_format, pair)
    )


def _dictionary_record(dictionary: GlossaryDictionary) -> DictionaryRecord:
    return DictionaryRecord(
        source_lang=dictionary.source, target_lang=dictionary.target, entry_count=len(dictionary.entries)
    )


def _record(glossary: StoredGlossary) -> GlossaryRecord:
    """Return the record of a glossary of one pair. Raises RequestError for one of several."""
    if len(glossary.dictionaries) != 1:
        raise invalid("The glossary has several language pairs, or none. Use /v3/glossaries for it.", "glossary_id")
    [dictionary] = glossary.dictionaries
    return GlossaryRecord(
        **_dictionary_record(dictionary).model_dump(),
        glossary_id=glossary.identifier,
        name=glossary.name,
        ready=True,
        creation_time=_time(glossary),
    )


def _several_record(glossary: StoredGlossary) -> SeveralRecord:
    return SeveralRecord(
        glossary_id=glossary.identifier,
        name=glossary.name,
        dictionaries=[_dictionary_record(one) for one in glossary.dictionaries],
        creation_time=_time(glossary),
    )


def _time(glossary: StoredGlossary) -> str:
    """Return the time of creation as clients read it: with fractions of a second."""
    return glossary.created.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
