"""What is asked of a network: outputs for one source."""

from dataclasses import dataclass

from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import SearchSettings
from dragoman.inference.backends.protocol import Ids


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """A source without its end symbol, and how outputs are searched for; each is one of its own, whatever it holds."""

    ids: Ids
    settings: SearchSettings
    limit: int
    """The most tokens of an output, the end symbol not counted."""
    heads: Heads | None = None
    """The tree of the source, for a network that reads trees."""

    @property
    def tokens(self) -> int:
        """What the source counts against a limit of tokens, its end symbol included."""
        return len(self.ids) + 1
