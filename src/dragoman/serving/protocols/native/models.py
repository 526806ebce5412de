"""List of the models."""

from typing import Literal

from pydantic import BaseModel, Field

from dragoman.inference import Classifier, Tagger
from dragoman.serving.protocols.native.messages import ClientDep, native_router
from dragoman.serving.served_models import ServedModel
from dragoman.serving.server import ServerDep

router = native_router()
Kind = Literal["translator", "generator", "classifier", "tagger", "question_answerer", "embedder"]
_KINDS: dict[str, Kind] = {
    "Translator": "translator",
    "Generator": "generator",
    "Classifier": "classifier",
    "Tagger": "tagger",
    "QuestionAnswerer": "question_answerer",
    "Embedder": "embedder",
}


class ModelRecord(BaseModel):
    """Model that clients can name."""

    name: str
    kind: Kind
    created: int = Field(description="when it was loaded, in seconds since 1970")
    pairs: list[tuple[str, str]] = Field(description="languages that a translator translates from and into")
    labels: list[str] | None = Field(default=None, description="labels of a classifier or tagger")


class ModelsAnswer(BaseModel):
    """Models in the order of the configuration."""

    models: list[ModelRecord]


@router.get("/models", response_model=ModelsAnswer)
async def models(server: ServerDep, client: ClientDep) -> ModelsAnswer:  # noqa: ARG001  # the key is checked
    """Return the models that are served."""
    return ModelsAnswer(models=[_record(one) for one in server.store.models])


def _record(served: ServedModel) -> ModelRecord:
    model = served.model
    return ModelRecord(
        name=served.name,
        kind=_KINDS[type(model).__name__],
        created=served.created,
        pairs=sorted(served.pairs),
        labels=list(model.labels.names) if isinstance(model, Classifier | Tagger) else None,
    )
