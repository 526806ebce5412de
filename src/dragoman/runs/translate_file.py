"""Translation of files: their units in batches, translation memories, and a report of what was done."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dragoman.data.documents.document import Document, Markup, Unit, UnitTranslation
from dragoman.data.documents.line_breaks import Paragraph, cut_lines, has_letters, join_lines
from dragoman.data.documents.translation_memory import TranslationMemory
from dragoman.data.markup import MarkupRules
from dragoman.data.placeholders.icu_messages import IcuMessage
from dragoman.data.placeholders.recognition import find_placeholders
from dragoman.data.placeholders.rules import PlaceholderRules
from dragoman.data.readers.parallel import read_corpus
from dragoman.data.readers.recognize_format import recognize_pairs
from dragoman.data.terminology.consistent_terms import choose_words, with_choices
from dragoman.data.terminology.glossary import Glossary
from dragoman.data.terminology.target_forms import check_terms
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import collect_text_warnings
from dragoman.inference.control.inline_markup import MarkupWarning
from dragoman.inference.translation_options import StreamOptions
from dragoman.inference.translation_result import TranslationResult
from dragoman.inference.translator import Translator
from dragoman.runs.file_placeholders import count_placeholders, placeholder_warnings, unit_rules, without_accelerator
from dragoman.runs.preceding_texts import preceding_texts, texts_with_context

Selection = Literal["untranslated", "needs_review", "all"]
"""Units that are translated: those without a translation; also those whose translation needs review; all but final."""
Review = Literal["warned", "all", "none"]
"""Translations that the file marks for review: those with warnings, all, or none."""


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


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """One unit of the report."""

    key: str
    line: int | None
    source: str
    translation: str
    origin: str
    """`machine`, `memory`, `fuzzy_memory`, or `copy` of a text without letters."""
    needs_review: bool
    warnings: tuple[str, ...] = ()
    similarity: float | None = None
    """Similarity of the source in the memory."""
    confidence: float | None = None
    """Confidence of the model in the part that it is least sure of."""
    placeholders: int = 0
    """Placeholders in the source."""
    terms: int = 0
    """Terms of the glossary in the source."""
    missing_terms: tuple[str, ...] = ()
    """Those that the translation lacks, or has in a forbidden form."""


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


@dataclass(slots=True)
class FileReport:
    """What was translated in a file."""

    format: str
    units: int
    segments: list[SegmentReport] = field(default_factory=list)
    """Translated units, in the order of the file."""
    term_choices: list[TermReport] = field(default_factory=list)
    """Terms for which the glossary has several words."""

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of units and words, by what was done with them."""
        origins = Counter(one.origin for one in self.segments)
        return {
            "units": self.units,
            "translated": len(self.segments),
            "kept": self.units - len(self.segments),
            "words": sum(len(one.source.split()) for one in self.segments),
            "placeholders": sum(one.placeholders for one in self.segments),
            "terms": sum(one.terms for one in self.segments),
            "missing_terms": sum(len(one.missing_terms) for one in self.segments),
            "inconsistent_terms": sum(one.inconsistent for one in self.term_choices),
            "machine": origins["machine"],
            "memory": origins["memory"],
            "fuzzy_memory": origins["fuzzy_memory"],
            "copied": origins["copy"],
            "needs_review": sum(one.needs_review for one in self.segments),
            "with_warnings": sum(bool(one.warnings) for one in self.segments),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        choices = [asdict(one) for one in self.term_choices]
        segments = [asdict(one) for one in self.segments]
        return {"format": self.format, **self.counts, "term_choices": choices, "segments": segments}


@dataclass(frozen=True, slots=True)
class FileTranslation:
    """Translated file and its report."""

    content: bytes
    report: FileReport


@dataclass(slots=True)
class _Work:
    """Text that is translated once for all units that have it."""

    paragraphs: tuple[Paragraph, ...]
    results: list[TranslationResult] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.paragraphs if one.text]

    @property
    def translation(self) -> str:
        found = iter(self.results)
        return join_lines(self.paragraphs, [next(found).text if one.text else "" for one in self.paragraphs])


_Key = tuple[Markup | None, str, PlaceholderRules | None, tuple[str, ...]]
"""Markup and text of a unit, rules of its placeholders, and the texts before it that the model reads."""
Progress = Callable[[Iterator[TranslationResult], int], Iterable[TranslationResult]]
"""Shows the progress of an iterator, of which the number of items is given."""


