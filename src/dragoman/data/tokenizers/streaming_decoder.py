"""From ids to text one id at a time, as a network writes them."""

import codecs
from collections.abc import Sequence
from typing import final

from dragoman.data.tokenizers.normalization import SPACE, Preparation


@final
class Decoder:
    """Gives the text of a sequence as soon as it is certain.

    What `add` and at last `finish` give is, joined, what `Side.decode` gives for all the ids together: half a character
    waits for its other half, and where white space is collapsed a space waits for the word after it.
    """

    def __init__(self, spelling: Sequence[bytes], preparation: Preparation) -> None:
        """`spelling` holds what each id writes into a marked text."""
        self._spelling = spelling
        self._preparation = preparation
        self._bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._begun = False
        self._space = False

    def add(self, index: int) -> str:
        """The text that the next id makes certain; often none."""
        return self._certain(self._bytes.decode(self._spelling[index]))

    def finish(self) -> str:
        """What is left when the sequence ends: U+FFFD for half a character."""
        return self._certain(self._bytes.decode(b"", final=True))

    def _certain(self, marked: str) -> str:
        text = self._preparation.unmark(marked)
        if self._preparation.whitespace == "keep" or not marked:
            return text
        if not text:
            self._space = True
            return ""
        before = " " if self._begun and (self._space or _is_space(marked[0])) else ""
        self._begun, self._space = True, _is_space(marked[-1])
        return before + text


def _is_space(character: str) -> bool:
    return character == SPACE or character.isspace()
