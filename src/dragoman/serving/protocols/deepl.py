"""The interface of DeepL, version 2: https://developers.deepl.com/api-reference.

Parameters without effect here, such as style rules, are refused.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import Request, Response
from pydantic import BaseModel, BeforeValidator, Field

from dragoman.serving.access.admission import Client
from dragoman.serving.glossaries.applied_glossaries import apply_dictionaries
from dragoman.serving.http.errors import invalid
from dragoman.serving.http.requests import (
    attachment,
    body_schema,
    query_schema,
    read_body,
    read_upload,
    upload_schema,
)
from dragoman.serving.protocols.deepl_messages import ClientDep, DeepLBody, deepl_router
from dragoman.serving.server import Server, ServerDep
from dragoman.serving.translation.languages import language_name
from dragoman.serving.translation.service import TextFormat, TranslatedText, TranslationRequest
from dragoman.serving.translation.terms import GlossaryEntries

IGNORED = "x-ignored-parameters"
"""Header of an answer with the parameters that the model cannot use."""
UNLIMITED = 1_000_000_000_000
"""Character limit where there is none."""
_REFUSED = {
    "style_id": "style rules",
    "translation_memory_id": "translation memories",
    "custom_instructions": "custom instructions",
}
"""Parameters that are refused where they are not empty, and what they ask for."""
MAX_GLOSSARIES = 5
"""Glossaries of a request."""
_GLOSSARY = "glossary of the language pair; `source_lang` is required with it"
_GLOSSARIES = "glossaries of the language pair, the first of which precede; `source_lang` is required with them"


def _as_list(value: Any) -> Any:
    """Return a list of names, which forms separate by commas."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return [name.strip() for one in value for name in one.split(",") if name.strip()]
    return value


Names = Annotated[list[str], BeforeValidator(_as_list)]


router = deepl_router("/v2")


class TranslateBody(DeepLBody):
    """Texts to translate."""

    text: list[str] = Field(min_length=1, examples=[["Two dogs play."]])
    target_lang: str = Field(examples=["DE"])
    source_lang: str | None = Field(default=None, examples=["EN"])
    split_sentences: Literal["0", "1", "nonewlines"] | None = None
    preserve_formatting: Literal["0", "1"] | bool = Field(default=False, description="formatting is always kept")
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = "default"
    tag_handling: Literal["xml", "html"] | None = None
    tag_handling_version: Literal["v1", "v2"] | None = None
    outline_detection: Literal["0", "1"] | bool = Field(default=True, description="find the tags that split a text")
    ignore_tags: Names = Field(default=[])
    model_type: Literal["latency_optimized", "quality_optimized", "prefer_quality_optimized"] | None = None
    show_billed_characters: Literal["0", "1", "true", "false"] | bool = False
    enable_beta_languages: Literal["0", "1"] | bool = Field(default=False, description="without effect, as at DeepL")
    context: str | None = Field(
        default=None, description="text before each text, which models with document context read; others ignore it"
    )
    glossary_id: str | None = Field(default=None, description=_GLOSSARY)
    glossary_ids: Names = Field(default=[], max_length=MAX_GLOSSARIES, description=_GLOSSARIES)
    style_id: str | None = Field(default=None, description="refused")
    translation_memory_id: str | None = Field(default=None, description="refused")
    custom_instructions: Names = Field(default=[], description="refused")
    non_splitting_tags: Names = Field(default=[])
    splitting_tags: Names = Field(default=[])


_LISTS = frozenset(
    ["text", "ignore_tags", "glossary_ids", "custom_instructions", "non_splitting_tags", "splitting_tags"]
)


class TranslatedItem(BaseModel):
    """Translation of one text."""

    detected_source_language: str
    text: str
    billed_characters: int | None = None
    model_type_used: str | None = None
    tag_handling_version: str | None = None


class TranslateAnswer(BaseModel):
    """Translations in the order of the texts."""

    translations: list[TranslatedItem]


