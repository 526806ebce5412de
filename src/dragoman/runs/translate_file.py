"""Translation of files: their units in batches, translation memories, and a report of what was done."""

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, Unpack, final

from dragoman.atomic_files import write_atomically
from dragoman.data.documents.document import Document, Markup, Unit, UnitTranslation
from dragoman.data.documents.line_breaks import join_lines
from dragoman.data.documents.recognize import DocumentFormat, open_document
from dragoman.data.documents.translation_memory import TranslationMemory
from dragoman.data.markup import MarkupRules
from dragoman.data.placeholders.rules import PlaceholderRules
from dragoman.data.readers.parallel import read_corpus
from dragoman.data.readers.recognize_format import recognize_pairs
from dragoman.data.terminology.consistent_terms import choose_words, with_choices
from dragoman.data.terminology.glossary import Glossary
from dragoman.data.terminology.target_forms import check_terms
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import collect_text_warnings
from dragoman.inference.control.inline_markup import MarkupWarning
from dragoman.inference.translation_options import StreamOptions
from dragoman.inference.translation_result import Translation, TranslationResult
from dragoman.inference.translator import Translator
from dragoman.runs.file_report import FileReport, TermReport
from dragoman.runs.file_tags import TaggedText
from dragoman.runs.file_units import AnalyzedUnit, analyze_units, without_tags
from dragoman.runs.preceding_texts import preceding_texts, texts_with_context

Selection = Literal["untranslated", "needs_review", "all"]
"""Units that are translated: those without a translation; also those whose translation needs review; all but final."""
Review = Literal["warned", "all", "none"]
"""Translations that the file marks for review: those with warnings, all, or none."""
_CODES = MarkupRules("xml", outline_detection=False)
"""Rules for inline codes, which may stand next to no text."""
_MARKUP: dict[Markup | None, MarkupRules | None] = {
    None: None,
    "html": MarkupRules("html"),
    "xml": _CODES,
}
"""Rules for the markup of units."""
_WARNED = ("cut_off", "unmet")
"""Kinds of issues about which the translator warns."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What of a file is translated, and how its translations are marked."""

    only: Selection = "untranslated"
    review: Review = "warned"
    memory: TranslationMemory | None = None
    """Translations that are reused where a source is equal."""
    memory_threshold: float = 1.0
    """Similarity from which a translation of a similar source is used and marked for review."""
    consistent_terms: bool = True
    """Whether a term has the same word in all texts where the glossary has several, which takes a second search."""
    target_language: str | None = None
    """Code of the language of the translations; ICU messages then have all of its plural categories."""

    def selects(self, unit: Unit) -> bool:
        """Return whether a unit is translated."""
        match self.only:
            case "untranslated":
                return unit.state == "untranslated"
            case "needs_review":
                return unit.state in ("untranslated", "needs_review")
            case "all":
                return unit.state != "final"


@final
@dataclass(frozen=True, slots=True)
class FileTranslation:
    """Translated file and its report."""

    content: bytes
    report: FileReport

    def write(self, path: str | Path, *, report: str | Path | None = None) -> None:
        """Write the file, and its report as JSON. Files that are there are replaced."""
        write_atomically(Path(path), self.content)
        if report is not None:
            self.report.write(report)


class TextTranslator(Protocol):
    """Translator of texts: a `Translator`, or several, one after the other."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that reads the texts."""
        ...

    def translate_stream(
        self, texts: Iterable[str], config: DecodingConfig | None = None, **options: Unpack[StreamOptions]
    ) -> Iterator[TranslationResult]:
        """Yield the translations of texts, as `Translator.translate_stream` does."""
        ...


Progress = Callable[[Iterator[TranslationResult], int], Iterable[TranslationResult]]
"""Shows the progress of an iterator, of which the number of items is given."""
_DEFAULT_OPTIONS = FileOptions()


