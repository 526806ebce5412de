r"""The faults of text as people type it: wrong case, no end mark, typing errors, a sentence that breaks off.

A model that has learnt from clean text alone takes them hard (Belinkov and Bisk, 2018). Here sources get them by
chance, anew each epoch; what an example gets depends on the seed, the epoch and its row alone. The target stays as it
is, but for that of a sentence that breaks off, which breaks off after the same share of its words.
"""

import random
from typing import Literal, Self, assert_never

from pydantic import Field, model_validator

from dragoman.config import Config

FINAL_PUNCTUATION = ".!?…。！？؟।"
"""What a sentence may end with; quotation marks and brackets around them end nothing."""
KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
"""The letters of a keyboard, row by row, each row half a key to the right of the one above."""

Perturbation = Literal["capitals", "no-end-marks", "typos"]
"""One fault for every text, to measure what it costs."""


class NoiseConfig(Config):
    """Faults that sources get in training, each with a probability; 0 never."""

    uppercase: float = Field(0.0, ge=0.0, le=1.0, description="of a source to stand all in capitals")
    lowercase: float = Field(0.0, ge=0.0, le=1.0, description="of a source to stand all in lower case")
    titlecase: float = Field(0.0, ge=0.0, le=1.0, description="of a source to have every word begin with a capital")
    no_final_punctuation: float = Field(0.0, ge=0.0, le=1.0, description="of a source to lose its end mark")
    typos: float = Field(0.0, ge=0.0, le=1.0, description="of each word of a source to be mistyped once")
    truncation: float = Field(0.0, ge=0.0, le=1.0, description="of a pair to break off somewhere")

    @model_validator(mode="after")
    def _one_case(self) -> Self:
        together = self.uppercase + self.lowercase + self.titlecase
        if together > 1:
            raise ValueError(
                f"noise.uppercase, lowercase and titlecase are {together:g} together, and a source has one of them at most; "
                "lower them to 1 or less"
            )
        return self

    @property
    def enabled(self) -> bool:
        """Whether a source may ever get a fault."""
        return any(self.model_dump().values())


def add_noise(pair: tuple[str, str], noise: NoiseConfig, *, seed: int, epoch: int, row: int) -> tuple[str, str]:
    """The pair as it is learnt from in an epoch."""
    generator = random.Random(f"{seed}/{epoch}/{row}")  # noqa: S311  # nobody's secret hangs on it
    # Drawn whatever the probabilities are, so that one more fault does not move the chance of the others.
    breaks, unended, case, mistypes = (generator.random() for _ in range(4))
    source, target = pair
    if breaks < noise.truncation:
        source, target = truncate_pair(source, target, share=generator.random())
    if unended < noise.no_final_punctuation:
        source = strip_final_punctuation(source)
    if noise.typos:
        source = _mistyped(source, noise.typos, random.Random(mistypes))  # noqa: S311
    return _cased(source, noise, case), target


def perturb_text(text: str, kind: Perturbation, *, number: int) -> str:
    """The text with one fault; typing errors are drawn by its `number`, the same every time."""
    match kind:
        case "capitals":
            return text.upper()
        case "no-end-marks":
            return strip_final_punctuation(text)
        case "typos":
            return add_typo(text, random.Random(number))  # noqa: S311
        case _:
            assert_never(kind)


def strip_final_punctuation(text: str) -> str:
    """The text without the mark that its sentence ends with, or as it is where that would leave nothing."""
    return text.rstrip().rstrip(FINAL_PUNCTUATION).rstrip() or text


def truncate_pair(source: str, target: str, *, share: float) -> tuple[str, str]:
    """Both sides up to a share of their words, from 0 up to 1, but at least one, with a space between words."""

    def cut(text: str) -> str:
        words = text.split()
        return " ".join(words[: max(1, round(share * len(words)))]) if words else text

    return cut(source), cut(target)


def add_typo(text: str, generator: random.Random) -> str:
    """The text with one of its words mistyped, drawn among those of two letters at least; as it is without any."""
    parts = _parts(text)
    words = [place for place, part in enumerate(parts) if _letters(part) > 1]
    if words:
        place = generator.choice(words)
        parts[place] = misspell(parts[place], generator)
    return "".join(parts)


def misspell(word: str, generator: random.Random) -> str:
    """The word with one letter swapped with the next, left out, doubled, or hit beside its key.

    It is another word afterwards, unless it has no two letters, or no error that was drawn changes it.
    """
    places = [place for place, letter in enumerate(word) if letter.isalpha()]
    if len(places) < 2:
        return word
    for _ in range(len(_SLIPS)):
        found = _slipped(word, generator.choice(places), generator.choice(_SLIPS), generator)
        if found != word:
            return found
    return word


def _mistyped(text: str, probability: float, generator: random.Random) -> str:
    return "".join(
        misspell(part, generator) if not part.isspace() and generator.random() < probability else part
        for part in _parts(text)
    )


def _cased(text: str, noise: NoiseConfig, drawn: float) -> str:
    if drawn < noise.uppercase:
        return text.upper()
    if drawn < noise.uppercase + noise.lowercase:
        return text.lower()
    if drawn < noise.uppercase + noise.lowercase + noise.titlecase:
        return "".join(part[:1].upper() + part[1:] for part in _parts(text))
    return text


def _parts(text: str) -> list[str]:
    """Words and the white space between them, in turns; joined they are the text."""
    parts: list[str] = []
    for character in text:
        if parts and parts[-1][-1].isspace() == character.isspace():
            parts[-1] += character
        else:
            parts.append(character)
    return parts


def _letters(part: str) -> int:
    return sum(character.isalpha() for character in part)


_Slip = Literal["swap", "drop", "double", "miss"]
_SLIPS: tuple[_Slip, ...] = ("swap", "drop", "double", "miss")


def _slipped(word: str, place: int, slip: _Slip, generator: random.Random) -> str:
    match slip:
        case "swap":
            return _swapped(word, place)
        case "drop":
            return word[:place] + word[place + 1 :]
        case "double":
            return word[: place + 1] + word[place:]
        case "miss":
            beside = _NEIGHBOURS.get(word[place].lower())  # of letters that the keyboard lacks, none is known
            if not beside:
                return word
            hit = generator.choice(beside)
            return word[:place] + (hit.upper() if word[place].isupper() else hit) + word[place + 1 :]
        case _:
            assert_never(slip)


def _swapped(word: str, place: int) -> str:
    """With the letter after it, or before it where none follows."""
    first = place if word[place + 1 : place + 2].isalpha() else place - 1
    if first < 0 or not word[first].isalpha():
        return word
    return word[:first] + word[first + 1] + word[first] + word[first + 2 :]


def _neighbours() -> dict[str, str]:
    at = {letter: (row, 2 * column + row) for row, keys in enumerate(KEYBOARD) for column, letter in enumerate(keys)}
    return {
        letter: "".join(
            other
            for other, (row_, column_) in at.items()
            if other != letter and abs(row - row_) <= 1 and abs(column - column_) <= 2 - abs(row - row_)
        )
        for letter, (row, column) in at.items()
    }


_NEIGHBOURS = _neighbours()
