"""Route of embeddings."""

import asyncio
import base64
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from fastapi import Request
from pydantic import BaseModel, Field

from dragoman.serving.http.errors import invalid
from dragoman.serving.http.requests import body_schema, read_body
from dragoman.serving.protocols.openai.interface import client_of, openai_router
from dragoman.serving.server import ServerDep

if TYPE_CHECKING:  # it imports PyTorch
    from dragoman.inference import Embedder

router = openai_router()


class EmbeddingsBody(BaseModel, extra="forbid", strict=True):
    """Texts to embed."""

    input: str | Annotated[list[str], Field(min_length=1)] = Field(examples=["Two dogs play."])
    model: str | None = Field(default=None, examples=["minilm"], description="name of the model; default: the first")
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="numbers, or the bytes of 32-bit floats, little endian, as base64"
    )
    dimensions: int | None = Field(default=None, ge=1, description="size of the vectors, which is that of the model")
    user: str | None = Field(default=None, description="any text, which has no effect on the answer")


class Embedding(BaseModel):
    """Vector of a text."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsUsage(BaseModel):
    """Counts of tokens."""

    prompt_tokens: int = Field(description="tokens of the texts as the model reads them, with begin and end symbols")
    total_tokens: int


class EmbeddingsAnswer(BaseModel):
    """Vectors in the order of the texts."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage


@router.post("/embeddings", response_model=EmbeddingsAnswer, openapi_extra=body_schema(EmbeddingsBody, form=False))
async def embeddings(request: Request, server: ServerDep) -> EmbeddingsAnswer:
    """Return a vector for each text."""
    client = client_of(request, server)
    body = await read_body(request, EmbeddingsBody)
    texts = [body.input] if isinstance(body.input, str) else body.input
    served, embedder = server.store.get(body.model, "embedder", verb="embed texts")
    if body.dimensions not in (None, embedder.size):
        raise invalid(f"dimensions = {body.dimensions}: the vectors of this model have {embedder.size}.", "dimensions")
    with server.work(client, texts) as answer_with:
        count = await asyncio.to_thread(_count_tokens, embedder, texts)
        vectors = await embedder.embed_async(texts)
        answer_with(served.name, ())
    as_text = body.encoding_format == "base64"
    data = [
        Embedding(index=number, embedding=_base64(vector) if as_text else vector.tolist())
        for number, vector in enumerate(vectors)
    ]
    return EmbeddingsAnswer(
        data=data, model=served.name, usage=EmbeddingsUsage(prompt_tokens=count, total_tokens=count)
    )


def _base64(vector: np.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _count_tokens(embedder: "Embedder", texts: list[str]) -> int:
    """Return the tokens of all texts, with begin and end symbols. Raises RequestError where one is too long."""
    lengths = [len(ids) + 2 for ids in embedder.tokenizer.encode_batch(texts)]
    for number, length in enumerate(lengths):
        if length > embedder.max_length:
            raise invalid(
                f"Invalid request: input[{number}] has {length:,} tokens, and the model reads {embedder.max_length:,} "
                "at most. Shorten it.",
                "input",
            )
    return sum(lengths)
