"""Completion of prompts."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal

from fastapi import Request, Response
from pydantic import BaseModel, Field

from dragoman.inference.generation.generation_options import GenerationOptions
from dragoman.serving.generation import GenerationTask, read_prompts
from dragoman.serving.http.errors import RequestError, invalid
from dragoman.serving.http.event_stream import EventStream, event, stream_description
from dragoman.serving.http.requests import body_schema, read_body
from dragoman.serving.protocols.native.messages import (
    Body,
    ClientDep,
    ErrorAnswer,
    error_answer,
    native_router,
    one_or_more,
)
from dragoman.serving.server import ServerDep

router = native_router()


class GenerateBody(Body):
    """Prompts to complete; options left out are the model's own."""

    prompts: str | list[str] = Field(examples=["Once upon a time"])
    num_samples: int = Field(default=1, ge=1, description="completions of each prompt")
    max_new_tokens: int | None = Field(default=None, ge=1, description="most tokens of a completion")
    stop: str | list[str] | None = Field(default=None, description="strings that a completion ends before")
    temperature: float | None = Field(default=None, description="divides logits; 0 takes the most probable token")
    top_k: int | None = Field(default=None, description="sample from this many most probable tokens")
    top_p: float | None = Field(default=None, description="sample from the fewest tokens with this total probability")
    min_p: float | None = Field(default=None, description="least probability, relative to the greatest")
    typical_p: float | None = Field(default=None, description="total probability of the most typical tokens")
    repetition_penalty: float | None = Field(default=None, description="divides logits of tokens already used")
    no_repeat_ngram_size: int | None = Field(default=None, description="n-grams of this size never repeat")
    min_length: int | None = Field(default=None, description="fewest tokens of a completion")
    allow_unk: bool | None = None
    seed: int | None = Field(default=None, description="seed of the random numbers")

    stream: bool = Field(default=False, description="send the completions while they are generated")

    def sampling(self) -> GenerationOptions:
        """Return the options that are given."""
        options: Any = self.model_dump(include=set(GenerationOptions.__annotations__), exclude_none=True)
        given: GenerationOptions = options
        return given


class CompletionRecord(BaseModel):
    """One completion."""

    text: str
    finish_reason: Literal["end", "stop", "length"]
    truncated: bool = Field(description="whether the beginning of the prompt did not fit and was ignored")
    score: float
    log_prob: float
    tokens: list[str]
    token_log_probs: list[float]


class GenerateResult(BaseModel):
    """Completions of one prompt."""

    prompt: str
    completions: list[CompletionRecord]


class GenerateAnswer(BaseModel):
    """Results in the order of the prompts."""

    model: str
    results: list[GenerateResult]


class CompletionPieceRecord(BaseModel):
    """Part of a completion; the texts of all its parts, joined, are the completion."""

    number: int = Field(description="number of the completion, those of a prompt one after the other")
    text: str
    completion: CompletionRecord | None = Field(description="the whole completion, in its last part")


_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The completions, or with `stream` their parts as server-sent events",
        "content": stream_description(CompletionPieceRecord, ErrorAnswer),
    }
}


@router.post(
    "/generate",
    response_model=GenerateAnswer,
    responses=_STREAMED,
    openapi_extra=body_schema(GenerateBody, form=False),
)
async def generate(request: Request, server: ServerDep, client: ClientDep) -> dict[str, Any] | Response:
    """Complete a prompt, or each of a list."""
    body = await read_body(request, GenerateBody)
    served, generator = server.store.get(body.model, "generator", verb="generate text")
    given = one_or_more(body.prompts)
    if not given:
        raise invalid("Invalid request: prompts is an empty list", "prompts")
    prompts = await read_prompts(server, generator, given, name="prompts")
    task = GenerationTask(
        server, client, served.name, generator, prompts, body.num_samples, body.sampling(), "max_new_tokens"
    )
    if body.stream:
        return await EventStream.begin(_events(task), timeout=server.config.limits.timeout, render_error=_error_event)
    found = await task.run()
    rows = [found[first : first + body.num_samples] for first in range(0, len(found), body.num_samples)]
    return {
        "model": served.name,
        "results": [{"prompt": row[0].prompt, "completions": [one.to_dict() for one in row]} for row in rows],
    }


async def _events(task: GenerationTask) -> AsyncGenerator[str, None]:
    """Yield the events of completions in parts."""
    async with aclosing(task.stream()) as pieces:
        async for piece in pieces:
            whole = None if piece.completion is None else piece.completion.to_dict()
            if piece.text or whole:
                yield event(json.dumps({"number": piece.number, "text": piece.text, "completion": whole}))


def _error_event(error: RequestError) -> str:
    return event(error_answer(error).model_dump_json())
