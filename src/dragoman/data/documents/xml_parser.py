"""One parser for every XML file: nothing outside of a file is read, and entities cannot make it larger.

Source: Extensible Markup Language (XML) 1.0, fifth edition, sections 4.2 (entities) and 3.3.2 (default attributes).
"""

import re
from collections import Counter
from typing import Any, Final, final
from xml.parsers import expat

from dragoman.data.documents.text_edits import TextFile, decode_text
from dragoman.errors import DataError, shorten

MAX_ENTITY_LENGTH: Final = 1000
"""Characters of a declared entity, which may not refer to others."""
MAX_EXPANSION: Final = 1_000_000
"""Characters that all references to entities of a file may stand for."""
_DECLARED = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]+)""")
_REFERENCE = re.compile(r"&([^&;<>\s]{1,200});")


def decode_xml_text(content: bytes, name: str) -> TextFile:
    """Return the characters of an XML file in the encoding that it declares. Raises DataError if it is no text."""
    declared = _DECLARED.match(content[:400])
    return decode_text(content, name, declared=declared[1].decode() if declared else None)


def secure_parser(name: str, *, text: str | None = None, namespaces: bool = True) -> expat.XMLParserType:
    """Return a parser of UTF-8, whatever the file declares, for one file that messages call by its name.

    With the `text` of the whole file it may declare short entities; without it, it may declare none. Attributes that
    only a document type gives to elements are left out: each element would have a copy of their values.
    """
    parser = expat.ParserCreate("utf-8", namespace_separator=" " if namespaces else None)
    parser.specified_attributes = True
    parser.buffer_text = True
    parser.EntityDeclHandler = _EntityPolicy(name, text).declare
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    return parser


def xml_error(name: str, error: Exception) -> DataError:
    """Return the error for a file that is not well-formed."""
    problem = str(error) if isinstance(error, expat.ExpatError) else "characters that are no text"
    return DataError(f"{name}: is not well-formed XML ({problem}). Check it with xmllint --noout, or copy it again.")


@final
class _EntityPolicy:
    """Checks the entities that a file declares, before the parser replaces references to them in attributes."""

    def __init__(self, name: str, text: str | None) -> None:
        self._name, self._text = name, text
        self._references: Counter[str] | None = None
        self._expansion = 0

    def declare(self, entity: str, is_parameter: bool, value: str | None, *_: Any) -> None:
        """Raise DataError if an entity is in another file, too long, or referred to too often."""
        if self._text is None:
            raise DataError(
                f"{self._name}: declares entities, such as {shorten(entity)}, which a file of this format may not do. "
                "Save it again without them."
            )
        if is_parameter or value is None or len(value) > MAX_ENTITY_LENGTH or "&" in value or "%" in value:
            raise DataError(
                f"{self._name}: declares the entity {entity[:40]!r}, which is in another file, longer than "
                f"{MAX_ENTITY_LENGTH} characters or refers to others. Replace the entity by its text."
            )
        if self._references is None:
            self._references = Counter(_REFERENCE.findall(self._text))
        self._expansion += self._references[entity] * len(value)
        if self._expansion > MAX_EXPANSION:
            raise DataError(
                f"{self._name}: refers to its entities so often that they stand for more than {MAX_EXPANSION:,} "
                "characters. Replace the entities by their texts."
            )
