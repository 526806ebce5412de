"""The shapes that cross room boundaries, in the axis names of the project's vocabulary.

Axes: batch beam source target queries keys size heads head_size vocabulary. Annotations are documentation in a user's
process and are checked at run time in the test suite (jaxtyping with beartype).
"""

from jaxtyping import Float, Int
from torch import Tensor

SourceIds = Int[Tensor, "batch source"]
TargetIds = Int[Tensor, "batch target"]
Lengths = Int[Tensor, " batch"]
BeamTokens = Int[Tensor, "batch beam"]
Hidden = Float[Tensor, "batch target size"]
StepLogits = Float[Tensor, "batch beam vocabulary"]
