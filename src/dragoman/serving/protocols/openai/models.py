"""Routes that list the models of this interface."""

from typing import Literal

from fastapi import Request
from pydantic import BaseModel

from dragoman.serving.http.errors import RequestError
from dragoman.serving.protocols.openai.interface import client_of, openai_router
from dragoman.serving.served_models import ServedModel
from dragoman.serving.server import ServerDep

router = openai_router()


class Model(BaseModel):
    """A language model or embedder."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["dragoman"] = "dragoman"

    @classmethod
    def of(cls, served: ServedModel) -> "Model":
        """Return the entry of a served model."""
        return cls(id=served.name, created=served.created)


class ModelList(BaseModel):
    """All models of this interface."""

    object: Literal["list"] = "list"
    data: list[Model]


@router.get("/models", response_model=ModelList)
async def models(request: Request, server: ServerDep) -> ModelList:
    """Return the language models and embedders; translators have interfaces of their own."""
    client_of(request, server)
    return ModelList(data=[Model.of(one) for one in server.store.of_kind("generator", "embedder")])


@router.get("/models/{model:path}", response_model=Model)
async def model(model: str, request: Request, server: ServerDep) -> Model:
    """Return a language model or embedder."""
    client_of(request, server)
    for one in server.store.of_kind("generator", "embedder"):
        if one.name == model:
            return Model.of(one)
    raise RequestError(404, f"There is no language model or embedder {model[:128]}.", "model")
