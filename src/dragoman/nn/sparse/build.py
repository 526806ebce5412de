"""From settings to a pattern: the parts list."""

from functools import partial
from typing import Annotated, assert_never

from pydantic import Field

from dragoman.errors import ConfigError
from dragoman.nn.attention import Full, FullConfig, Pattern
from dragoman.nn.sparse.bigbird import BigBird, BigBirdConfig, random_plan
from dragoman.nn.sparse.linformer import Linformer, LinformerConfig
from dragoman.nn.sparse.window import Window, WindowConfig

PatternConfig = Annotated[
    FullConfig | WindowConfig | BigBirdConfig | LinformerConfig,
    Field(discriminator="kind"),
]


def build_pattern(config: PatternConfig, *, causal: bool, layer: int = 0) -> Pattern:
    """The pattern of one attention; a `layer` draws random blocks of its own.

    Raises ConfigError where the future is to be hidden and the pattern cannot hide it.
    """
    match config:
        case FullConfig():
            return Full(causal=causal)
        case WindowConfig(reach=reach):
            return Window(reach=reach, causal=causal)
        case BigBirdConfig(block=block, random=random, seed=seed):
            _refuse_causal(
                causal, config.kind, "its first and last blocks see the whole text and are seen by all of it"
            )
            return BigBird(block=block, random=random, draw=partial(random_plan, random=random, seed=seed + layer))
        case LinformerConfig(width=width, length=length):
            _refuse_causal(
                causal, config.kind, "each of its keys is a mixture of all places, and none can be added later"
            )
            return Linformer(width=width, length=length)
        case _:
            assert_never(config)


def _refuse_causal(causal: bool, kind: str, reason: str) -> None:
    if causal:
        raise ConfigError(
            f"the pattern {kind} cannot hide the future: {reason}; it is for encoders alone, choose window or full here"
        )
