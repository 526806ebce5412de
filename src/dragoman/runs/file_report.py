"""Report of the translation of a file: its units, and the words that were chosen for terms."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from dragoman.atomic_files import write_text
from dragoman.data.documents.document import UnitTranslation


@final
@dataclass(frozen=True, slots=True)
class TermReport:
    """Term for which the glossary has several words, and the one that the translated texts have."""

    source: str
    forms: tuple[str, ...]
    texts: int
    """Different texts that have one of the words."""
    changed: int
    """Texts that were translated again with this word, and had another one before."""
    inconsistent: int
    """Texts that have another word."""


@final
@dataclass(frozen=True, slots=True)
class FileReport:
    """Translations of the units of a file."""

    format: str
    translations: Sequence[UnitTranslation | None]
    """Translation of each unit; None of the units that stay as they are."""
    term_choices: Sequence[TermReport] = ()
    """Terms for which the glossary has several words."""

    @property
    def segments(self) -> list[UnitTranslation]:
        """Translated units, in the order of the file."""
        return [translation for translation in self.translations if translation is not None]

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of units and words, by what was done with them."""
        segments = self.segments
        origins = Counter(segment.origin for segment in segments)
        return {
            "units": len(self.translations),
            "translated": len(segments),
            "kept": len(self.translations) - len(segments),
            "words": sum(len(segment.source.split()) for segment in segments),
            "placeholders": sum(segment.placeholders for segment in segments),
            "terms": sum(segment.terms for segment in segments),
            "missing_terms": sum(len(segment.missing_terms) for segment in segments),
            "inconsistent_terms": sum(choice.inconsistent for choice in self.term_choices),
            "unmet": sum(len(segment.unmet) for segment in segments),
            "machine": origins["machine"],
            "memory": origins["memory"],
            "fuzzy_memory": origins["fuzzy_memory"],
            "copied": origins["copy"],
            "needs_review": sum(segment.needs_review for segment in segments),
            "with_warnings": sum(bool(segment.warnings) for segment in segments),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        choices = [asdict(choice) for choice in self.term_choices]
        segments = [segment.to_dict() for segment in self.segments]
        return {"format": self.format, **self.counts, "term_choices": choices, "segments": segments}

    def write(self, path: str | Path) -> None:
        """Write the report as JSON. A file that is there is replaced."""
        write_text(Path(path), json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n")
