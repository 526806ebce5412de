"""The interface of LibreTranslate 1.9: https://docs.libretranslate.com/api/operations."""

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from dragoman.serving.http.errors import RequestError, invalid
from dragoman.serving.http.requests import (
    attachment,
    body_schema,
    error_responses,
    protocol_router,
    read_body,
    read_upload,
    upload_schema,
)
from dragoman.serving.server import ServerDep
from dragoman.serving.translation.documents import FORMATS
from dragoman.serving.translation.languages import DetectedLanguage, language_name
from dragoman.serving.translation.service import TranslatedText, TranslationRequest

AUTO = "auto"
TO_REVIEW = "x-texts-to-review"
"""Header of an answer with the number of texts that a person should look at."""


def _render(error: RequestError) -> JSONResponse:
    return JSONResponse({"error": error.message}, error.status, error.headers)


class ErrorAnswer(BaseModel):
    """Answer to a request with an error."""

    error: str


router = protocol_router(_render, tags=["LibreTranslate"], responses=error_responses(ErrorAnswer))


class TranslateBody(BaseModel, extra="forbid"):
    """Texts to translate."""

    q: str | list[str] | None = Field(default=None, examples=["Two dogs play."])
    source: str | None = Field(default=None, examples=["en"], description="language code, or `auto`")
    target: str | None = Field(default=None, examples=["de"])
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(default=0, description="further translations")
    api_key: str | None = None
    secret: str | None = Field(default=None, description="without effect: LibreTranslate's web page sends it")


class DetectBody(BaseModel, extra="forbid"):
    """Text whose language is asked for."""

    q: str | None = Field(default=None, examples=["Zwei Hunde spielen."])
    api_key: str | None = None
    secret: str | None = Field(default=None, description="without effect: LibreTranslate's web page sends it")


class Detection(BaseModel):
    """Language of a text."""

    confidence: float = Field(description="from 0 to 100")
    language: str


class TranslateAnswer(BaseModel):
    """Translations; lists where `q` is a list."""

    translatedText: str | list[str]  # noqa: N815
    detectedLanguage: Detection | list[Detection] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None


class FileBody(BaseModel, extra="forbid"):
    """File to translate."""

    source: str | None = Field(default=None, examples=["en"], description="language code, or `auto`")
    target: str | None = Field(default=None, examples=["de"])
    api_key: str | None = None
    secret: str | None = Field(default=None, description="without effect: LibreTranslate's web page sends it")


class FileAnswer(BaseModel):
    """Address of a translated file."""

    translatedFileUrl: str  # noqa: N815


class Language(BaseModel):
    """Source language and its target languages."""

    code: str
    name: str
    targets: list[str]


@router.get("/translate", response_model=TranslateAnswer, response_model_exclude_none=True, include_in_schema=False)
@router.post(
    "/translate",
    response_model=TranslateAnswer,
    response_model_exclude_none=True,
    openapi_extra=body_schema(TranslateBody),
)
async def translate(request: Request, server: ServerDep) -> Any:
    """Translate a text, or each of a list."""
    body = await read_body(request, TranslateBody)
    q, source, target = (_required(getattr(body, name), name) for name in ("q", "source", "target"))
    if body.alternatives < 0:
        raise invalid("Invalid request: alternatives is negative")
    client = server.client_of(request, body.api_key)
    texts = [q] if isinstance(q, str) else q
    asked = TranslationRequest(
        texts=texts,
        source=None if source.casefold() == AUTO else source,
        target=target,
        text_format=body.format,
        n_best=1 + body.alternatives,
        options=_search_options(body.alternatives),
    )
    found = await server.translate(asked, client)
    return _answer(found, is_list=not isinstance(q, str), has_alternatives=body.alternatives > 0)


def _answer(found: Sequence[TranslatedText], *, is_list: bool, has_alternatives: bool) -> dict[str, Any]:
    """Return the translations of a list, or of one text."""
    answer: dict[str, list[Any]] = {"translatedText": [one.text for one in found]}
    if any(one.detected is not None for one in found):
        answer["detectedLanguage"] = [_detection(one.detected) for one in found if one.detected is not None]
    if has_alternatives:
        answer["alternatives"] = [list(one.texts[1:]) for one in found]
    return dict(answer) if is_list else {name: values[0] for name, values in answer.items()}


