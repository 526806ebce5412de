"""Explanations of a translation: attention between words, alternatives of each token, and the beam search."""

from typing import Any, Literal

from fastapi import Request
from pydantic import BaseModel, Field

from dragoman.serving.http.requests import body_schema, read_body
from dragoman.serving.protocols.native.messages import Body, ClientDep, native_router
from dragoman.serving.protocols.native.translate import LANGUAGE
from dragoman.serving.server import ServerDep
from dragoman.serving.translation.service import TranslationRequest

router = native_router()


class ExplainBody(Body):
    """Text whose translation is explained."""

    text: str = Field(examples=["Two dogs play."])
    translation: str | None = Field(default=None, description="translation to explain; default: the model's own")
    source: str | None = Field(default=None, examples=["en"], description=LANGUAGE)
    target: str = Field(examples=["de"], description="language code")
    beam_tree: bool = Field(default=False, description="whether the beam search for the translation is returned")
    beam_size: int | None = Field(default=None, ge=1, description="hypotheses of the search")


class WordRecord(BaseModel):
    """Word of a translation."""

    text: str
    log_prob: float = Field(description="natural logarithm, of all its tokens")
    begin: int = Field(description="its first token")
    end: int = Field(description="token after its last")


class TokenAlternative(BaseModel):
    """Token that could have been chosen."""

    token: str
    probability: float


class TokenRecord(BaseModel):
    """Token of a translation; the last one is the end symbol."""

    token: str
    log_prob: float
    rank: int = Field(description="number of more probable tokens")
    alternatives: list[TokenAlternative]


class CandidateRecord(BaseModel):
    """Continuation of a hypothesis."""

    parent: int | None = Field(description="index among the candidates of the step before")
    token: str
    log_prob: float
    total: float = Field(description="log-probability of all tokens so far")
    outcome: Literal["continued", "finished", "pruned"]


class BeamRecord(BaseModel):
    """Beam search: the candidates of each step, and the paths through them of the best and of the greedy output."""

    beam_size: int
    steps: list[list[CandidateRecord]]
    best_path: list[int]
    greedy_path: list[int]


class ExplainAnswer(BaseModel):
    """Explanation of a translation."""

    source_text: str = Field(description="text that the last model read")
    translation: str
    source_words: list[str]
    target_words: list[WordRecord]
    attention: list[list[float]] = Field(description="weight of each source word (column) for each target word (row)")
    description: str = Field(description="where the weights come from")
    links: list[tuple[int, int]] = Field(description="aligned words, as numbers of source and target word")
    tokens: list[TokenRecord]
    beam: BeamRecord | None = None


@router.post("/explain", response_model=ExplainAnswer, openapi_extra=body_schema(ExplainBody, form=False))
async def explain(request: Request, server: ServerDep, client: ClientDep) -> dict[str, Any]:
    """Explain the translation of a text: which source words each word attended to, and what else was probable."""
    body = await read_body(request, ExplainBody)
    asked = TranslationRequest([body.text], body.target, body.source, split_sentences=False, model=body.model)
    return await server.explain(
        asked, client, translation=body.translation, beam_size=body.beam_size, with_beam=body.beam_tree
    )
