"""A network together with the trees of the sources it is about to read, for searches and losses that know no trees."""

from typing import Any, final

from torch import Tensor

from dragoman.errors import DataError
from dragoman.models.protocols import SupportsTrees
from dragoman.typing import BeamTokens, Float, Lengths, SourceFeatures, SourceIds, StepLogits, TargetIds


@final
class WithTrees:
    """Implements `EncoderDecoder` for the sources whose trees it holds."""

    def __init__(self, model: SupportsTrees[Any, Any], structure: SourceFeatures) -> None:
        self.model = model
        self.structure = structure

    def encode(self, source: SourceIds, lengths: Lengths) -> Any:
        return self.model.encode(source, lengths, self.structure)

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target size"]:
        return self.model.hidden(source, source_lengths, target, self.structure)

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        return self.model.unembed(hidden)

    def start(self, memory: Any, *, beam_size: int) -> Any:
        return self.model.start(memory, beam_size=beam_size)

    def step(self, tokens: BeamTokens, memory: Any, state: Any) -> tuple[StepLogits, Any]:
        return self.model.step(tokens, memory, state)


def with_trees(model: object, structure: SourceFeatures) -> WithTrees:
    """The network as it reads these sources. Raises DataError where it is of a kind that reads no trees."""
    if not isinstance(model, SupportsTrees):
        raise DataError("trees have no effect on this model, which has no tree positions; leave them out")
    return WithTrees(model, structure)
