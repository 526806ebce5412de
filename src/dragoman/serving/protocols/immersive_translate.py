"""The interface that the browser extension Immersive Translate calls for a server of one's own."""

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from dragoman.serving.http.errors import RequestError
from dragoman.serving.http.requests import body_schema, error_responses, protocol_router, read_body
from dragoman.serving.server import ServerDep
from dragoman.serving.translation.service import TranslationRequest


def _render(error: RequestError) -> JSONResponse:
    return JSONResponse({"message": error.message}, error.status, error.headers)


class ErrorAnswer(BaseModel):
    """Answer to a request with an error."""

    message: str


router = protocol_router(_render, tags=["Immersive Translate"], responses=error_responses(ErrorAnswer))


class TranslateBody(BaseModel, extra="forbid"):
    """Texts to translate."""

    source_lang: str = Field(default="auto", examples=["en"], description="language code, or `auto`")
    target_lang: str = Field(examples=["de"])
    text_list: list[str] = Field(examples=[["Two dogs play."]])


class TranslatedItem(BaseModel):
    """Translation of one text."""

    detected_source_lang: str
    text: str


class TranslateAnswer(BaseModel):
    """Translations in the order of the texts."""

    translations: list[TranslatedItem]


@router.post("/imme", response_model=TranslateAnswer, openapi_extra=body_schema(TranslateBody, form=False))
async def translate(request: Request, server: ServerDep) -> TranslateAnswer:
    """Translate texts, each by itself; the address may have the parameter `token`, an API key."""
    client = server.client_of(request, request.query_params.get("token"))
    body = await read_body(request, TranslateBody)
    source = None if body.source_lang.casefold() == "auto" else body.source_lang
    found = await server.translate(TranslationRequest(body.text_list, body.target_lang, source), client)
    return TranslateAnswer(
        translations=[TranslatedItem(detected_source_lang=one.pair[0], text=one.text) for one in found]
    )
