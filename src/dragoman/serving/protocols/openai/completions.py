"""Routes of completions and chats."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import Request
from pydantic import BaseModel

from dragoman.inference import Completion, Generator
from dragoman.serving.generation import GenerationTask, read_prompts
from dragoman.serving.http.errors import invalid
from dragoman.serving.http.event_stream import EventStream, event, stream_description
from dragoman.serving.http.requests import body_schema, read_body
from dragoman.serving.protocols.openai.build_answers import ChatAnswer, TextAnswer, count_tokens
from dragoman.serving.protocols.openai.generation_answers import ChatChunk, ChatCompletion, TextCompletion
from dragoman.serving.protocols.openai.generation_bodies import (
    DEFAULT_MAX_TOKENS,
    ChatBody,
    CompletionBody,
    GenerationBody,
)
from dragoman.serving.protocols.openai.interface import ErrorAnswer, client_of, error_answer, openai_router
from dragoman.serving.served_models import ServedModel
from dragoman.serving.server import Server, ServerDep

router = openai_router()
_DONE = "[DONE]"


def _streams(chunk: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Return the entry of the OpenAPI description for an answer that may come in pieces."""
    text = "The answer, or with `stream` its pieces as server-sent events, up to `[DONE]`"
    return {200: {"description": text, "content": stream_description(chunk, ErrorAnswer, last=_DONE)}}


@router.post(
    "/completions",
    response_model=TextCompletion,
    responses=_streams(TextCompletion),
    openapi_extra=body_schema(CompletionBody, form=False),
)
async def completions(request: Request, server: ServerDep) -> Any:
    """Continue prompts."""
    client = client_of(request, server)
    body = await read_body(request, CompletionBody)
    served, generator = _find_generator(server, body.model)
    limit = DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens
    options = body.sampling_options(limit, body.stop_strings, body.logprobs)
    prompts = await read_prompts(server, generator, body.prompts)
    answer = TextAnswer(served.name, generator, prompts, num_samples=body.n, echo=body.echo, logprobs=body.logprobs)
    task = GenerationTask(server, client, served.name, generator, prompts, body.n, options, prepare=answer.prepare)
    return await _respond(answer, task, body)


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses=_streams(ChatChunk),
    openapi_extra=body_schema(ChatBody, form=False),
)
async def chat_completions(request: Request, server: ServerDep) -> Any:
    """Answer a conversation, by the chat template of the model."""
    client = client_of(request, server)
    body = await read_body(request, ChatBody)
    served, generator = _find_generator(server, body.model)
    if generator.template is None:
        message = f"The model {served.name} was trained without a chat template. Use /v1/completions with a prompt."
        raise invalid(message, "model")
    prompt = generator.chat_prompt([message.read() for message in body.messages])
    limit = server.config.limits.max_new_tokens if body.token_limit is None else body.token_limit
    options = body.sampling_options(limit, [*generator.chat_stop, *body.stop_strings], body.top_logprobs)
    prompts = await read_prompts(server, generator, [prompt])
    task = GenerationTask(server, client, served.name, generator, prompts, body.n, options)
    answer = ChatAnswer(served.name, generator, prompts, num_samples=body.n, logprobs=body.logprobs)
    return await _respond(answer, task, body)


def _find_generator(server: Server, name: str | None) -> tuple[ServedModel, Generator]:
    """Return a language model by its name. Raises RequestError where it is none.

    A translator is refused, because clients of this interface write instructions, which it would translate.
    """
    if any(one.name == name for one in server.store.of_kind("translator")):
        raise invalid(
            f"The model {name} translates, and would translate instructions, too. Use POST /translate or "
            "/v2/translate.",
            "model",
        )
    return server.store.get(name, "generator", verb="generate text")


async def _respond(answer: TextAnswer | ChatAnswer, task: GenerationTask, body: GenerationBody) -> Any:
    """Return a whole answer, or begin a stream of its pieces."""
    if not body.stream:
        found = await task.run()
        return answer.whole(found, count_tokens(found, num_samples=body.n))
    return await EventStream.begin(
        _events(answer, task, include_usage=body.include_usage),
        timeout=task.server.config.limits.timeout,
        render_error=lambda error: event(error_answer(error).model_dump_json()),
    )


async def _events(
    answer: TextAnswer | ChatAnswer, task: GenerationTask, *, include_usage: bool
) -> AsyncGenerator[str, None]:
    """Yield the events of an answer in pieces."""
    completions: dict[int, Completion] = {}
    without = set() if include_usage else {"usage"}
    async with aclosing(task.stream()) as pieces:
        async for piece in pieces:
            for chunk in answer.chunks(piece):
                yield event(chunk.model_dump_json(exclude=without))
            if piece.completion is not None:
                completions[piece.number] = piece.completion
    if include_usage:
        found = [completions[number] for number in sorted(completions)]
        yield event(answer.last_chunk(count_tokens(found, num_samples=task.num_samples)).model_dump_json())
    yield event(_DONE)
