"""Marian's vocabularies: SentencePiece models, and YAML or text files of tokens.

A YAML vocabulary has a line `token: id` per token, with double quotes around most tokens. A YAML library reads some
tokens as other values, such as `no` and `1.0`, and so loses tokens; here a token is always a text. A file without ids
has a token per line.
"""

import json
import re
from pathlib import Path
from typing import Final

from dragoman.errors import shorten_text
from dragoman.untrusted_files import MEBIBYTE, FileKind

SENTENCEPIECE_FILE: Final = FileKind(32 * MEBIBYTE, "get the file again from where it came")
VOCABULARY_FILE: Final = FileKind(64 * MEBIBYTE, "get the file again from where it came")
EOS, UNK = "</s>", "<unk>"
"""Names of the special symbols, of which every vocabulary of Marian has these two."""
_MAX_ID = 1_000_000
_ENTRY = re.compile(r"(?:[?] )?(?P<token>\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|.*?\S|): +(?P<id>\d{1,7})")
_ESCAPES: Final = dict(zip("0abtnvfre_NLP", "\0\a\b\t\n\v\f\r\x1b\xa0\x85\u2028\u2029", strict=True))
"""Characters of YAML's escapes; any other escaped character is itself."""
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return the id of each token of a YAML or text file. Raises DataError if an id or a token is there twice."""
    text = VOCABULARY_FILE.read_text(path)
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith(("#", "---", "..."))]
    matches = [_ENTRY.fullmatch(line.rstrip()) for line in lines]
    try:
        if path.suffix in {".yml", ".yaml", ".json"} or (matches and all(matches)):
            entries = _json_entries(text) if text.lstrip().startswith("{") else _entries(lines, matches)
        else:
            entries = [(line, index) for index, line in enumerate(lines)]
        return _unique(entries)
    except ValueError as error:
        raise VOCABULARY_FILE.damaged(path, str(error)) from error


def _json_entries(text: str) -> list[tuple[str, int]]:
    try:
        tree = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    except RecursionError as error:
        raise ValueError("it is nested") from error
    if not all(isinstance(token, str) and type(index) is int for token, index in tree):
        raise ValueError("an entry is no token and id")
    return list(tree)


def _entries(lines: list[str], matches: list[re.Match[str] | None]) -> list[tuple[str, int]]:
    for line, match in zip(lines, matches, strict=True):
        if match is None:
            raise ValueError(f"the line {shorten_text(line)} is no token and id")
    return [(_unquote(match["token"]), int(match["id"])) for match in matches if match is not None]


def _unquote(token: str) -> str:
    """Return the text of a token in YAML's plain, single-quoted or double-quoted style."""
    if len(token) > 1 and token[0] == token[-1] == '"':
        return _ESCAPE.sub(_unescape, token[1:-1])
    if len(token) > 1 and token[0] == token[-1] == "'":
        return token[1:-1].replace("''", "'")
    return token


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        number = int(code[1:], 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise ValueError(f"the escape {match[0]} is no character")
        return chr(number)
    return _ESCAPES.get(code, code)


def _unique(entries: list[tuple[str, int]]) -> dict[str, int]:
    found = dict(entries)
    if len(found) < len(entries) or len({*found.values()}) < len(entries):
        raise ValueError("a token or an id is there twice")
    if not found or min(found.values()) < 0 or max(found.values()) >= _MAX_ID:
        raise ValueError(f"its ids are not between 0 and {_MAX_ID:,}")
    return found
