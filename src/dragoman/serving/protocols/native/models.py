"""List of the models."""

from typing import Any

from pydantic import BaseModel, Field

from dragoman.serving.protocols.native.messages import ClientDep, native_router
from dragoman.serving.served_models import ModelKind, ServedModel
from dragoman.serving.server import ServerDep

router = native_router()


class ModelRecord(BaseModel):
    """Model that clients can name."""

    name: str
    kind: ModelKind
    created: int = Field(description="when it was loaded, in seconds since 1970")
    pairs: list[tuple[str, str]] = Field(description="languages that a translator translates from and into")
    labels: list[str] | None = Field(default=None, description="labels of a classifier or tagger")
    protects_placeholders: bool = Field(
        default=False, description="whether a translator can keep placeholders, such as `{name}`, byte for byte"
    )


class ModelsAnswer(BaseModel):
    """Models in the order of the configuration."""

    models: list[ModelRecord]


@router.get("/models", response_model=ModelsAnswer)
async def models(server: ServerDep, client: ClientDep) -> ModelsAnswer:  # noqa: ARG001  # the key is checked
    """Return the models that are served."""
    return ModelsAnswer(models=[_record(one) for one in server.store.models])


def _record(served: ServedModel) -> ModelRecord:
    model: Any = served.model
    return ModelRecord(
        name=served.name,
        kind=served.kind,
        created=served.created,
        pairs=sorted(served.pairs),
        labels=list(model.labels.names) if served.kind in ("classifier", "tagger") else None,
        protects_placeholders=served.kind == "translator" and served.can_protect_placeholders,
    )