class DocumentBody(DeepLBody):
    """File to translate."""

    target_lang: str = Field(examples=["DE"])
    source_lang: str | None = Field(default=None, examples=["EN"])
    filename: str | None = Field(default=None, description="name of the file, in the place of that of the upload")
    formality: Literal["default", "prefer_more", "prefer_less"] = "default"
    glossary_id: str | None = Field(default=None, description=_GLOSSARY)
    glossary_ids: Names = Field(default=[], max_length=MAX_GLOSSARIES, description=_GLOSSARIES)
    output_format: str | None = Field(default=None, description="refused")
    enable_beta_languages: Literal["0", "1"] | bool = Field(default=False, description="without effect, as at DeepL")


class DocumentHandle(BaseModel):
    """Names under which a file is asked for."""

    document_id: str
    document_key: str


class DocumentKey(DeepLBody):
    """Proof that a client has uploaded a file."""

    document_key: str = Field(examples=["0CB0054F1C132C1625B392EADDA41CB754A742822F6877173029A6C487E7F60A"])


class DocumentStatus(BaseModel):
    """Progress of the translation of a file."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None


class Language(BaseModel):
    """Source or target language."""

    language: str
    name: str
    supports_formality: bool | None = None


class LanguagesBody(DeepLBody):
    """Side whose languages are asked for."""

    type: Literal["source", "target"] = "source"
    enable_beta_languages: Literal["0", "1"] | bool = Field(default=False, description="without effect, as at DeepL")


class Usage(BaseModel):
    """Characters of the key in the current month, and how many are allowed."""

    character_count: int
    character_limit: int


@router.get("/translate", response_model=TranslateAnswer, response_model_exclude_none=True, include_in_schema=False)
@router.post(
    "/translate",
    response_model=TranslateAnswer,
    response_model_exclude_none=True,
    openapi_extra=body_schema(TranslateBody),
)
async def translate(request: Request, response: Response, server: ServerDep, client: ClientDep) -> TranslateAnswer:
    """Translate texts, each by itself.

    The header `x-ignored-parameters` of the answer names `context` where the model does not read it.
    """
    body = await read_body(request, TranslateBody, lists=_LISTS)
    _refuse_without_effect(body)
    texts = [" ".join(text.split("\n")) for text in body.text] if body.split_sentences == "nonewlines" else body.text
    formats: Mapping[str | None, TextFormat] = {None: "text", "xml": "xml", "html": "html"}
    asked = TranslationRequest(
        texts=texts,
        source=body.source_lang or None,
        target=body.target_lang,
        text_format=formats[body.tag_handling],
        ignored_tags=body.ignore_tags,
        splitting_tags=body.splitting_tags,
        non_splitting_tags=body.non_splitting_tags,
        outline_detection=body.outline_detection in (True, "1"),
        split_sentences=body.split_sentences != "0",
        is_fast=body.model_type == "latency_optimized",
        glossary=_glossary(server, client, body),
        context=body.context or "",
        needs_context=False,
    )
    found = await server.translate(asked, client)
    if ignored := sorted({name for one in found for name in one.ignored}):
        response.headers[IGNORED] = ", ".join(ignored)
    return TranslateAnswer(translations=[_item(body, *pair) for pair in zip(body.text, found, strict=True)])


def _item(body: TranslateBody, text: str, found: TranslatedText) -> TranslatedItem:
    return TranslatedItem(
        detected_source_language=found.pair[0].upper(),
        text=found.text,
        billed_characters=len(text) if body.show_billed_characters in (True, "1", "true") else None,
        model_type_used=body.model_type and body.model_type.removeprefix("prefer_"),
        tag_handling_version=body.tag_handling and (body.tag_handling_version or "v2"),
    )


def _refuse_without_effect(body: TranslateBody) -> None:
    """Raise RequestError for a parameter that would have no effect."""
    for name, what in _REFUSED.items():
        if getattr(body, name):
            raise invalid(f"Not supported: {what}. Leave {name} out.", name)
    if body.formality in ("more", "less"):
        raise invalid(f"formality is not supported by this model. Use prefer_{body.formality}, or leave it out.")
    names = ("ignore_tags", "splitting_tags", "non_splitting_tags", "tag_handling_version")
    if body.tag_handling is None and (unused := [name for name in names if getattr(body, name)]):
        raise invalid(f"{unused[0]} has no effect without tag_handling. Leave it out.", unused[0])
    if body.tag_handling is None and body.outline_detection in (False, "0"):
        raise invalid("outline_detection has no effect without tag_handling. Leave it out.", "outline_detection")


def _glossary(server: Server, client: Client, body: TranslateBody | DocumentBody) -> GlossaryEntries | None:
    """Return the glossary of a request, if it has one. Raises RequestError for one that does not suit its languages."""
    if not (identifiers := [*([body.glossary_id] if body.glossary_id else []), *body.glossary_ids]):
        return None
    if body.glossary_id and body.glossary_ids:
        raise invalid("glossary_id and glossary_ids exclude each other. Leave one of them out.", "glossary_ids")
    if not body.source_lang:
        raise invalid("source_lang is required with a glossary.", "source_lang")
    pair = server.store.find_pair(body.source_lang, body.target_lang)
    glossaries = [server.glossaries.get(server.account_of(client), one) for one in identifiers]
    if any(pair not in one.pairs for one in glossaries):
        raise invalid(f"A glossary has no dictionary for the language pair {pair[0]} to {pair[1]}.", "glossary_id")
    return apply_dictionaries([one.get(pair) for one in glossaries])


@router.post("/document", response_model=DocumentHandle, openapi_extra=upload_schema(DocumentBody))
async def upload_document(request: Request, server: ServerDep, client: ClientDep) -> DocumentHandle:
    """Start the translation of a file."""
    body, filename, content = await read_upload(request, DocumentBody)
    if body.output_format:
        raise invalid("output_format is not supported. Leave it out.", "output_format")
    glossary = _glossary(server, client, body)
    asked = TranslationRequest(
        texts=[], target=body.target_lang, source=body.source_lang or None, has_to_differ=True, glossary=glossary
    )
    job = await server.start_document(body.filename or filename, content, asked, client)
    return DocumentHandle(document_id=job.identifier, document_key=job.key)


@router.post(
    "/document/{document_id}",
    response_model=DocumentStatus,
    response_model_exclude_none=True,
    openapi_extra=body_schema(DocumentKey),
)
async def document_status(document_id: str, request: Request, server: ServerDep) -> DocumentStatus:
    """Return the progress of the translation of a file."""
    body = await read_body(request, DocumentKey)
    job = server.documents.get(document_id, body.document_key)
    return DocumentStatus(
        document_id=job.identifier,
        status=job.status,
        seconds_remaining=1 if job.status == "translating" else None,
        billed_characters=job.characters if job.status == "done" else None,
        error_message=None if job.error is None else job.error.message,
    )


@router.post("/document/{document_id}/result", response_class=Response, openapi_extra=body_schema(DocumentKey))
async def document_result(document_id: str, request: Request, server: ServerDep) -> Response:
    """Return a translated file, once."""
    body = await read_body(request, DocumentKey)
    job = server.documents.take(document_id, body.document_key)
    return Response(job.content, media_type="application/octet-stream", headers=attachment(job.filename))


@router.get(
    "/languages",
    response_model=list[Language],
    response_model_exclude_none=True,
    openapi_extra=query_schema(LanguagesBody),
)
@router.post("/languages", response_model=list[Language], response_model_exclude_none=True, include_in_schema=False)
async def languages(request: Request, server: ServerDep) -> list[Language]:
    """Return the source or target languages; clients send `type` in the address or in a body."""
    is_target = (await read_body(request, LanguagesBody)).type == "target"
    codes = sorted({pair[is_target] for pair in server.store.pairs()})
    formality = False if is_target else None
    return [Language(language=one.upper(), name=language_name(one), supports_formality=formality) for one in codes]


@router.get("/usage", response_model=Usage)
@router.post("/usage", response_model=Usage, include_in_schema=False)
async def usage(server: ServerDep, client: ClientDep) -> Usage:
    """Return how many characters of the key were translated in the current month."""
    used, limit = server.usage.of(client.name)
    return Usage(character_count=used, character_limit=limit or UNLIMITED)