def translate_file(
    translator: Translator,
    file: str | Path | bytes,
    options: FileOptions = _DEFAULT_OPTIONS,
    config: DecodingConfig | None = None,
    *,
    name: str | None = None,
    file_format: DocumentFormat | None = None,
    **stream_options: Unpack[StreamOptions],
) -> FileTranslation:
    """Translate a file, such as a PO file, an HTML page or a DOCX document, into a file of the same format.

    `file` is a path, or the content of a file that is called `name`. Its format is recognized by its name and content.
    Placeholders are protected, texts are split into sentences, and each is translated once. Other options are those of
    `Translator.translate_stream`, such as `glossary`, `source_language` and `target_language`. Raises DataError if the
    file is damaged or its format is unknown.

    >>> translation = dragoman.translate_file(translator, "app.po", target_language="pt")
    >>> translation.write("app.pt.po", report="app.json")
    """
    source, target = stream_options.get("source_language"), stream_options.get("target_language")
    content = file if isinstance(file, bytes) else Path(file)
    document = open_document(content, name=name, format_=file_format, source_language=source, target_language=target)
    chosen = replace(options, target_language=options.target_language or target)
    searching = with_languages(translator, stream_options)
    return translate_document(translator, document, chosen, config, stream_options=searching)


def with_languages(translator: Translator, stream_options: StreamOptions) -> StreamOptions:
    """Return options for the texts of a file: split into sentences, in languages that the model may not know."""
    defaults: StreamOptions = {"split": "sentences"}
    if (source := stream_options.get("source_language")) is not None:
        defaults["language"] = source
    chosen: StreamOptions = {**defaults, **stream_options}
    if not translator.tokenizer.prefixes.languages:  # a model of one pair of languages
        chosen.pop("source_language", None)
        chosen.pop("target_language", None)
    return chosen


@dataclass(slots=True)
class _Text:
    """Paragraph that is translated, and what was made of it."""

    text: str
    tagged: TaggedText | None
    """The text with codes in place of its tags; None to protect its tags as placeholders."""
    result: TranslationResult | None = None
    warnings: list[str] = field(default_factory=list)

    def receive(self, result: TranslationResult) -> bool:
        """Return whether a translation is used: not if values would be in the wrong places of its tags."""
        tagged, self.result = self.tagged, result
        problems = result[0].markup_problems
        if tagged is not None:
            if not tagged.keeps_order(result.text):
                self.tagged = None
                return False
            self.result = TranslationResult(replace(one, text=tagged.restore(one.text)) for one in result)
            problems = tuple(map(tagged.name, problems))
        self.warnings += problems
        return True

    @property
    def best(self) -> Translation:
        """The translation of the text."""
        assert self.result is not None, "the text is translated"
        return self.result[0]


class _Work:
    """Text that is translated once for all units that have it."""

    def __init__(self, unit: AnalyzedUnit) -> None:
        self.unit = unit
        can_place = unit.unit.markup is None and unit.rules is not None and not (unit.is_message or unit.has_mnemonic)
        self.texts = [
            _Text(one.text, TaggedText.of(one.text) if can_place else None) for one in unit.paragraphs if one.text
        ]

    @property
    def translation(self) -> str:
        texts = iter(self.texts)
        paragraphs = self.unit.paragraphs
        return join_lines(paragraphs, [next(texts).best.text if one.text else "" for one in paragraphs])


_Key = tuple[Markup | None, str, PlaceholderRules | None, tuple[str, ...]]
"""Markup and text of a unit, rules of its placeholders, and the texts before it that the model reads."""


def translate_document(
    translator: TextTranslator,
    document: Document,
    options: FileOptions,
    config: DecodingConfig | None = None,
    *,
    stream_options: StreamOptions | None = None,
    progress: Progress = lambda results, _: results,
) -> FileTranslation:
    """Translate the units of a document that `options` select, and fill it.

    `stream_options` are those of `Translator.translate_stream`, where `placeholders` are one of True, the default,
    False and rules for all texts. Units with equal texts are translated once. A model with document context reads the
    units before each unit of running text; `context` is "previous" to do so in all formats, and None in none.
    """
    report = translate_units(translator, document, options, config, stream_options=stream_options, progress=progress)
    return FileTranslation(document.fill(report.translations), report)


