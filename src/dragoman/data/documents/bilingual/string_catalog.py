"""String catalogs of Apple's Xcode (`.xcstrings`): JSON with a text in each language, plural forms and devices.

Source: https://developer.apple.com/documentation/xcode/localizing-and-varying-text-with-a-string-catalog
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from dragoman.data.documents.document import State, Unit, UnitTranslation, join_key
from dragoman.data.documents.plural_categories import PLURAL_CATEGORIES, missing_categories, plural_categories
from dragoman.data.documents.string_tables.json_strings import JsonString, JsonTable, parse_json
from dragoman.data.documents.text_edits import (
    Edit,
    EditedDocument,
    Entry,
    LineNumbers,
    TextFile,
    decode_text,
    line_end,
)
from dragoman.errors import DataError, shorten

_SPACE = re.compile(r"\s*\Z")
MAX_TEXTS: Final = 300
"""Variations of a string in two languages, which are compared with each other."""
_INDENT = 2
"""Spaces by which Xcode indents."""
Path = tuple[str, ...]
"""Keys that lead to a text inside of a localization, such as `variations`, `plural`, `one`."""


def open_string_catalog(content: bytes, name: str, target_language: str | None) -> EditedDocument:
    """Read a string catalog. Raises DataError if it is none, damaged, or no target language is given.

    Plural forms of the target language that the source lacks are units, too. Strings that a program has no longer, or
    that are not to be translated, are left out.
    """
    file = decode_text(content, name)
    root, lines = parse_json(file.text, name), LineNumbers(file.text)
    language, strings = root.members.get("sourceLanguage"), root.members.get("strings")
    if not isinstance(language, JsonString) or not isinstance(strings, JsonTable):
        raise DataError(f"{name}: has no `sourceLanguage` and `strings`, as string catalogs have. Check the file.")
    if target_language is None:
        raise DataError(f"{name}: has texts in several languages. Give the target language.")
    entries: list[Entry] = []
    for key, table in strings.members.items():
        found = _value(file, table) if isinstance(table, JsonTable) else None
        if found is not None and _is_translated(found):
            one = _String(file, key, table, found, language.value, target_language, lines.at(strings.keys[key].start))
            entries += one.entries()
    return EditedDocument("xcstrings", file, entries)


def _is_translated(found: dict[str, Any]) -> bool:
    """Return whether a string is in the program, and has a text in each language."""
    return (
        found.get("shouldTranslate") is not False
        and found.get("extractionState") != "stale"
        and isinstance(found.get("localizations", {}), dict)
    )


def _value(file: TextFile, table: JsonTable) -> dict[str, Any] | None:
    """Return an object as Python reads it; None in place of an array, or of numbers that are too long."""
    try:
        found = json.loads(file.text[table.start : table.end])
    except ValueError:
        found = None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class _String:
    """String of a catalog with its localizations."""

    file: TextFile
    key: str
    table: JsonTable
    value: dict[str, Any]
    """Values that Python reads in `table`."""
    source_language: str
    target_language: str
    line: int

    def entries(self) -> Iterator[Entry]:
        """Yield the entry of the string, if it has a text."""
        languages = self.value.get("localizations", {})
        source, target = languages.get(self.source_language), languages.get(self.target_language)
        sources = _leaves(source) or {("stringUnit",): _leaf(self.key)}
        targets = _leaves(target)
        count = len(sources) + len(targets)
        if count > MAX_TEXTS:
            raise DataError(
                f"{shorten(self.key)}: has {count:,} variations; a string has {MAX_TEXTS} at most. Check the file."
            )
        paths = _paths(sources, targets, self.target_language)
        units = tuple(self._unit(path, sources, targets, str(self.value.get("comment") or "")) for path in paths)
        if not all(unit.source.strip() for unit in units):
            return

        def write(new: Sequence[UnitTranslation | None]) -> Iterator[Edit]:
            pairs = list(zip(units, new, strict=True))
            if not any(one is not None and _is_new(one, unit) for unit, one in pairs):
                return
            localization = _copied(target if targets else source)
            for path, (unit, one) in zip(paths, pairs, strict=True):
                old = targets.get(path) or _leaf(unit.source)
                _put(localization, path, old if one is None else _leaf(one.text, needs_review=one.needs_review))
            yield self._write(localization)

        yield Entry(units, write)

    def _unit(
        self, path: Path, sources: Mapping[Path, Mapping[str, Any]], targets: Mapping[Path, Any], notes: str
    ) -> Unit:
        source = str(sources[_nearest(path, sources)].get("value", ""))
        found = targets.get(path, {})
        text = str(found.get("value", "")) if found.get("state") != "new" else ""
        state: State = "needs_review" if found.get("state") == "needs_review" else "translated"
        case = [name for kind, name in pairwise(path) if kind == "plural"]
        return Unit(
            source=source,
            target=text,
            state=state if text else "untranslated",
            key=functools.reduce(join_key, (one for one in path if one not in _STRUCTURE), self.key),
            notes=notes,
            plural=case[-1] if case else None,
            line=self.line,
        )

    def _write(self, localization: dict[str, Any]) -> Edit:
        """Return the edit that writes the localization in the target language."""
        languages = self.table.members.get("localizations")
        if not isinstance(languages, JsonTable):
            return self._set(self.table, "localizations", {self.target_language: localization})
        return self._set(languages, self.target_language, localization)

    def _set(self, table: JsonTable, key: str, value: dict[str, Any]) -> Edit:
        """Return the edit that gives a member of an object a value; a new one is added in alphabetical order."""
        if isinstance(old := table.members.get(key), JsonTable):
            return Edit(old.start, old.end, self._dump(value, old.start))
        if not table.keys:
            return Edit(table.start, table.end, self._dump({key: value}, table.start))
        following = next((one for one in table.keys if one > key), None)
        place = table.keys[following or next(iter(table.keys))].start
        space = _SPACE.search(self.file.text[:place])
        assert space is not None
        new = f"{json.dumps(key, ensure_ascii=False)}{self._colon}{self._dump(value, place)}"
        if following is not None:
            return Edit(place, place, f"{new},{space[0]}")
        end = len(self.file.text[: table.end - 1].rstrip())
        return Edit(end, end, f",{space[0]}{new}")

    @property
    def _colon(self) -> str:
        return " : " if '" : ' in self.file.text else ": "

    def _dump(self, value: dict[str, Any], place: int) -> str:
        """Return an object as Xcode writes it, with the indentation of the line at a place."""
        text = self.file.text
        line = text[text.rfind("\n", 0, place) + 1 : place]
        indent = line[: len(line) - len(line.lstrip())]
        newline = line_end(text)
        written = json.dumps(value, ensure_ascii=False, indent=_INDENT, separators=(",", self._colon), sort_keys=True)
        return written.replace("\n", f"{newline}{indent}")


_STRUCTURE: Final = frozenset({"stringUnit", "variations", "substitutions"})
"""Keys of a localization that do not tell two texts apart."""


def _leaf(text: str, *, needs_review: bool | None = None) -> dict[str, Any]:
    state = "new" if needs_review is None else "needs_review" if needs_review else "translated"
    return {"state": state, "value": text}


def _leaves(localization: object, path: Path = ()) -> dict[Path, dict[str, Any]]:
    """Return the texts of a localization by their path, with their states."""
    found: dict[Path, dict[str, Any]] = {}
    if not isinstance(localization, dict):
        return found
    for key, value in localization.items():
        if key == "stringUnit" and isinstance(value, dict) and isinstance(value.get("value"), str):
            found[*path, key] = value
        elif key in ("variations", "substitutions") and isinstance(value, dict):
            for kind, cases in value.items():
                if key == "substitutions":
                    found |= _leaves(cases, (*path, key, kind))
                elif isinstance(cases, dict):
                    for case, inner in cases.items():
                        found |= _leaves(inner, (*path, key, kind, case))
    return found


def _paths(
    sources: Mapping[Path, Mapping[str, Any]], targets: Mapping[Path, Mapping[str, Any]], language: str
) -> list[Path]:
    """Return the paths of the texts in the target language: the ones that it has, or else the ones of the source.

    Each group of plural forms has all categories of the language.
    """
    has_own = any(one.get("state") != "new" for one in targets.values())
    paths = [*targets] if has_own and {*targets} != {*sources} else [*sources]
    categories = {"zero", *(plural_categories(language) or PLURAL_CATEGORIES)}
    groups: dict[tuple[Path, Path], list[str]] = {}
    for path in paths:
        place = path.index("plural") if "plural" in path[:-1] else None
        if place is not None:
            groups.setdefault((path[: place + 1], path[place + 2 :]), []).append(path[place + 1])
    for (before, after), cases in groups.items():
        paths += [(*before, one, *after) for one in missing_categories(cases, language)]
        if "other" in cases and not has_own:
            paths = [one for one in paths if one not in {(*before, case, *after) for case in {*cases} - categories}]
    return sorted(paths, key=lambda path: [(_ORDER.get(key, 0), key) for key in path])


_ORDER: Final = {category: number for number, category in enumerate(PLURAL_CATEGORIES)}


def _nearest(path: Path, sources: Mapping[Path, object]) -> Path:
    """Return the path of the source of a text: its own, that of the form `other`, or the one that is most alike."""
    if path in sources:
        return path
    other = tuple("other" if one in PLURAL_CATEGORIES else one for one in path)
    if other in sources:
        return other
    return max(sources, key=lambda one: sum(key in path for key in one) + ("other" in one))


def _copied(localization: object) -> dict[str, Any]:
    """Return a localization without its texts: with what it says about substitutions."""
    copy: dict[str, Any] = json.loads(json.dumps(localization)) if isinstance(localization, dict) else {}
    for path in _leaves(copy):
        at: Any = copy
        for key in path[:-2]:
            at = at[key]
        if len(path) > 1:
            at[path[-2]].pop(path[-1])
            if not at[path[-2]]:
                at.pop(path[-2])
        else:
            copy.pop(path[-1])
    return copy


def _is_new(new: UnitTranslation, unit: Unit) -> bool:
    state: State = "needs_review" if new.needs_review else "translated"
    return new.text != unit.target or unit.state != state


def _put(localization: dict[str, Any], path: Path, leaf: dict[str, Any]) -> None:
    at = localization
    for key in path[:-1]:
        at = at.setdefault(key, {})
    at[path[-1]] = leaf
