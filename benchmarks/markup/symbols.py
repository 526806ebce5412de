"""Symbols, quotation marks and placeholders next to tags: what translations of 1,000 generated texts keep.

The texts are HTML, XML and PO, and lxml and polib judge the translations, not the code of dragoman.

usage: python -m benchmarks.markup.symbols RUN [--texts 1000] [--failures FILE]
"""

import argparse
import json
import random
import re
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polib
from lxml import etree, html

import dragoman
from dragoman.runs.translate_file import translate_file

SENTENCES = (
    "open the white house in a new window",
    "the long description of this page",
    "save all files before you close the program",
    "two dogs play with a red ball in the snow",
    "see the section about keys for more details",
    "the server sends a message to every client",
    "choose a color and press the green button",
    "my sister reads the paper in the garden",
)
SYMBOLS = ("¶", "§", "→", "≠", "•", "©", "✓", "★", "€", "😀", "†", "⌘")
QUOTES = ("“”", "‘’", "«»", '""', "„“", "()")
MARKS = ("—", "…", "’s", " – ", "!", ":")
PLACEHOLDERS = ("%s", "%d", "{name}", "{0}", "%(count)d", "https://example.org/a?b=1", "$x")
TAGS = {"html": ("em", "b", "a", "span", "code", "i"), "xml": ("g", "mrk", "ph", "bold"), "po": ("b", "a", "i", "tt")}
EMPTY = {"html": ("<br>", "<img src='/a.png' alt='≠'>"), "xml": ("<x/>", '<x id="7"/>'), "po": ("<br/>", "<hr/>")}
ATTRIBUTES = (
    "",
    ' href="/c ≠ d"',
    ' class="header link" href="#y"',
    " title='5 > 3 “quoted”'",
    ' id="1"',
    ' data-n="4 817"',
)


class Case(NamedTuple):
    """Text of a kind."""

    kind: str
    text: str


class Verdict(NamedTuple):
    """Judgment of a translation."""

    well_formed: bool
    same_tags: bool
    symbols: bool
    """Whether each symbol and placeholder stands in it as often as in the source."""
    tokens: tuple[str, ...]
    """Placeholder tokens that were left in it."""
    emptied: tuple[str, ...]
    """Elements that have text in the source, and none in the translation."""


def make_cases(count: int, seed: int = 1) -> list[Case]:
    """Return texts with symbols and quotation marks next to tags."""
    choice = random.Random(seed)
    return [Case(kind, _make_text(kind, choice)) for kind in choice.choices(tuple(TAGS), k=count)]


def _make_text(kind: str, choice: random.Random) -> str:
    words = choice.choice(SENTENCES).split()
    words[0] = words[0].capitalize()
    for _ in range(choice.randint(1, 4)):
        place = choice.randrange(len(words))
        words[place] = _decorate(words[place], kind, choice)
    if choice.random() < 0.3:
        first, last = sorted(choice.sample(range(len(words)), 2))
        quotes = choice.choice(QUOTES)
        name = choice.choice([name for name in TAGS[kind] if name != "a"])  # links have no links inside
        words[first] = f"{quotes[0]}<{name}>{words[first]}"
        words[last] = f"{words[last]}</{name}>{quotes[1]}"
    if choice.random() < 0.4:
        words.append(_element(choice.choice(SYMBOLS), kind, choice))
    return " ".join(words) + choice.choice(("", ".", "…", "?"))


def _decorate(word: str, kind: str, choice: random.Random) -> str:
    quotes, symbol = choice.choice(QUOTES), choice.choice((*SYMBOLS, *PLACEHOLDERS))
    return choice.choice((
        word if "<a" in word else f"{quotes[0]}{_element(word, kind, choice)}{quotes[1]}",
        word if "<a" in word else _element(f"{quotes[0]}{word}{quotes[1]}", kind, choice),
        f"{word} {_element(symbol, kind, choice)}",
        f"{symbol} {word if '<a' in word else _element(word, kind, choice)}",
        f"{word if '<a' in word else _element(word, kind, choice)}{choice.choice(MARKS)}",
        f"{word} {symbol}{choice.choice(EMPTY[kind])}",
    ))  # fmt: skip


def _element(text: str, kind: str, choice: random.Random) -> str:
    name = choice.choice(TAGS[kind])
    attributes = choice.choice(ATTRIBUTES)
    if kind != "html":
        attributes = attributes.replace(">", "&gt;")
    return f"<{name}{attributes}>{text}</{name}>"


def parse(text: str, kind: str) -> etree._Element | None:
    """Return the tree of a fragment; None if it is not well-formed XML, or not the HTML that it claims to be."""
    if kind == "html":
        return html.fragment_fromstring(text, create_parent="div")
    try:
        return etree.fromstring(f"<div>{text}</div>")
    except etree.XMLSyntaxError:
        return None