def translate_units(
    translator: TextTranslator,
    document: Document,
    options: FileOptions,
    config: DecodingConfig | None = None,
    *,
    stream_options: StreamOptions | None = None,
    progress: Progress = lambda results, _: results,
) -> FileReport:
    """Return the report of a document whose units are translated, which `translate_document` writes into a file."""
    searching: StreamOptions = {**(stream_options or {})}
    placeholders = searching.get("placeholders")
    rules = None if isinstance(placeholders, Sequence) else placeholders
    units = analyze_units(document, rules, options.target_language)
    before = preceding_texts(document, translator.tokenizer, searching)
    searching["context"] = None if before is None else "previous"
    done: dict[int, UnitTranslation] = {}
    keys: dict[int, _Key] = {}
    for number, unit in enumerate(units):
        if options.selects(unit.unit):
            if (known := _without_model(unit, options)) is not None:
                done[number] = known
            else:
                context = before[number] if before else ()
                keys[number] = (unit.unit.markup, unit.unit.source, unit.rules, context)
    work: dict[_Key, _Work] = {}
    for number, key in keys.items():
        if key not in work:
            work[key] = _Work(units[number])
    _run(translator, work, config, searching, progress)
    choices = _make_consistent(translator, work, config, searching) if options.consistent_terms else []
    for number, key in keys.items():
        done[number] = _from_model(units[number], work[key])
    glossary = searching.get("glossary")
    if isinstance(glossary, Glossary):
        done = {number: _with_terms(one, units[number].unit, glossary) for number, one in done.items()}
    done = {number: _with_review(one, options.review) for number, one in done.items()}
    return FileReport(document.format, [done.get(number) for number in range(len(units))], choices)


def read_memory(paths: Sequence[Path]) -> TranslationMemory:
    """Return the pairs of TMX, XLIFF or PO files, or others that are parallel corpora; later files count more."""
    corpora = (recognize_pairs(path) for path in paths)
    return TranslationMemory((one.source, one.target) for corpus in corpora for one in read_corpus(corpus))


def _without_model(unit: AnalyzedUnit, options: FileOptions) -> UnitTranslation | None:
    """Return the translation of a unit that needs no model."""
    source = unit.unit.source
    if not unit.is_text:
        return unit.translated(source, "copy")
    is_plain_html = unit.unit.markup == "html" and "<" not in source  # which a memory has without references
    wanted = html.unescape(source) if is_plain_html else source
    match = options.memory.find(wanted, options.memory_threshold) if options.memory is not None else None
    if match is None:
        return None
    target = html.escape(match.target, quote=False) if is_plain_html else match.target
    start = source[: len(source) - len(source.lstrip())]
    end = source[len(source.rstrip()) :]
    is_equal = match.similarity == 1.0
    return replace(
        unit.translated(
            f"{start}{target.strip()}{end}",
            "memory" if is_equal else "fuzzy_memory",
            warnings=() if is_equal else (f"translation of a similar text: {match.source}",),
        ),
        similarity=match.similarity,
    )


