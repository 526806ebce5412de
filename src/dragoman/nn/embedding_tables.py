"""Tables among the parameters of a network: what is looked up row by row, and maps no hidden state to another.

Optimisers treat them as they treat vectors. Besides embeddings these are the parameters that a module names as its
`LOOKUP_PARAMETERS`: vectors or biases of distances and relations, the vectors of an additive score, one a head, and mixtures of
places.
"""

from torch import nn


def lookup_parameters(model: nn.Module) -> set[int]:
    """The `id` of every parameter that is one."""
    found = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    named = [(module, name) for module in model.modules() for name in getattr(module, "LOOKUP_PARAMETERS", ())]
    return found | {id(getattr(module, name)) for module, name in named}
