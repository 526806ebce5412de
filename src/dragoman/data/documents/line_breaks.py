"""Line breaks of a text: its paragraphs are translated one by one, and hard-wrapped ones are wrapped again."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MIN_WRAPPED = 40
"""Characters of a line that may be wrapped; shorter ones end where their author wants."""
_CONTINUES = re.compile(r"[^\W\d_A-Z]|[a-z(\"'%{$<]")
"""Beginning of a line that continues the sentence before."""
_ENDS = re.compile(r"[.!?:;…。！？]['\")\]]*$")
_GAP = re.compile(r"(?<=[^\s.!?:])((?: {2,}| *\t\s*))(?=\S)")
"""White space between columns; two spaces after a sentence are none."""
_OPTION = re.compile(r"\s*--?\w")
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Part of a text that is translated as one, and the white space around it."""

    text: str
    """Text without line breaks; empty where there is nothing to translate."""
    before: str
    after: str
    width: int | None = None
    """Columns at which it is wrapped; None where it is one line."""
    indent: str = ""
    """White space before the second line and those after it."""

    def write(self, translation: str) -> str:
        """Return the paragraph with a translation in place of its text."""
        text = translation.strip() if self.text else ""
        if self.width is not None:
            lines = textwrap.wrap(
                text,
                self.width,
                initial_indent=self.before,
                subsequent_indent=self.indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            return "\n".join(lines) + self.after
        return f"{self.before}{text}{self.after}"


def has_letters(text: str) -> bool:
    """Return whether a text has letters, so that there may be something to translate."""
    return _LETTER.search(text) is not None


def cut_lines(text: str) -> tuple[Paragraph, ...]:
    """Return the paragraphs of a text, which `join_lines` joins again.

    Columns, which two spaces or more separate, are paragraphs of their own, and the names of options are no text.
    """
    groups = list(_groups(text.split("\n")))
    found: list[Paragraph] = []
    for number, lines in enumerate(groups):
        end = "\n" if number < len(groups) - 1 else ""
        found += _columns(lines[0], end) if len(lines) == 1 else [_paragraph(lines, end)]
    return tuple(found)


def join_lines(paragraphs: Sequence[Paragraph], translations: Sequence[str]) -> str:
    """Return the text whose paragraphs have these translations."""
    return "".join(one.write(text) for one, text in zip(paragraphs, translations, strict=True))


def _columns(line: str, end: str) -> Iterator[Paragraph]:
    cells = _GAP.split(line)
    for place in range(0, len(cells), 2):
        gap = cells[place + 1] if place + 1 < len(cells) else end
        cell = cells[place]
        if _OPTION.match(cell):
            yield Paragraph("", cell, gap)
        else:
            yield _paragraph([cell], gap)


def _groups(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines of each paragraph: a line continues a long one that does not end a sentence."""
    group: list[str] = []
    for line in lines:
        if group and not _continues(group[-1], line):
            yield group
            group = []
        group.append(line)
    yield group


def _continues(line: str, following: str) -> bool:
    is_open = len(line.rstrip()) >= MIN_WRAPPED and not _ENDS.search(line.rstrip())
    return is_open and _CONTINUES.match(following.lstrip()) is not None


def _paragraph(lines: Sequence[str], end: str) -> Paragraph:
    whole = "\n".join(lines)
    inner = whole.strip()
    if not has_letters(inner):
        return Paragraph("", whole, end)
    place = whole.index(inner)
    before, after = whole[:place], whole[place + len(inner) :] + end
    if len(lines) == 1:
        return Paragraph(inner, before, after)
    indent = lines[1][: len(lines[1]) - len(lines[1].lstrip())]
    text = " ".join(line.strip() for line in lines)
    return Paragraph(text, before, after, max(map(len, lines)), indent)