def _run(
    translator: TextTranslator,
    work: dict[_Key, _Work],
    config: DecodingConfig | None,
    stream_options: StreamOptions,
    progress: Progress,
) -> None:
    """Translate all texts in one stream, and texts again whose tags cannot be placed."""
    jobs = [(key, text) for key, one in work.items() for text in one.texts]
    contexts = [
        own
        for (*_, before), one in work.items()
        for own in texts_with_context([text.text for text in one.texts], before)
    ]
    has_context = stream_options["context"] is not None
    rows = list(zip(jobs, contexts, strict=True))
    while rows:
        markup = [_CODES if text.tagged is not None else _MARKUP[key[0]] for (key, text), _ in rows]
        placeholders = [key[2] for (key, _), _ in rows]
        options: StreamOptions = {**stream_options, "placeholders": placeholders if any(placeholders) else None}
        if any(markup):
            options["markup"] = markup
        if has_context:
            options["context"] = [context for _, context in rows]
        texts = (text.text if text.tagged is None else text.tagged.fragment for (_, text), _ in rows)
        results = translator.translate_stream(texts, config, **options)
        with collect_text_warnings() as warnings:
            used = [row[0][1].receive(result) for row, result in zip(rows, progress(results, len(rows)), strict=True)]
        for warning in warnings:
            if used[warning.number - 1] and not isinstance(warning, MarkupWarning):  # its problems are there already
                rows[warning.number - 1][0][1].warnings.append(warning.message)
        rows = [row for row, is_used in zip(rows, used, strict=True) if not is_used]


def _make_consistent(
    translator: TextTranslator, work: dict[_Key, _Work], config: DecodingConfig | None, stream_options: StreamOptions
) -> list[TermReport]:
    """Translate texts again whose words for terms are not those of most texts; a text that still has them stays."""
    glossary = stream_options.get("glossary")
    if not isinstance(glossary, Glossary) or stream_options.get("glossary_mode") == "annotated":
        return []
    keys = list(work)
    choices = choose_words(glossary, [_plain_pair(key, work[key]) for key in keys])
    places = {place for choice in choices for place in choice.others}
    again = {key: _Work(work[key].unit) for place, key in enumerate(keys) if place in places}
    if again:
        chosen: StreamOptions = {**stream_options, "glossary": with_choices(glossary, choices)}
        _run(translator, again, config, chosen, lambda results, _: results)
    tried = work | again
    rest = choose_words(glossary, [_plain_pair(key, tried[key]) for key in keys], given=choices)
    left = {one.terms: set(one.others) for one in rest}
    failed = {keys[place] for one in rest for place in one.others}  # words of other terms, or of the text itself
    work |= {key: one for key, one in again.items() if key not in failed}
    return [
        TermReport(one.source, one.forms, one.texts, len({*one.others} - left[one.terms]), len(left[one.terms]))
        for one in choices
    ]


def _plain_pair(key: _Key, work: _Work) -> tuple[str, str]:
    """Return a text and its translation, without tags."""
    unit = Unit(source=key[1], markup=key[0])
    return without_tags(unit.source, unit), without_tags(work.translation, unit)


def _from_model(unit: AnalyzedUnit, work: _Work) -> UnitTranslation:
    best = [text.best for text in work.texts]
    issues = [one.message for result in best for one in result.quality.warnings if one.kind not in _WARNED]
    warnings = tuple(dict.fromkeys([*(warning for text in work.texts for warning in text.warnings), *issues]))
    return replace(
        unit.translated(work.translation, "machine", warnings=warnings),
        confidence=min((result.quality.confidence for result in best), default=None),
        unmet=tuple(name for result in best for name in result.unmet),
    )


def _with_terms(translation: UnitTranslation, unit: Unit, glossary: Glossary) -> UnitTranslation:
    """Return a translation with the terms of its source, and a warning of each that is missing."""
    checks = check_terms(glossary, without_tags(unit.source, unit), without_tags(translation.text, unit))
    missing = tuple(dict.fromkeys(one.match.text for one in checks if not one.is_met))
    return replace(
        translation,
        terms=len(checks),
        missing_terms=missing,
        warnings=(*translation.warnings, *(f"not translated as in the glossary: {one}" for one in missing)),
    )


def _with_review(translation: UnitTranslation, review: Review) -> UnitTranslation:
    match review:
        case "warned":
            return replace(translation, needs_review=bool(translation.warnings))
        case "all":
            return replace(translation, needs_review=translation.origin != "copy")
        case "none":
            return translation
