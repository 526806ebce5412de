"""Dictionaries of fairseq, `dict.xx.txt`: one token and its count per line, behind four symbols without a line.

Format: https://fairseq.readthedocs.io/en/latest/data.html#fairseq.data.Dictionary
"""

from pathlib import Path
from typing import Final

from dragoman.errors import DataError
from dragoman.interop.vocabulary_order import MAX_VOCABULARY
from dragoman.interop.word_vocabulary import TEXTS

SYMBOLS: Final = ("<s>", "<pad>", "</s>", "<unk>")
"""First tokens of every dictionary: their ids are 0 to 3."""
_OVERWRITE: Final = " #fairseq:overwrite"


def dictionary_path(folder: Path, language: str | None, languages: tuple[str | None, str | None]) -> Path:
    """Return the dictionary of a language. Raises DataError if there is none.

    `languages` are those of source and target, as far as they are known; without names, a single dictionary is that of
    both sides.
    """
    if language is not None and (language.startswith(".") or "/" in language or "\\" in language):
        raise DataError(f"{language!r} is not the name of a language. Give --source-language and --target-language.")
    if language is not None and (path := folder / f"dict.{language}.txt").is_file():
        return path
    found = sorted(folder.glob("dict*.txt"))
    if len(found) == 1 and (language is None or languages[0] == languages[1]):
        return found[0]
    names = ", ".join(path.name for path in found) or "none"
    wanted = f"dict.{language}.txt is missing" if language else "it is not known which dictionary is that of which side"
    raise DataError(f"{folder}: {wanted} (there: {names}). Give --source-language and --target-language.")


def read_dictionary(path: Path) -> tuple[str, ...]:
    """Return the tokens of a dictionary by id. Raises DataError for a line without a count and for repeated tokens."""
    tokens = dict.fromkeys(SYMBOLS)
    lines = TEXTS.read_text(path).split("\n")
    if len(lines) > MAX_VOCABULARY:
        raise TEXTS.damaged(path, f"more than {MAX_VOCABULARY:,} tokens")
    for number, line in enumerate(lines, start=1):
        if not line and number == len(lines):
            break
        token, _, count = line.removesuffix(_OVERWRITE).rpartition(" ")
        if not token or not count.isascii() or not count.isdigit():
            raise TEXTS.damaged(path, f"line {number} is not a token and its count")
        if token in tokens and not line.endswith(_OVERWRITE):
            raise TEXTS.damaged(path, f"line {number} repeats a token")
        tokens[token] = None
    return tuple(tokens)
