r"""Noise in source text: wrong case, missing final punctuation, typos, truncation.

Models trained on clean text alone are brittle to such noise (Belinkov and Bisk, 2018). Each epoch draws the noise of an
example anew from the seed, the epoch and the row of the example. The target stays unchanged, except that a truncated
pair loses the same share of words on both sides.
"""

import random
import re
from typing import Literal, Self, assert_never

from pydantic import Field, model_validator

from dragoman.config import Config

FINAL_PUNCTUATION = ".!?…。！？؟।"
"""Marks that end a sentence; quotation marks and brackets after them are not removed."""
KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
"""Rows of letters of a keyboard, each half a key to the right of the row above."""

Perturbation = Literal["uppercase", "no_final_punctuation", "typos"]
"""One kind of noise in every text, to measure its effect."""


class NoiseConfig(Config):
    """Probabilities of noise in training sources; 0 means never."""

    uppercase: float = Field(default=0.0, ge=0.0, le=1.0, description="of a source in uppercase")
    lowercase: float = Field(default=0.0, ge=0.0, le=1.0, description="of a source in lowercase")
    titlecase: float = Field(
        default=0.0, ge=0.0, le=1.0, description="of a source with a capital at the start of every word"
    )
    no_final_punctuation: float = Field(
        default=0.0, ge=0.0, le=1.0, description="of a source without its final punctuation"
    )
    typos: float = Field(default=0.0, ge=0.0, le=1.0, description="of a typo in each word of a source")
    truncation: float = Field(default=0.0, ge=0.0, le=1.0, description="of a pair that ends early")

    @model_validator(mode="after")
    def _check_case(self) -> Self:
        total = self.uppercase + self.lowercase + self.titlecase
        if total > 1:
            raise ValueError(
                f"noise.uppercase, lowercase and titlecase are {total:g} together, but a source has at most one of "
                "them; lower them to 1 or less"
            )
        return self

    @property
    def enabled(self) -> bool:
        """Return whether any probability is positive."""
        return any(self.model_dump().values())


def add_noise(pair: tuple[str, str], noise: NoiseConfig, *, seed: int, epoch: int, row: int) -> tuple[str, str]:
    """Return the pair with the noise of an epoch."""
    generator = random.Random(f"{seed}/{epoch}/{row}")  # noqa: S311  # not for secrets
    # Draw for every kind, so that a changed probability leaves the draws of other kinds unchanged.
    truncation, punctuation, case, typo_seed = (generator.random() for _ in range(4))
    source, target = pair
    if truncation < noise.truncation:
        source, target = truncate_pair(source, target, share=generator.random())
    if punctuation < noise.no_final_punctuation:
        source = strip_final_punctuation(source)
    if noise.typos:
        typos = random.Random(typo_seed)  # noqa: S311
        source = "".join(
            misspell(part, typos) if not part.isspace() and typos.random() < noise.typos else part
            for part in _split_words(source)
        )
    return _change_case(source, noise, case), target


def perturb_text(text: str, kind: Perturbation, *, number: int) -> str:
    """Return the text with one kind of noise; typos are drawn by the `number` of the text."""
    match kind:
        case "uppercase":
            return text.upper()
        case "no_final_punctuation":
            return strip_final_punctuation(text)
        case "typos":
            return add_typo(text, random.Random(number))  # noqa: S311
        case _:
            assert_never(kind)


def strip_final_punctuation(text: str) -> str:
    """Return the text without its final punctuation, unless nothing else is left."""
    return text.rstrip().rstrip(FINAL_PUNCTUATION).rstrip() or text


def truncate_pair(source: str, target: str, *, share: float) -> tuple[str, str]:
    """Return the first words of both sides, a share of them but at least one."""

    def cut(text: str) -> str:
        words = text.split()
        return " ".join(words[: max(1, round(share * len(words)))]) if words else text

    return cut(source), cut(target)


def add_typo(text: str, generator: random.Random) -> str:
    """Return the text with a typo in one word of at least two letters, if there is any."""
    parts = _split_words(text)
    words = [place for place, part in enumerate(parts) if sum(map(str.isalpha, part)) > 1]
    if words:
        place = generator.choice(words)
        parts[place] = misspell(parts[place], generator)
    return "".join(parts)


def misspell(word: str, generator: random.Random) -> str:
    """Return the word with one letter swapped with the next, dropped, doubled, or replaced by a neighbor key.

    The word changes, unless it has fewer than two letters or no drawn typo changes it.
    """
    places = [place for place, letter in enumerate(word) if letter.isalpha()]
    if len(places) < 2:
        return word
    for _ in range(len(_TYPOS)):
        changed = _apply_typo(word, generator.choice(places), generator.choice(_TYPOS), generator)
        if changed != word:
            return changed
    return word


def _change_case(text: str, noise: NoiseConfig, drawn: float) -> str:
    if drawn < noise.uppercase:
        return text.upper()
    if drawn < noise.uppercase + noise.lowercase:
        return text.lower()
    if drawn < noise.uppercase + noise.lowercase + noise.titlecase:
        return "".join(part[:1].upper() + part[1:] for part in _split_words(text))
    return text


def _split_words(text: str) -> list[str]:
    """Return words and the white space between them; joined, they are the text."""
    return re.findall(r"\s+|\S+", text)


_Typo = Literal["swap", "drop", "double", "neighbor"]
_TYPOS: tuple[_Typo, ...] = ("swap", "drop", "double", "neighbor")


def _apply_typo(word: str, place: int, typo: _Typo, generator: random.Random) -> str:
    match typo:
        case "swap":  # with the next letter, or with the previous letter at the end
            first = place if word[place + 1 : place + 2].isalpha() else place - 1
            if first < 0 or not word[first].isalpha():
                return word
            return word[:first] + word[first + 1] + word[first] + word[first + 2 :]
        case "drop":
            return word[:place] + word[place + 1 :]
        case "double":
            return word[: place + 1] + word[place:]
        case "neighbor":
            neighbors = _NEIGHBORS.get(word[place].lower())  # None for letters that the keyboard lacks
            if not neighbors:
                return word
            key = generator.choice(neighbors)
            return word[:place] + (key.upper() if word[place].isupper() else key) + word[place + 1 :]
        case _:
            assert_never(typo)


def _keyboard_neighbors() -> dict[str, str]:
    at = {letter: (row, 2 * column + row) for row, keys in enumerate(KEYBOARD) for column, letter in enumerate(keys)}
    return {
        letter: "".join(
            other
            for other, (row_, column_) in at.items()
            if other != letter and abs(row - row_) <= 1 and abs(column - column_) <= 2 - abs(row - row_)
        )
        for letter, (row, column) in at.items()
    }


_NEIGHBORS = _keyboard_neighbors()