def judge(case: Case, translation: str) -> Verdict:
    """Judge a translation by a parser that knows nothing about how it was made."""
    trees = [parse(text, case.kind) for text in (case.text, translation)]
    digits = re.sub(r"\D", "", case.text)
    numbers = re.findall(r"\d{4,}", translation)
    tokens = [one for one in numbers if len(set(one)) >= 4 and one not in digits]
    tokens += re.findall(r"[\ue010-\ue01f]|\bX[1-8]\b|Kowalski|Nakamura|Lindgren|Petrov", translation)
    source, target = trees
    assert source is not None, f"the generator wrote {case.text!r}"
    if target is None:
        return Verdict(False, False, False, tuple(tokens), ())
    kept = [
        {one: "".join(tree.itertext()).count(one) for one in (*SYMBOLS, *PLACEHOLDERS)} for tree in (source, target)
    ]
    return Verdict(
        _is_balanced(translation, case.kind),
        _tags(source) == _tags(target),
        kept[0] == kept[1],
        tuple(tokens),
        tuple((_texts(source) - _texts(target)).elements()),
    )


def _is_balanced(text: str, kind: str) -> bool:
    """Return whether each start tag of HTML has its end tag in the right order; other texts were parsed as XML."""
    if kind != "html":
        return True
    closed = re.sub(r"<(br|img)\b((?:\"[^\"]*\"|'[^']*'|[^>\"'])*)>", r"<\1\2/>", text)
    return parse(closed, "xml") is not None


def _tags(tree: etree._Element) -> Counter[tuple[str, tuple[tuple[str, str], ...]]]:
    return Counter((one.tag, tuple(sorted(one.attrib.items()))) for one in tree.iterdescendants())


def _texts(tree: etree._Element) -> Counter[str]:
    """Return the elements with text, by their start tags."""
    return Counter(
        f"<{one.tag}{''.join(f' {name}={value}' for name, value in one.attrib.items())}>"
        for one in tree.iterdescendants()
        if "".join(one.itertext()).strip()
    )


class Outcome(NamedTuple):
    """Translation of a case, and what was reported about it."""

    text: str
    problems: tuple[str, ...]


def translate(translator: dragoman.Translator, cases: Sequence[Case], **options: Any) -> list[Outcome]:
    """Translate the texts of HTML and XML with their markup, and those of PO in a file."""
    found: dict[int, Outcome] = {}
    fragments = [(place, one) for place, one in enumerate(cases) if one.kind != "po"]
    markup = [one.kind for _, one in fragments]
    results = translator.translate([one.text for _, one in fragments], markup=markup, placeholders=True, **options)  # type: ignore[arg-type]
    for (place, _), result in zip(fragments, results, strict=True):
        found[place] = Outcome(result.text, (*result[0].markup_problems, *result[0].unmet))
    messages = [(place, one) for place, one in enumerate(cases) if one.kind == "po"]
    for (place, _), outcome in zip(messages, translate_po(translator, [one.text for _, one in messages]), strict=True):
        found[place] = outcome
    return [found[place] for place in range(len(cases))]


def translate_po(translator: dragoman.Translator, texts: Sequence[str]) -> list[Outcome]:
    """Translate the messages of a PO file, which polib writes and reads."""
    file = polib.POFile()
    file.metadata = {"Content-Type": "text/plain; charset=utf-8"}
    for number, text in enumerate(texts):
        file.append(polib.POEntry(msgid=text, msgctxt=str(number)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "messages.po"
        file.save(str(path))
        translated = translate_file(translator, path)
    by_context = {one.msgctxt: one.msgstr for one in polib.pofile(translated.content.decode())}
    warned = [one.warnings for one in translated.report.segments]
    return [Outcome(by_context[str(place)], problems) for place, problems in enumerate(warned)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failures", type=Path)
    options = parser.parse_args()
    translator = dragoman.load(options.run, dragoman.Translator)
    cases = make_cases(options.texts, options.seed)
    start = time.process_time()
    with warnings.catch_warnings(action="ignore"):
        outcomes = translate(translator, cases)
    seconds = time.process_time() - start
    rows = [(case, outcome, judge(case, outcome.text)) for case, outcome in zip(cases, outcomes, strict=True)]
    counts = {}
    for kind in ("html", "xml", "po"):
        own = [(outcome, verdict) for case, outcome, verdict in rows if case.kind == kind]
        counts[kind] = {
            "texts": len(own),
            "well_formed": sum(verdict.well_formed for _, verdict in own),
            "same_tags": sum(verdict.same_tags for _, verdict in own),
            "symbols_kept": sum(verdict.symbols for _, verdict in own),
            "with_placeholder_token": sum(bool(verdict.tokens) for _, verdict in own),
            "with_emptied_element": sum(bool(verdict.emptied) for _, verdict in own),
            "emptied_unreported": sum(bool(verdict.emptied) and not outcome.problems for outcome, verdict in own),
        }
    if options.failures:
        failed = [row for row in rows if not all(row[2][:3]) or row[2].tokens or row[2].emptied]
        lines = [
            f"{case.kind}\t{case.text}\t{outcome.text}\t{outcome.problems}\t{verdict}\n"
            for case, outcome, verdict in failed
        ]
        options.failures.write_text("".join(lines), encoding="utf-8")
    print(json.dumps({**counts, "processor_seconds": seconds}, indent=1))


if __name__ == "__main__":
    main()