def translate_file(
    translator: Translator,
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
    chosen = [number for number, unit in enumerate(document.units) if _is_selected(unit, options.only)]
    units = document.units
    given = (stream_options or {}).get("placeholders")
    rules = unit_rules(document, None if isinstance(given, Sequence) else given, options.target_language)
    before = preceding_texts(document, translator.tokenizer, stream_options or {})
    found = {number: _without_model(units[number], rules[number], options) for number in chosen}
    done = {number: one for number, one in found.items() if one is not None}
    keys: dict[int, _Key] = {
        number: (units[number].markup, units[number].source, rules[number], before[number] if before else ())
        for number in chosen
        if number not in done
    }
    work: dict[_Key, _Work] = {}
    for number, key in keys.items():
        work.setdefault(key, _Work(_cut(units[number])))
    context: Literal["previous"] | None = None if before is None else "previous"
    searching: StreamOptions = {**(stream_options or {}), "context": context}
    _run(translator, work, config, searching, progress)
    choices = _make_consistent(translator, work, config, searching) if options.consistent_terms else []
    for number, key in keys.items():
        done[number] = _from_model(units[number], work[key], rules[number], options)
    if isinstance(glossary := (stream_options or {}).get("glossary"), Glossary):
        done = {number: _with_terms(one, units[number], glossary, options) for number, one in done.items()}
    translations = [_as_translation(done[number]) if number in done else None for number in range(len(units))]
    report = FileReport(document.format, len(units), [done[number] for number in chosen], choices)
    return FileTranslation(document.fill(translations), report)


def read_memory(paths: Sequence[Path]) -> TranslationMemory:
    """Return the pairs of TMX, XLIFF or PO files, or others that are parallel corpora; later files count more."""
    corpora = (recognize_pairs(path) for path in paths)
    return TranslationMemory((one.source, one.target) for corpus in corpora for one in read_corpus(corpus))


def _is_selected(unit: Unit, only: Selection) -> bool:
    match only:
        case "untranslated":
            return unit.state == "untranslated"
        case "needs_review":
            return unit.state in ("untranslated", "needs_review")
        case "all":
            return unit.state != "final"


def _cut(unit: Unit) -> tuple[Paragraph, ...]:
    """Return the paragraphs of a unit; markup and ICU messages stay whole, so that nothing is cut from their ends."""
    if unit.markup is None and IcuMessage.parse(unit.source) is None:
        return cut_lines(unit.source)
    inner = unit.source.strip()
    place = unit.source.index(inner)
    return (Paragraph(inner, unit.source[:place], unit.source[place + len(inner) :]),)


def _without_model(unit: Unit, rules: PlaceholderRules | None, options: FileOptions) -> SegmentReport | None:
    """Return the translation of a unit that needs no model."""
    if not _is_text(unit, rules):
        return _report(unit, unit.source, "copy", rules, options)
    match = options.memory.find(unit.source, options.memory_threshold) if options.memory is not None else None
    if match is None:
        return None
    start = unit.source[: len(unit.source) - len(unit.source.lstrip())]
    end = unit.source[len(unit.source.rstrip()) :]
    origin = "memory" if match.similarity == 1.0 else "fuzzy_memory"
    warnings = () if origin == "memory" else (f"translation of a similar text: {match.source}",)
    return _report(
        unit,
        f"{start}{match.target.strip()}{end}",
        origin,
        rules,
        options,
        warnings=warnings,
        similarity=match.similarity,
    )


def _is_text(unit: Unit, rules: PlaceholderRules | None) -> bool:
    """Return whether a unit has letters besides its placeholders and tags."""
    source = without_accelerator(unit.source, unit, rules)
    text, end, words = _TAG.sub(" ", source) if unit.markup is not None else source, 0, ""
    for one in find_placeholders(text, markup=unit.markup is not None):
        words, end = words + text[end : one.start], one.end
    return has_letters(words + text[end:])


_TAG = re.compile(r"<[^<>]*>")
_MARKUP: dict[Markup | None, MarkupRules | None] = {
    None: None,
    "html": MarkupRules("html"),
    "xml": MarkupRules("xml", outline_detection=False),  # codes next to no text are inline, too
}
"""Rules for the markup of units."""


def _run(
    translator: Translator,
    work: dict[_Key, _Work],
    config: DecodingConfig | None,
    stream_options: StreamOptions,
    progress: Progress,
) -> None:
    """Translate all texts in one stream."""
    jobs = [one for one in work.values() for _ in one.texts]
    texts = (text for one in work.values() for text in one.texts)
    markup = [_MARKUP[kind] for (kind, *_), one in work.items() for _ in one.texts]
    if any(markup):
        stream_options = {**stream_options, "markup": markup}
    placeholders = [rules for (_, _, rules, _), one in work.items() for _ in one.texts]
    stream_options = {**stream_options, "placeholders": placeholders if any(placeholders) else None}
    if stream_options["context"] is not None:
        context = [own for (*_, before), one in work.items() for own in texts_with_context(one.texts, before)]
        stream_options["context"] = context
    results = translator.translate_stream(texts, config, **stream_options)
    with collect_text_warnings() as found:
        for job, result in zip(jobs, progress(results, len(jobs)), strict=True):
            job.results.append(result)
            job.warnings += result[0].markup_problems
    for warning in found:
        if isinstance(warning, MarkupWarning):
            continue  # its problems are there already
        jobs[warning.number - 1].warnings.append(warning.message)


def _make_consistent(
    translator: Translator, work: dict[_Key, _Work], config: DecodingConfig | None, stream_options: StreamOptions
) -> list[TermReport]:
    """Translate texts again whose words for terms are not those of most texts; a text that still has them stays."""
    glossary = stream_options.get("glossary")
    if not isinstance(glossary, Glossary) or stream_options.get("glossary_mode") == "annotated":
        return []
    keys = list(work)
    choices = choose_words(glossary, [_plain_pair(key, work[key]) for key in keys])
    places = {place for choice in choices for place in choice.others}
    again = {key: _Work(work[key].paragraphs) for place, key in enumerate(keys) if place in places}
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
    markup, source, *_ = key
    return (source, work.translation) if markup is None else (_TAG.sub("", source), _TAG.sub("", work.translation))


def _from_model(unit: Unit, work: _Work, rules: PlaceholderRules | None, options: FileOptions) -> SegmentReport:
    problems = [problem for result in work.results for problem in result[0].markup_problems]
    qualities = [result[0].quality for result in work.results]
    issues = [one.message for quality in qualities for one in quality.warnings if one.kind not in _WARNED]
    return replace(
        _report(
            unit,
            work.translation,
            "machine",
            rules,
            options,
            warnings=tuple(dict.fromkeys([*work.warnings, *issues, *problems])),
        ),
        confidence=min((one.confidence for one in qualities), default=None),
    )


_WARNED = ("cut_off", "unmet")
"""Kinds of issues about which the translator warns."""


def _report(
    unit: Unit,
    text: str,
    origin: str,
    rules: PlaceholderRules | None,
    options: FileOptions,
    *,
    warnings: tuple[str, ...] = (),
    similarity: float | None = None,
) -> SegmentReport:
    if unit.max_length is not None and len(text) > unit.max_length:
        warnings = (*warnings, f"longer than {unit.max_length} characters")
    warnings += tuple(placeholder_warnings(unit, text, rules))
    match options.review:
        case "warned":
            needs_review = bool(warnings)
        case "all":
            needs_review = origin != "copy"
        case "none":
            needs_review = False
    return SegmentReport(
        unit.key,
        unit.line,
        unit.source,
        text,
        origin,
        needs_review,
        warnings,
        similarity,
        placeholders=count_placeholders(unit.source, unit, rules).total(),
    )


def _with_terms(segment: SegmentReport, unit: Unit, glossary: Glossary, options: FileOptions) -> SegmentReport:
    """Return the report of a unit with the terms of its source, and a warning of each that is missing."""
    source, text = (one if unit.markup is None else _TAG.sub("", one) for one in (segment.source, segment.translation))
    checks = check_terms(glossary, source, text)
    missing = tuple(dict.fromkeys(one.match.text for one in checks if not one.is_met))
    return replace(
        segment,
        terms=len(checks),
        missing_terms=missing,
        warnings=(*segment.warnings, *(f"not translated as in the glossary: {one}" for one in missing)),
        needs_review=segment.needs_review or (options.review == "warned" and bool(missing)),
    )


def _as_translation(segment: SegmentReport) -> UnitTranslation:
    match segment.origin:
        case "memory":
            return UnitTranslation(text=segment.translation, needs_review=segment.needs_review, origin="memory")
        case "fuzzy_memory":
            return UnitTranslation(text=segment.translation, needs_review=segment.needs_review, origin="fuzzy_memory")
        case _:
            return UnitTranslation(text=segment.translation, needs_review=segment.needs_review)
