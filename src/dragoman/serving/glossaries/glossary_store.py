"""Glossaries of all clients, in memory and, where a folder is given, in one file for each glossary."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from dragoman.atomic_files import make_folder, require_writable, write_atomically
from dragoman.errors import ConfigError, RunError
from dragoman.serving.config import LimitsConfig
from dragoman.serving.glossaries.entries import Entry
from dragoman.serving.http.errors import RequestError, invalid
from dragoman.serving.served_models import LanguagePair
from dragoman.untrusted_files import MEBIBYTE, FileKind

_FILE = FileKind(1024 * MEBIBYTE, error=ConfigError, is_user_file=True)
_SUFFIX = ".json"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@final
class GlossaryDictionary(_Record):
    """Entries of one language pair."""

    source: str
    target: str
    entries: tuple[Entry, ...]

    @property
    def pair(self) -> LanguagePair:
        """Source and target language."""
        return self.source, self.target


@final
class StoredGlossary(_Record):
    """Glossary of one client. A change makes a new one with the same identifier."""

    owner: str
    """Account that may use it: that of a key, or the empty one of all clients of a server without keys."""
    name: str
    dictionaries: tuple[GlossaryDictionary, ...]
    identifier: str = Field(default_factory=lambda: str(uuid.uuid4()))
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))

    @property
    def pairs(self) -> list[LanguagePair]:
        """Language pairs of the dictionaries."""
        return [one.pair for one in self.dictionaries]

    def get(self, pair: LanguagePair) -> GlossaryDictionary:
        """Return the dictionary of a language pair. Raises RequestError with status 404 if there is none."""
        found = next((one for one in self.dictionaries if one.pair == pair), None)
        if found is None:
            raise RequestError(404, f"The glossary has no dictionary for {pair[0]} to {pair[1]}.")
        return found

    def with_dictionary(self, given: GlossaryDictionary, *, merge: bool) -> Self:
        """Return a glossary in which a dictionary is added, or replaced; with `merge`, other entries of it stay."""
        if given.pair not in self.pairs:
            return self.model_copy(update={"dictionaries": (*self.dictionaries, given)})
        place = self.pairs.index(given.pair)
        if merge:
            entries = {**dict(self.dictionaries[place].entries), **dict(given.entries)}
            given = given.model_copy(update={"entries": tuple(entries.items())})
        dictionaries = (*self.dictionaries[:place], given, *self.dictionaries[place + 1 :])
        return self.model_copy(update={"dictionaries": dictionaries})

    def without_dictionary(self, pair: LanguagePair) -> Self:
        """Return a glossary without a dictionary. Raises RequestError with status 404 if there is none."""
        removed = self.get(pair)
        return self.model_copy(update={"dictionaries": tuple(one for one in self.dictionaries if one is not removed)})


@final
class GlossaryStore:
    """Glossaries by identifier. Every client sees those of its own account only."""

    def __init__(self, limits: LimitsConfig, *, folder: Path | None = None) -> None:
        """Read the glossaries of a folder, which is created.

        Raises ConfigError on an invalid file, and RunError where the folder is not writable.
        """
        self._limits = limits
        self._folder = folder
        self._glossaries: dict[str, StoredGlossary] = {}
        self._lock = asyncio.Lock()
        if folder is not None:
            _open_folder(folder)
            files = sorted(one for one in folder.iterdir() if one.suffix == _SUFFIX and not one.name.startswith("."))
            found = sorted(map(_read, files), key=lambda one: (one.created, one.identifier))
            self._glossaries = {one.identifier: one for one in found}

    def of(self, owner: str) -> list[StoredGlossary]:
        """Return the glossaries of an account, the oldest first."""
        return [one for one in self._glossaries.values() if one.owner == owner]

    def get(self, owner: str, identifier: str) -> StoredGlossary:
        """Return a glossary of an account. Raises RequestError for an unknown identifier."""
        try:
            known = str(uuid.UUID(identifier))
        except ValueError:
            raise invalid("Invalid glossary id.", "glossary_id") from None
        found = self._glossaries.get(known)
        if found is None or found.owner != owner:
            raise RequestError(404, "Glossary not found.", "glossary_id")
        return found

    async def add(self, glossary: StoredGlossary) -> StoredGlossary:
        """Store a new glossary and return it. Raises RequestError above a limit, RunError if it cannot be written."""
        return await asyncio.shield(self._write(lambda: glossary))

    async def change(
        self, owner: str, identifier: str, changed: Callable[[StoredGlossary], StoredGlossary]
    ) -> StoredGlossary:
        """Replace a glossary by what `changed` returns for it, and return this. Raises as `get` and `add` do."""
        return await asyncio.shield(self._write(lambda: changed(self.get(owner, identifier))))

    async def delete(self, owner: str, identifier: str) -> None:
        """Remove a glossary. Raises RequestError as `get` does, RunError if its file cannot be removed."""
        await asyncio.shield(self._remove(owner, identifier))

    # A client that leaves does not end these: memory and folder would differ.
    async def _write(self, build: Callable[[], StoredGlossary]) -> StoredGlossary:
        async with self._lock:
            glossary = build()
            self._check_limits(glossary)
            if self._folder is not None:
                path = self._folder / f"{glossary.identifier}{_SUFFIX}"
                await asyncio.to_thread(lambda: write_atomically(path, glossary.model_dump_json()))
            self._glossaries[glossary.identifier] = glossary
            return glossary

    async def _remove(self, owner: str, identifier: str) -> None:
        async with self._lock:
            glossary = self.get(owner, identifier)
            if self._folder is not None:
                path = self._folder / f"{glossary.identifier}{_SUFFIX}"
                try:
                    await asyncio.to_thread(path.unlink, missing_ok=True)
                except OSError as error:
                    raise RunError(f"{path}: cannot be removed ({error.strerror or error}); check the path") from error
            del self._glossaries[glossary.identifier]

    def _check_limits(self, glossary: StoredGlossary) -> None:
        """Raise RequestError if an account has too many glossaries or entries with a new or changed glossary."""
        others = [one for one in self.of(glossary.owner) if one.identifier != glossary.identifier]
        if len(others) >= self._limits.max_glossaries:
            raise invalid(f"At most {self._limits.max_glossaries:,} glossaries are stored. Delete one first.")
        count = _count_entries([*others, glossary])
        if count > self._limits.max_glossary_entries:
            raise invalid(
                f"All glossaries together have {count:,} entries, and at most "
                f"{self._limits.max_glossary_entries:,} are stored. Remove some.",
                "entries",
            )


def _count_entries(glossaries: Sequence[StoredGlossary]) -> int:
    return sum(len(dictionary.entries) for one in glossaries for dictionary in one.dictionaries)


def _open_folder(folder: Path) -> None:
    """Create a folder if it is missing. Raises RunError where it cannot be written."""
    if not folder.is_dir():
        try:
            make_folder(folder)
        except OSError as error:
            raise RunError(f"{folder}: cannot be created ({error.strerror or error}); check glossary_folder") from error
    require_writable(folder / f"glossary{_SUFFIX}")


def _read(path: Path) -> StoredGlossary:
    try:
        found = StoredGlossary.model_validate_json(_FILE.read_text(path))
    except ValidationError as error:
        raise ConfigError(f"{path}: is no glossary of this server. Remove it, or restore it from a copy.") from error
    if path.name != f"{found.identifier}{_SUFFIX}":
        raise ConfigError(f"{path}: has another name than its glossary {found.identifier:.60}. Restore the name.")
    return found
