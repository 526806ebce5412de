"""String tables in YAML, as in Rails: comments, order and the style of other values keep their bytes."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from dragoman.data.documents.document import Unit, join_key
from dragoman.data.documents.plural_categories import PLURAL_CATEGORIES, is_plural_group, missing_categories
from dragoman.data.documents.text_edits import (
    Edit,
    EditedDocument,
    Entry,
    TextFile,
    added,
    decode_text,
    line_end,
    replaced,
)
from dragoman.errors import DataError

MAX_LENGTH = 8 * 2**20
"""Characters of the longest file; the parser reads about 100,000 a second."""
_STRING = "tag:yaml.org,2002:str"
_PLAIN = re.compile(r"[^\W_][^\t\n#:,\[\]{}\"\\|>&*!%@`]*(?<! )")
"""Texts that are written without quotation marks, inside of brackets too."""
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)+")
"""Anchor and tag before a value, which stay."""
_JSON_ONLY = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def open_yaml(content: bytes, name: str, *, target_language: str | None = None) -> EditedDocument:
    """Read a YAML file whose strings are texts. Raises DataError, with the line, if it is damaged.

    A file with one key, which is a language code as in Rails, gets the target language as its key. Plural forms that
    only the target language has are units, too: they are added to the file.
    """
    file = decode_text(content, name)
    if len(file.text) > MAX_LENGTH:
        raise DataError(f"{name}: has {len(file.text):,} characters; YAML has at most {MAX_LENGTH:,}. Split the file.")
    try:
        documents = list(yaml.compose_all(file.text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise DataError(
            f"{name}, line {line}: is not YAML ({error.problem}). Check the file, or copy it again."
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        raise DataError(f"{name}: is not YAML ({str(error).splitlines()[0]}). Check the file.") from error
    except RecursionError as error:
        raise DataError(f"{name}: has too many values inside of each other. Check the file.") from error
    reader = _Reader(file, target_language, set())
    entries = [entry for root in documents if root is not None for entry in reader.entries(root, "")]

    def finish() -> Iterator[Edit]:
        for root in documents:
            if target_language is not None and (key := _language_key(root)) is not None:
                yield Edit(key.start_mark.index, key.end_mark.index, target_language)

    return EditedDocument("yaml", file, entries, finish)


def _language_key(root: yaml.Node) -> yaml.ScalarNode | None:
    if isinstance(root, yaml.MappingNode) and len(root.value) == 1:
        key, value = root.value[0]
        if isinstance(value, yaml.MappingNode) and re.fullmatch(r"[a-z]{2,3}([-_]\w{2,4})?", str(key.value)):
            return key
    return None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Finds the texts of a file."""

    file: TextFile
    language: str | None
    seen: set[int]

    def entries(self, node: yaml.Node, path: str) -> Iterator[Entry]:
        """Yield the entries of a node; one that aliases repeat is there once."""
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        match node:
            case yaml.MappingNode():
                keys = [str(key.value) for key, _ in node.value]
                missing = missing_categories(keys, self.language) if is_plural_group(keys) else ()
                for key, value in node.value:
                    inner = join_key(path, str(key.value)) if path else str(key.value)
                    if key.value == "other" and _is_text(value):
                        for category in missing:
                            yield self._added(node, key, _entry(value, inner, self.file).units[0], category)
                    yield from self.entries(value, inner)
            case yaml.SequenceNode():
                for number, value in enumerate(node.value):
                    yield from self.entries(value, join_key(path, str(number)))
            case yaml.ScalarNode() if _is_text(node):
                yield _entry(node, path, self.file)

    def _added(self, mapping: yaml.MappingNode, key: yaml.ScalarNode, unit: Unit, category: str) -> Entry:
        """Return the entry of a plural form that is added before the form `other`."""
        place = key.start_mark.index
        after = ", " if mapping.flow_style else line_end(self.file.text) + " " * key.start_mark.column
        return added(unit, category, place, lambda new: f"{category}: {_scalar(new, '')}{after}")


def _is_text(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _STRING and bool(node.value.strip())


def _entry(node: yaml.ScalarNode, path: str, file: TextFile) -> Entry:
    last = path.rpartition(".")[2]
    start, end = node.start_mark.index, node.end_mark.index
    properties = _PROPERTIES.match(file.text, start, end)
    start = properties.end() if properties is not None else start
    style = node.style or ""
    unit = Unit(
        source=node.value,
        key=path,
        plural=last if last in PLURAL_CATEGORIES else None,
        line=node.start_mark.line + 1,
    )
    if style in ("|", ">"):
        end = start + len(file.text[start:end].rstrip())
        return replaced(unit, start, end, lambda new: _block(new, file.text[start:end], line_end(file.text)))
    return replaced(unit, start, end, lambda new: _scalar(new, style))


def _is_string(text: str) -> bool:
    """Return whether YAML reads a text without quotation marks as a string, and not as a number or truth value."""
    resolve: Any = yaml.SafeLoader("").resolve
    return bool(resolve(yaml.ScalarNode, text, (True, False)) == _STRING)


def _scalar(text: str, style: str) -> str:
    """Return a text in the style of its source, or in double quotation marks where that cannot write it."""
    if not style and _PLAIN.fullmatch(text) and _is_string(text):
        return text
    if style == "'" and "\n" not in text and not _JSON_ONLY.search(text) and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    quoted = json.dumps(text, ensure_ascii=False)
    return _JSON_ONLY.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _block(text: str, raw: str, newline: str) -> str:
    """Return a text as a literal block with the indentation of another one, or in double quotation marks."""
    header, _, body = raw.partition("\n")
    indent = re.match(r"[ ]*", body.lstrip("\r\n"))
    lines = text.split("\n")
    stripped = text.rstrip("\n")
    if (
        not indent
        or not stripped
        or text[0] in " \n"
        or not all(line.isprintable() for line in lines)
        or _JSON_ONLY.search(text)
    ):
        return _scalar(text, '"')
    trailing = len(text) - len(stripped)
    if trailing > 1:
        return _scalar(text, '"')
    chomping = "" if trailing else "-"
    comment = header.partition("#")
    note = f" #{comment[2].rstrip()}" if comment[1] else ""
    body = newline.join(indent.group() + line if line else "" for line in stripped.split("\n"))
    return f"|{chomping}{note}{newline}{body}"
