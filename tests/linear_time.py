"""Scanners, readers and recognizers of text, with the pieces of adversarial inputs for each, and how time grows.

`tests/properties/test_linear_time.py` runs every entry on a fixed choice of inputs. To search for worse ones:

    python -m tests.linear_time --seconds 300 [name of an entry …]
"""

import argparse
import contextlib
import gc
import random
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

from dragoman.data.cleaning_rules import CleaningConfig, CleaningReport, passes_pair_rules
from dragoman.data.documents import line_breaks
from dragoman.data.documents.document import UnitTranslation
from dragoman.data.documents.inline_units import read_fragment
from dragoman.data.documents.recognize import DocumentFormat, open_document, recognize_document
from dragoman.data.documents.texts.subtitles import cut_text
from dragoman.data.documents.translation_memory import TranslationMemory
from dragoman.data.markup.blocks import split_blocks
from dragoman.data.markup.inline_text import parse_inline
from dragoman.data.markup.tags import MarkupRules, read_tags
from dragoman.data.markup.token_alignment import find_atoms
from dragoman.data.placeholders.accelerators import MarkedText, recognize_accelerator
from dragoman.data.placeholders.clusters import cluster_placeholders
from dragoman.data.placeholders.icu_messages import IcuMessage, find_choices, quote_text, unquote_text
from dragoman.data.placeholders.numbering import number_placeholders
from dragoman.data.placeholders.recognition import find_placeholders
from dragoman.data.placeholders.stand_ins import (
    are_in_place,
    find_marks,
    protect_placeholders,
    restore_placeholders,
    trace_part,
)
from dragoman.data.readers.parallel import Example
from dragoman.data.terminology.glossary import Glossary
from dragoman.data.terminology.glossary_files import parse_glossary
from dragoman.data.terminology.target_forms import find_phrases
from dragoman.data.terminology.word_units import find_literals, split_units
from dragoman.data.terminology.words import split_words
from dragoman.data.tokenizers import CharacterConfig, Tokenizer
from dragoman.data.tokenizers.label_text import read_label
from dragoman.errors import DragomanError
from dragoman.evaluation.error_analysis import words
from dragoman.evaluation.translation_checks import check_translation
from dragoman.inference.text_segmentation import build_splitter, split_long_text
from dragoman.inference.typography import Typography
from tests import archive_documents

MAX_RATIO: Final = 2.5
"""Time of twice the input by the time of the input above which a function is not linear."""
FLOOR: Final = 0.02
"""Seconds below which a time is not compared: it may be noise."""
MIN_LENGTH: Final = 2_000
MAX_LENGTH: Final = 64_000
"""Characters of the shortest and the longest input."""


