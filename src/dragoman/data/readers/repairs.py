"""What was mended or noticed while reading, counted, so that a door can print it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["bom", "crlf", "blank"]

_SENTENCES: dict[Kind, str] = {
    "bom": "byte order mark removed",
    "crlf": "Windows line end (CRLF) read as LF",
    "blank": "blank line; cleaning removes the pair",
}


@dataclass
class Repairs:
    """Counts and first lines by file and kind, in the order they were met; handed to a reader, which fills it."""

    found: dict[tuple[Path, Kind], tuple[int, int]] = field(default_factory=dict)
    """(how often, first line)."""

    def note(self, path: Path, kind: Kind, line: int) -> None:
        """Count one more."""
        count, first = self.found.get((path, kind), (0, line))
        self.found[path, kind] = (count + 1, first)

    def count(self, kind: Kind) -> int:
        """How often this was met in all files."""
        return sum(count for (_, found), (count, _) in self.found.items() if found == kind)

    def sentences(self) -> list[str]:
        """One line for people per file and kind, such as `train.de: 29,000 x Windows line end ... (first: line 1)`."""
        return [
            f"{path}: {count:,} x {_SENTENCES[kind]} (first: line {first})"
            for (path, kind), (count, first) in self.found.items()
        ]
