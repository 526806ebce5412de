"""The text of an output while it is written token by token, up to the first stop string."""

from collections.abc import Sequence
from typing import final

from dragoman.data.tokenizers import Decoder


@final
class Writer:
    """Text as soon as nothing that may still come can change it.

    What `take` gives is, joined, the `text` at the end. Where several stop strings stand in a text, it ends before the
    one that is complete first, and of those that are complete together before the longest: so it does not depend on
    how the text is cut into tokens.
    """

    def __init__(self, decoder: Decoder, stop: Sequence[str] = ()) -> None:
        self.text = ""
        self.stopped = False
        """Whether a stop string was written; it is not part of the text."""
        self._decoder = decoder
        self._stop = tuple(stop)
        self._taken = 0

    def add(self, token: int) -> bool:
        """Write one more token; whether the text is over with it."""
        self._write(self._decoder.add(token))
        return self.stopped

    def finish(self) -> None:
        """No more tokens come."""
        self._write(self._decoder.finish())
        self._stop = ()

    def take(self) -> str:
        """The text since the last call which is certain: not what may be the beginning of a stop string."""
        certain = len(self.text) - (0 if self.stopped else _begun(self.text, self._stop))
        piece = self.text[self._taken : certain]
        self._taken = max(self._taken, certain)
        return piece

    def _write(self, more: str) -> None:
        if self.stopped or not more:
            return
        longest = max(map(len, self._stop), default=0)
        looked_at = max(0, len(self.text) - longest + 1)
        self.text += more
        end = first_stop(self.text, self._stop, since=looked_at)
        if end is not None:
            self.text, self.stopped = self.text[:end], True


def first_stop(text: str, stop: Sequence[str], *, since: int = 0) -> int | None:
    """Where the stop string begins that is complete first, among those that begin at `since` or later."""
    found = [(begin + len(one), begin) for one in stop if (begin := text.find(one, since)) >= 0]
    return min(found)[1] if found else None


def _begun(text: str, stop: Sequence[str]) -> int:
    """The length of the longest end of a text which is the beginning of a stop string, but not all of one."""
    longest = max(map(len, stop), default=0) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((length for length in lengths if any(one.startswith(text[-length:]) for one in stop)), 0)