def _search_options(alternatives: int) -> dict[str, int]:
    """Return the options of a search that finds as many translations."""
    return {"beam_size": max(alternatives + 1, 5)} if alternatives else {}


@router.post("/translate_file", response_model=FileAnswer, openapi_extra=upload_schema(FileBody))
async def translate_file(request: Request, response: Response, server: ServerDep) -> FileAnswer:
    """Translate a file, and return the address of its translation, which may be fetched once.

    The header `x-texts-to-review` of the answer has the number of texts with warnings.
    """
    body, filename, content = await read_upload(request, FileBody)
    source, target = (_required(getattr(body, name), name) for name in ("source", "target"))
    client = server.client_of(request, body.api_key)
    asked = TranslationRequest(texts=[], target=target, source=None if source.casefold() == AUTO else source)
    job = await server.start_document(filename, content, asked, client)
    await server.documents.wait(job)
    response.headers[TO_REVIEW] = str(job.needs_review)
    name = quote(f"{job.identifier}.{job.key}.{job.filename}", safe="")
    return FileAnswer(translatedFileUrl=str(request.url_for("download_file", name=name)))


@router.get("/download_file/{name}", response_class=Response)
async def download_file(name: str, server: ServerDep) -> Response:
    """Return a translated file."""
    identifier, _, rest = name.partition(".")
    key, _, _ = rest.partition(".")
    job = server.documents.take(identifier, key)
    return Response(job.content, media_type="application/octet-stream", headers=attachment(job.filename))


@router.get("/languages", response_model=list[Language])
async def languages(server: ServerDep) -> list[Language]:
    """Return the source languages and what they are translated into."""
    pairs = server.store.pairs()
    return [
        Language(code=code, name=language_name(code), targets=sorted(target for one, target in pairs if one == code))
        for code in sorted({source for source, _ in pairs})
    ]


@router.post("/detect", response_model=list[Detection], openapi_extra=body_schema(DetectBody))
async def detect(request: Request, server: ServerDep) -> list[Detection]:
    """Return the languages that a text may be in, the most probable first."""
    body = await read_body(request, DetectBody)
    text = _required(body.q, "q")
    client = server.client_of(request, body.api_key)
    [found] = await server.detect([text], client)
    return [_detection(one) for one in found]


def _detection(found: DetectedLanguage) -> Detection:
    return Detection(confidence=round(100 * found.probability), language=found.code)


def _required(value: Any, name: str) -> Any:
    if value is None or value == "":
        raise invalid(f"Invalid request: missing {name} parameter", name)
    return value


@router.get("/spec", include_in_schema=False)
async def spec(request: Request) -> JSONResponse:
    """Return the OpenAPI description, where clients of LibreTranslate look for it."""
    return JSONResponse(request.app.openapi())


class FrontendLanguage(BaseModel):
    """Language of the web page."""

    code: str
    name: str


class FrontendSettings(BaseModel):
    """Settings that web pages of LibreTranslate read."""

    charLimit: int  # noqa: N815
    frontendTimeout: int  # noqa: N815
    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    suggestions: Literal[False] = False
    filesTranslation: bool  # noqa: N815
    supportedFilesFormat: list[str]  # noqa: N815
    language: dict[Literal["source", "target"], FrontendLanguage]


@router.get("/frontend/settings", response_model=FrontendSettings)
async def frontend_settings(server: ServerDep) -> FrontendSettings:
    """Return what a web page needs to know."""
    source, target = next(iter(sorted(server.store.pairs())), (AUTO, AUTO))
    needs_key = server.keys is not None
    return FrontendSettings(
        charLimit=server.config.limits.max_characters,
        frontendTimeout=500,
        apiKeys=needs_key,
        keyRequired=needs_key,
        filesTranslation=True,
        supportedFilesFormat=list(FORMATS),
        language={
            "source": FrontendLanguage(code=source, name=language_name(source)),
            "target": FrontendLanguage(code=target, name=language_name(target)),
        },
    )