@dataclass(frozen=True)
class Scanner:
    """Function of a text, and what its adversarial inputs are made of."""

    name: str
    run: Callable[[str], object]
    fragments: tuple[str, ...]
    frames: tuple[tuple[str, str], ...] = (("", ""),)
    """Beginnings and ends around the repeated fragments."""

    def input(self, unit: str, frame: tuple[str, str], length: int) -> str:
        """Return an input of about a length."""
        return frame[0] + unit * max(1, length // max(1, len(unit))) + frame[1]

    def time(self, text: str, repetitions: int = 1) -> float:
        """Return the least processor time for an input, in seconds."""
        times = []
        for _ in range(repetitions):
            start = time.process_time()
            with contextlib.suppress(DragomanError):
                self.run(text)
            times.append(time.process_time() - start)
        return min(times)


def growth(scanner: Scanner, unit: str, frame: tuple[str, str] = ("", "")) -> tuple[float, int]:
    """Return the growth of time when an input doubles, 0 if it takes none, and the length of the input.

    The input doubles until its time can be measured. A ratio that is too high is measured again and at four times the
    length, since caches and other processes disturb short times.
    """
    length, before = MIN_LENGTH, 0.0
    gc.collect()
    gc.disable()
    try:
        while length <= MAX_LENGTH:
            now = scanner.time(scanner.input(unit, frame, length))
            if before >= FLOOR or now >= 20 * FLOOR:
                if now <= MAX_RATIO * before:
                    return now / before, length
                # A bound of a library may end the growth: both doublings count.
                return min(_precise_ratio(scanner, unit, frame, length * factor) for factor in (1, 2)), length
            length, before = 2 * length, now
    finally:
        gc.enable()
    return 0.0, length


def _precise_ratio(scanner: Scanner, unit: str, frame: tuple[str, str], length: int) -> float:
    """Return the growth from half a length to the length, or from a quarter where that is less."""
    times = [scanner.time(scanner.input(unit, frame, length // part), 3) for part in (4, 2, 1)]
    return float(min(times[2] / max(times[1], FLOOR / 10), (times[2] / max(times[0], FLOOR / 20)) ** 0.5))


def units(fragments: Sequence[str]) -> Iterator[str]:
    """Yield each fragment, and each pair of two."""
    yield from fragments
    yield from ("".join(pair) for pair in product(fragments, repeat=2) if pair[0] != pair[1])


def _fill(name: str, format_: DocumentFormat | None = None) -> Callable[[str], object]:
    def run(text: str) -> object:
        return _translate(text.encode("utf-8", "replace"), name, format_)

    return run


def _translate(content: bytes, name: str, format_: DocumentFormat | None = None) -> bytes:
    document = open_document(content, name=name, format_=format_, source_language="en", target_language="pl")
    return document.fill([UnitTranslation(text=f"{unit.source} x", needs_review=True) for unit in document.units])


def _archive(build: Callable[[str], bytes], name: str) -> Callable[[str], object]:
    return lambda text: _translate(build(text), name)


@lru_cache(maxsize=1)
def _typography() -> Typography:
    letters = "".join(map(chr, range(32, 127)))
    return Typography(Tokenizer.train(lambda: [(letters, letters)], CharacterConfig(byte_fallback=False)))


def _restore_typography(text: str) -> object:
    typography = _typography()
    plain = typography.tokenizer.source.normalize(text)
    return typography.restore(text, plain), read_label(text)


def _protect(text: str) -> object:
    protected = protect_placeholders(text, [str(1000 + number) for number in range(40)], numbering=True)
    written = [slot.stand_in for slot in protected.slots]
    restored = restore_placeholders(protected, protected.text, written=written)
    trace_part(protected, text, protected.text, restored)
    return are_in_place(protected.slots, protected.text, text, written=written), find_marks("", text, written)


def _numbers(text: str) -> object:
    found = find_placeholders(text)
    return number_placeholders(found), [one.is_ordered for one in cluster_placeholders(text, found)]


def _message(text: str) -> object:
    message = IcuMessage.parse(text, ("one", "few", "other"))
    unquote_text(text, in_plural=True)
    return find_choices(text), quote_text(text, in_plural=True, doubles=True), message and message.leaves


def _markup(text: str, rules: MarkupRules) -> object:
    pieces = split_blocks(text, rules)
    return [parse_inline(piece, rules).place("a translation of it", None) for piece in pieces[1::2]]


def _accelerator(text: str) -> object:
    return recognize_accelerator([text, text]), MarkedText("x", "_", "x").restore(text)


def _clean(text: str) -> object:
    return passes_pair_rules(Example(line=1, source=text, target=text), CleaningConfig(), report=CleaningReport())


def _memory(text: str) -> object:
    return TranslationMemory([(text, text)]).find(f"x {text}", 0.7)


def _split_sentences(text: str) -> object:
    return build_splitter("sentences", "en")(text)


_XML = (
    "<",
    ">",
    "/",
    "a",
    " ",
    '"',
    "'",
    "=",
    "<a",
    "</a>",
    "<a>",
    '<a b="',
    "<a b='",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?",
    "?>",
    "<!",
    "&",
    "&amp;",
    "&x;",
    "-",
    "]",
    "\n",
    "<b/>",
    "</",
    "<br>",
)
_HTML = (
    *_XML,
    "<title>",
    "<script>",
    "</script>",
    "<pre>",
    "<p>",
    "<b>a</b> ",
    "<select>",
    "<span>",
    "<code>",
    "<a translate=no>",
    '<a class="notranslate',
    "translate = ",
    "class='",
    "<button>x",
    "&nbsp;",
    "<svg>",
)
_TEXT = (
    " ",
    "a",
    ".",
    ",",
    "-",
    "_",
    "'",
    '"',
    "\n",
    "\t",
    "1",
    "(",
    ")",
    "é",
    "、",
    "a b ",
    "A. ",
    "? ",
    "…",
    "\u00a0",
    "\u0301",
    "a-",
    "\u3042",
    "\r",
)
_PLACES = (
    *_TEXT,
    "%",
    "%s",
    "%1$s",
    "{",
    "}",
    "{0}",
    "{a,",
    "{{",
    "}}",
    "`",
    "``",
    "<",
    "<a ",
    "=",
    "$",
    "${",
    "$(",
    "@",
    "@:",
    "\\",
    "\\\\",
    "&",
    "&#",
    ";",
    "/",
    "a/",
    ":",
    "::",
    "a:",
    "#",
    "##",
    "%(",
    "%<",
    "[[",
    "[%",
    "*|",
    "--",
    "'{",
    "__",
    "+",
    "Ctrl+",
    "https://",
    "a@b",
    "{a, choice,",
    "{a, plural, other",
    "!",
    "*",
    "~",
    "%%",
    "|",
    "{a|",
    "😀",
    "<!--",
    "\u2318",
    ".a",
    "_a",
    "/usr",
    "a.txt",
    "0:",
)
_STRINGS = ('"', "\\", "a", "=", ":", " ", "\n", ";", "/*", "*/", "//", "#", "'", "\\\n", "\\u", "\t", "''", "{0")
_MARKDOWN = (
    "*",
    "_",
    "`",
    "[",
    "]",
    "(",
    ")",
    "!",
    "<",
    ">",
    "\\",
    "&",
    "~",
    "#",
    "-",
    "+",
    "|",
    "\n",
    " ",
    "a",
    "a\n",
    "\n\n",
    "> ",
    "- ",
    "1. ",
    "```\n",
    "    ",
    "](",
    "![",
    "[a](b)",
    "<a ",
    "**",
    "__",
    "~~",
    "| a ",
    "|-",
    "&amp;",
    "[a]: b\n",
    "a\n=\n",
    "<!--",
    "---\n",
    "{%",
    "{{",
    "[^",
    "\t",
    "  \n",
)
_SUBTITLES = (
    "a",
    " ",
    "\n",
    "\n\n",
    "<i>",
    "</i>",
    "<",
    ">",
    "{\\",
    "}",
    "-",
    ")",
    "]",
    ".",
    '"',
    "!",
    "<a",
    "\r",
    "1\n00:00:01,000 --> 00:00:02,000\na b\n\n",
    "00:00:01.000 --> 00:00:02.000\n",
    "00:",
    "-->",
    "1",
    "あ",
)
_PO = (
    '"',
    "\\",
    '"a"\n',
    '"a\\"\n',
    "\n",
    " ",
    'msgid "a"\n',
    'msgstr "b"\n\n',
    'msgctxt "c"\n',
    "# x\n",
    "#, fuzzy\n",
    "#~ x\n",
    "#| x\n",
    'msgid "a"\nmsgstr ""\n\n',
    "a",
    "msgid ",
    "\\n",
    "\\x",
    "\\1",
)
_ROW = '<row r="1"><c r="A1" t="inlineStr"><is><t>a b</t></is></c></row>'
_RULES = {markup: MarkupRules(markup=markup) for markup in ("xml", "html")}

SCANNERS: Final = (
    Scanner("html page", _fill("a.html"), _HTML, (("", ""), ("<p>a", "b"), ("<a ", ">"), ("<b", ""))),
    Scanner("xhtml page", _fill("a.xhtml"), _HTML, (('<?xml version="1.0" encoding="utf-8"?><html>', "</html>"),)),
    Scanner("read_tags html", lambda text: list(read_tags(text, "html")), _HTML, (("", ""), ("<a", ""))),
    Scanner("read_tags xml", lambda text: list(read_tags(text, "xml")), _XML, (("", ""), ("<a", ""))),
    Scanner("inline html", lambda text: _markup(text, _RULES["html"]), _HTML, (("", ""), ("a ", " b"))),
    Scanner("inline xml", lambda text: _markup(text, _RULES["xml"]), _HTML, (("", ""), ("a ", " b"))),
    Scanner(
        "read_fragment", lambda text: list(read_fragment(text)), (*_XML, '<g id="1"', "</g", "<x id=", '<g id="1">')
    ),
    Scanner("find_atoms", find_atoms, _TEXT),
    Scanner("markdown", _fill("a.md"), _MARKDOWN, (("", ""), ("a", "b"), ("---\n", "x"), ("a | b\n--|--\n", "\n"))),
    Scanner("plain text", _fill("a.txt"), _TEXT, (("", ""), ("a", "a"))),
    Scanner("line breaks", line_breaks.cut_lines, (*_TEXT, "--a", "  ", "\t ", "a\n", "a:")),
    Scanner("srt", _fill("a.srt"), _SUBTITLES, (("", ""), ("1\n00:00:01,000 --> 00:00:02,000\na", "x"))),
    Scanner(
        "vtt", _fill("a.vtt"), (*_SUBTITLES, "&"), (("WEBVTT\n\n00:01.000 --> 00:02.000\na", "x"), ("WEBVTT ", ""))
    ),
    Scanner("cut_text", lambda text: cut_text(text, [1] * (1 + len(text) // 40)), _SUBTITLES),
    Scanner("po", _fill("a.po"), _PO, (("", ""), ('msgid "', '"\nmsgstr ""\n'), ('msgid ""\nmsgstr ""\n', ""))),
    Scanner("properties", _fill("a.properties"), _STRINGS, (("", ""), ("a=b", "c"), ("a=b\n", "\n"))),
    Scanner("strings", _fill("a.strings"), (*_STRINGS, '"a" = "b";\n'), (("", ""), ('"a"="', '";'), ("/*", "*/ x"))),
    Scanner(
        "json",
        _fill("a.json"),
        (
            *_STRINGS,
            "[",
            "{",
            ",",
            '"a",',
            '{"a":',
            "1,",
            '"a_one":"a","a_other":"b",',
            '"a":"b",',
            '"@a":{"description":"b"},',
            '"":{},',
            "[],",
            "0",
            "1e",
            "-",
        ),
        (("[", "1]"), ('{"a":"', '"}'), ("{", '"z":"z z"}'), ("", "")),
    ),
    Scanner(
        "xcstrings",
        _fill("a.xcstrings"),
        (
            *_STRINGS,
            '"a":{},',
            '"a":{"localizations":{"en":{"stringUnit":{"state":"new","value":"v"}}}},',
            "{",
            "[",
            '"a":[',
        ),
        (('{"sourceLanguage":"en","strings":{', '"z":{}}}'), ("{", "}")),
    ),
    Scanner(
        "yaml",
        _fill("a.yaml"),
        (
            *_STRINGS,
            "- ",
            "a: b\n",
            "? ",
            "[",
            "{",
            "&a ",
            "*a ",
            "|\n",
            ">\n",
            "!x ",
            ", ",
            "  ",
            "- a\n",
            "one: a\n",
            "---\n",
            "%",
        ),
        (("", ""), ("a: ", ""), ("[", "]"), ('a: "', '"'), ("a: |\n  b\n", "x")),
    ),
    Scanner(
        "csv",
        _fill("a.csv"),
        ('"', ",", "a", "\n", '""', "a,b\n", '"a","b"\n', "\r", " "),
        (("source,target\n", ""), ("source\n", '"x'), ('source,target\n"', "")),
    ),
    Scanner("tsv", _fill("a.tsv"), ('"', "\t", "a", "\n", "a\tb\n", "\r"), (("source\ttarget\n", ""),)),
    Scanner(
        "android",
        _fill("strings.xml", "android"),
        (
            *_XML,
            '<string name="a">a</string>',
            "\\",
            "\\'",
            '"a"',
            "@",
            "<b>a</b>",
            '<plurals name="p"><item quantity="one">a</item><item quantity="other">b</item></plurals>',
        ),
        (
            ("<resources>", "</resources>"),
            ('<resources><string name="a">x', "</string></resources>"),
            ('<resources><string-array name="a">', "</string-array></resources>"),
            ('<resources><string name="', '">x</string></resources>'),
        ),
    ),
    Scanner(
        "xliff",
        _fill("a.xlf"),
        (
            *_XML,
            '<trans-unit id="1"><source>a b</source></trans-unit>',
            '<g id="1">a</g>',
            '<x id="1"/>',
            '<mrk mtype="seg" mid="1">a</mrk>',
            "<note>a</note>",
            '<bpt id="1">',
        ),
        (
            ('<xliff version="1.2"><file><body>', "</body></file></xliff>"),
            (
                '<xliff version="1.2"><file><body><trans-unit id="1"><source>a',
                "</source></trans-unit></body></file></xliff>",
            ),
        ),
    ),
    Scanner(
        "tmx",
        _fill("a.tmx"),
        (*_XML, '<tu><tuv xml:lang="en"><seg>a b</seg></tuv></tu>', '<tuv xml:lang="pl"><seg>a</seg></tuv>'),
        (
            ("<tmx><body>", "</body></tmx>"),
            ('<tmx><body><tu><tuv xml:lang="en"><seg>a', "</seg></tuv></tu></body></tmx>"),
        ),
    ),
    Scanner(
        "ts",
        _fill("a.ts"),
        (*_XML, "<message><source>a b</source><translation type='unfinished'/></message>"),
        (("<TS><context><name>c</name>", "</context></TS>"),),
    ),
    Scanner(
        "resx",
        _fill("a.resx"),
        (*_XML, '<data name="a"><value>a b</value></data>'),
        (("<root>", "</root>"), ('<root><data name="a"><value>a', "</value></data></root>")),
    ),
    Scanner(
        "stringsdict",
        _fill("a.stringsdict"),
        (*_XML, "<key>one</key><string>a</string>", "<key>other</key><string>a</string>", "<key>a</key><dict>"),
        (("<plist><dict>", "</dict></plist>"),),
    ),
    Scanner(
        "docx",
        _archive(archive_documents.docx, "a.docx"),
        (
            *_XML,
            "<w:p><w:r><w:t>a b</w:t></w:r></w:p>",
            "<w:r><w:t>a b</w:t></w:r>",
            "<w:p><w:r><w:tab/></w:r></w:p>",
            '<w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r></w:p>',
            "<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r>",
            "<w:p><w:hyperlink><w:r><w:t>a</w:t></w:r></w:hyperlink></w:p>",
            "<w:tbl><w:tr><w:tc/></w:tr></w:tbl>",
        ),
        (("", ""), ("<w:p>", "</w:p>"), ("<w:p><w:r><w:t>a", "</w:t></w:r></w:p>")),
    ),
    Scanner(
        "pptx",
        _archive(archive_documents.pptx, "a.pptx"),
        (*_XML, "<a:p><a:r><a:t>a b</a:t></a:r></a:p>"),
        (("", ""), ("<a:p>", "</a:p>")),
    ),
    Scanner(
        "xlsx",
        _archive(archive_documents.xlsx, "a.xlsx"),
        (*_XML, "<si><t>a b</t></si>", "<si><r><t>a</t></r><r><t>b</t></r></si>", '<si x="', "<t>a</t>", '<f>"a"</f>'),
        (("", ""), ("<si>", "</si>")),
    ),
    Scanner(
        "xlsx sheet",
        _archive(lambda text: archive_documents.xlsx("<si><t>a b</t></si>", text), "a.xlsx"),
        (_ROW, '<c t="s"><v>0</v></c>', '<f>"a', '<f>"a"</f>', "<f>", "</f>", '"', "a", '<tableColumn name="', "name "),
        (("", ""), ('<row r="1">', "</row>"), ('<f>"a', "</f>")),
    ),
    Scanner(
        "odt",
        _archive(archive_documents.open_document_file, "a.odt"),
        (*_XML, "<text:p>a b</text:p>", "<text:span>a</text:span>", "<text:s/>", '<text:p x="'),
        (("", ""), ("<text:p>", "</text:p>"), ("<text:p>a", "</text:p>")),
    ),
    Scanner(
        "ods",
        _archive(lambda text: archive_documents.open_document_file(text, kind="spreadsheet"), "a.ods"),
        (
            *_XML,
            "<table:table><table:table-row><table:table-cell><text:p>a b</text:p></table:table-cell></table:table-row>"
            "</table:table>",
            '<table:table-cell table:formula="of:=&quot;a"/>',
        ),
        (("", ""), ("<table:table>", "</table:table>")),
    ),
    Scanner(
        "epub",
        _archive(archive_documents.epub, "a.epub"),
        (*_HTML, "<p>a b</p>", "<b>a</b>"),
        (("", ""), ("<p>a", "</p>")),
    ),
    Scanner(
        "recognize_document",
        lambda text: recognize_document(text.encode(), "x.unknown"),
        (*_XML, "msgid ", "\n", "<resources", "<tmx"),
    ),
    Scanner("find_placeholders", find_placeholders, _PLACES),
    Scanner("find_placeholders markup", lambda text: find_placeholders(text, markup=True), _PLACES),
    Scanner("number_placeholders", _numbers, _PLACES),
    Scanner("protect_placeholders", _protect, _PLACES),
    Scanner("typography", _restore_typography, ("“", "”", "’", "'", "—", " — ", "-", "a", "1", "…", "...", " ", "A")),
    Scanner(
        "icu messages",
        _message,
        (
            "{",
            "}",
            "'",
            "''",
            "#",
            "a",
            " ",
            ",",
            "{a}",
            "{a,plural,",
            "one{",
            "other{a}",
            "=1",
            "{a,select,",
            "'{",
            "offset:1",
            "{n, plural, one{a} other{b}}",
            "x{y}",
            "one {a} ",
        ),
        (("", ""), ("{a,plural,", "other{x}}"), ("{a}''", "")),
    ),
    Scanner("accelerators", _accelerator, (*_TEXT, "&", ":", "?", "!")),
    Scanner("split_sentences", _split_sentences, _TEXT),
    Scanner("split_long_text", lambda text: split_long_text(text, lambda part: len(part) < 500), _TEXT),
    Scanner("split_units", split_units, _TEXT),
    Scanner("find_literals", find_literals, _PLACES),
    Scanner("find_phrases", lambda text: find_phrases(text, ["a b", "b"], whole_words=False), _TEXT),
    Scanner("split_words", split_words, _TEXT),
    Scanner("words", words, (*_TEXT, "<", ">")),
    Scanner("glossary", Glossary.from_pairs([("a b", "c"), ("a a a a", "d"), ("a-", "e"), (". . .", "f")]).find, _TEXT),
    Scanner(
        "glossary tsv",
        lambda text: parse_glossary(text, "tsv"),
        ("a\tb\n", "|", "\\|", "a", "\t", "\n", " ", '"'),
        (("", ""), ("a\t", "b")),
    ),
    Scanner(
        "glossary csv",
        lambda text: parse_glossary(text, "csv"),
        ("a,b\n", "|", "a", ",", "\n", '"', '""', ";"),
        (("", ""), ("a,", "b")),
    ),
    Scanner(
        "glossary tbx",
        lambda text: parse_glossary(text, "tbx", source_language="en", target_language="pl"),
        (
            *_XML,
            '<termEntry><langSet xml:lang="en"><tig><term>a</term></tig></langSet></termEntry>',
            "<tig><term>a</term></tig>",
            "a<hi/>",
        ),
        (
            ("<martif>", "</martif>"),
            ('<martif><termEntry><langSet xml:lang="en"><tig><term>a', "</term></tig></langSet></termEntry></martif>"),
        ),
    ),
    Scanner(
        "check_translation",
        lambda text: check_translation("a b", text),
        (*_TEXT, "<", ">", "@", "a@", "://", "a b c d e ", "b1 "),
    ),
    Scanner("cleaning rules", _clean, _TEXT),
    Scanner("translation memory", _memory, _TEXT),
)


class _TooLongError(Exception):
    """An input took longer than the search waits."""


def search(scanners: Sequence[Scanner], seconds: float, seed: int) -> None:
    """Print random inputs whose time is not linear, or slow."""
    chance = random.Random(seed)
    end = time.monotonic() + seconds

    def stop(*_: object) -> None:
        raise _TooLongError

    signal.signal(signal.SIGALRM, stop)
    seen: dict[str, int] = {}
    while time.monotonic() < end:
        scanner = chance.choice(scanners)
        if seen.get(scanner.name, 0) >= 3:
            continue
        unit = "".join(chance.choice(scanner.fragments) for _ in range(chance.choice((1, 1, 2, 2, 3, 4, 6))))
        head, tail = chance.choice(scanner.frames)
        frame = head + "".join(chance.choice(scanner.fragments) for _ in range(chance.choice((0, 0, 1, 2)))), tail
        signal.alarm(20)
        try:
            ratio, length = growth(scanner, unit, frame)
        except _TooLongError:
            ratio, length = float("inf"), 0
        except Exception as error:  # a search shows all that is wrong
            print(f"{scanner.name:26} {type(error).__name__}: {error!s:.80} {unit!r} {frame!r}", flush=True)
            seen[scanner.name] = seen.get(scanner.name, 0) + 1
            continue
        finally:
            signal.alarm(0)
        slow = scanner.time(scanner.input(unit, frame, 20_000)) if ratio else 0.0
        if ratio > MAX_RATIO or slow > 0.4:
            seen[scanner.name] = seen.get(scanner.name, 0) + 1
            print(
                f"{scanner.name:26} ratio {ratio:.2f} at {length} {slow * 50:.1f} us/char {unit!r} {frame!r}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Search for inputs whose time is not linear.")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [one for one in SCANNERS if not arguments.names or one.name in arguments.names]
    search(chosen, arguments.seconds, arguments.seed)
