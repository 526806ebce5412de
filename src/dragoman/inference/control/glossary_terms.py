"""Terms of a glossary in translations: required, preferred, or written into the source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, final, get_args

from dragoman.data.terminology.annotation import Annotation, annotate_terms
from dragoman.data.terminology.glossary import Glossary, Term
from dragoman.data.terminology.matching import TermMatch
from dragoman.data.terminology.target_forms import (
    find_phrases,
    forbidden_forms,
    has_phrase,
    lacks_plural,
    required_forms,
)
from dragoman.data.terminology.word_units import has_words
from dragoman.data.tokenizers import LanguageTokenizer, Tokenizer
from dragoman.data.tokenizers.reserved_symbols import TERM_SYMBOLS, has_reserved_symbols, remove_reserved_symbols
from dragoman.decoding.constraints import PhraseKind
from dragoman.errors import ConfigError, shorten
from dragoman.inference.control.term_places import SourceTerm
from dragoman.inference.control.text_constraints import MAX_CONSTRAINTS, MAX_FORMS, Constraint
from dragoman.inference.translation_result import Translation
from dragoman.models.special_symbols import UNK

GlossaryMode = Literal["hard", "soft", "annotated"]
"""How a translation gets its terms.

The search meets them (`hard`), prefers translations with them (`soft`), or the model reads them in the source
(`annotated`) and was trained to use them.
"""
AnyGlossary = Glossary | Mapping[str, str]
"""Glossary, or source phrases with their translations."""
TextGlossaries = AnyGlossary | Sequence[AnyGlossary | None]
"""Glossary of all texts, or one or none for each text."""
MAX_TERMS = MAX_CONSTRAINTS - 12
"""Constraints by the terms of a segment; some are left for other constraints."""


@final
class GlossaryControl:
    """Applies a glossary to the texts of a call."""

    def __init__(self, glossary: Glossary, mode: GlossaryMode, tokenizer: Tokenizer) -> None:
        """Raises ConfigError for the mode `annotated` if the model was not trained with terms."""
        if mode == "annotated" and not has_reserved_symbols(tokenizer.source, TERM_SYMBOLS):
            raise ConfigError(
                "glossary_mode = annotated: this model was not trained with terms in its sources, as "
                "data.augmentation.terminology does. Choose hard or soft."
            )
        self.glossary = glossary
        self.mode = mode
        self._find = lru_cache(maxsize=64)(glossary.find)
        self._can_write = lru_cache(maxsize=2**14)(lambda form: _can_write(tokenizer.target, form))

    def step(self, text: str) -> "GlossaryStep":
        """Return the step of a text."""
        if self.mode != "annotated":
            return GlossaryStep(text, self, tuple(self._find(text)))
        plain = remove_reserved_symbols(text, TERM_SYMBOLS)
        matches = tuple(self._find(plain))
        found = ((match, required_forms(match)) for match in matches)
        terms = [Annotation(match.start, match.end, forms[0]) for match, forms in found if forms]
        return GlossaryStep(annotate_terms(plain, terms) if terms else plain, self, matches)

    def constraints(self, segment: str) -> list[Constraint]:
        """Return the constraints of the terms of a segment, each once."""
        return [*self.required(segment), *self.forbidden(segment)][:MAX_TERMS]

    def required(self, segment: str) -> list[Constraint]:
        """Return the constraints on the terms of a segment that are required or preferred, each once."""
        if self.mode == "annotated":
            return []
        kind: PhraseKind = "preferred" if self.mode == "soft" else "required"
        forms = dict.fromkeys(term.forms for term in self.source_terms(segment))
        return [Constraint(some, kind=kind) for some in forms][:MAX_TERMS]

    def forbidden(self, segment: str) -> list[Constraint]:
        """Return the constraints on forms that are forbidden in the translation of a segment, each once."""
        forbidden = [forbidden_forms(match) for match in self._find(segment)]
        forbidden.append(self.glossary.always_forbidden)
        found = dict.fromkeys(form for forms in forbidden for form in forms if self._can_write(form))
        return [Constraint((form,), kind="forbidden") for form in found][:MAX_TERMS]

    def without_plural(self, segment: str) -> frozenset[str]:
        """Return the names of the constraints on plurals of a segment for which the glossary has no plural."""
        return frozenset(" or ".join(self._writable(match)) for match in self._find(segment) if lacks_plural(match))

    def replace_symbols(self, source: str, translation: str) -> str:
        """Return a translation with the targets of terms that are symbols, such as `→`, in place of the symbols."""
        symbols = [match for match in self._find(source) if not has_words(match.text)] if self.mode == "hard" else []
        for match in symbols:
            if forms := required_forms(match):
                for start, end in reversed(find_phrases(translation, [match.text])):
                    translation = translation[:start] + forms[0] + translation[end:]
        return translation

    def source_terms(self, segment: str) -> list[SourceTerm]:
        """Return the terms of a segment with the forms that the model can write, without symbols."""
        found = ((match, self._writable(match)) for match in self._find(segment) if has_words(match.text))
        return [SourceTerm(match.start, match.end, forms) for match, forms in found if forms]

    def translation(self, segment: str) -> str | None:
        """Return the translation of a segment that is a term and nothing else; None unless it has one form.

        It begins with a capital letter where the segment does. A variant has no known translation: it is a plural.
        """
        if self.mode != "hard" or len(matches := self._find(segment)) != 1:
            return None
        [match] = matches
        forms = {form for term in match.terms for form in ((match.text,) if term.is_untranslated else term.targets)}
        if match.text != segment.strip() or match.is_variant or len(forms) != 1:
            return None
        [form] = forms
        capital = form[0].upper() + form[1:]
        chosen = capital if match.text[0].isupper() and capital in required_forms(match) else form
        return chosen if self._can_write(chosen) and not has_phrase(chosen, self.glossary.always_forbidden) else None

    def missing(self, segment: str, translation: str) -> list[str]:
        """Return the terms that the translation of a segment lacks though no constraint demands them.

        The model cannot write them, or the segment has more than `MAX_TERMS`.
        """
        if self.mode != "hard":
            return []
        forms = dict.fromkeys(required_forms(match) for match in self._find(segment))
        demanded = {one.texts for one in self.constraints(segment)}
        unmet = (some for some in forms if some and self._only_writable(some) not in demanded)
        return list(dict.fromkeys(some[0] for some in unmet if not has_phrase(translation, some)))

    def _writable(self, match: TermMatch[Term]) -> tuple[str, ...]:
        return self._only_writable(required_forms(match))

    def _only_writable(self, forms: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(filter(self._can_write, forms))[:MAX_FORMS]


@final
@dataclass(frozen=True, slots=True)
class GlossaryStep:
    """Terms of a text, as constraints on its translation or written into it."""

    text: str
    """The text as the model reads it."""
    control: GlossaryControl
    matches: tuple[TermMatch[Term], ...]
    """Terms of the text."""

    def constraints(self, segment: str) -> Sequence[Constraint]:
        """Return the constraints on the translation of a segment."""
        return self.control.constraints(segment)

    def forbidden(self, segment: str) -> Sequence[Constraint]:
        """Return the constraints on forbidden forms in the translation of a segment."""
        return self.control.forbidden(segment)

    def translation(self, segment: str) -> str | None:
        """Return the translation of a segment that is a term and nothing else."""
        return self.control.translation(segment)

    def restore(self, translation: Translation) -> Translation:
        """Return the translation without symbols of terms, with the terms that could not be demanded as unmet."""
        text = translation.text
        if not text.isascii() and any(symbol in text for symbol in TERM_SYMBOLS):
            text = " ".join("".join(" " if character in TERM_SYMBOLS else character for character in text).split())
        replaced = self.control.replace_symbols
        text = replaced(self.text, text)
        parts = ((source, replaced(source, output)) for source, output in translation.parts)
        missing = (name for part in parts for name in self.control.missing(*part))
        inflected = {name for source, _ in translation.parts for name in self.control.without_plural(source)}
        plurals = [f"{match.text} (no plural in the glossary)" for match in self.matches if lacks_plural(match)]
        given = [name for name in translation.unmet if name not in inflected]
        unmet = tuple(dict.fromkeys([*given, *missing, *(plurals if self.control.mode == "hard" else ())]))
        return replace(translation, text=text, unmet=unmet, terms=self.matches)


def build_glossary_control(
    glossary: AnyGlossary | None, mode: GlossaryMode | None, tokenizer: Tokenizer
) -> GlossaryControl | None:
    """Return what applies a glossary, or the glossary of a mapping of source to target phrases; None without one.

    Raises ConfigError on a mode without glossary, and on an unknown mode.
    """
    if glossary is None:
        if mode is not None:
            raise ConfigError(f"glossary_mode = {mode} has no effect without a glossary. Leave it out.")
        return None
    if not isinstance(glossary, Glossary):
        if not isinstance(glossary, Mapping):
            raise TypeError(f"glossary = {glossary!r:.60} is no Glossary. Give one, or a mapping of phrases.")
        glossary = Glossary.from_pairs(glossary)
    if mode is not None and mode not in get_args(GlossaryMode):
        raise ConfigError(f"glossary_mode = {shorten(mode)} is unknown. Choose hard, soft or annotated.")
    return GlossaryControl(glossary, mode or "hard", tokenizer)


def _can_write(tokenizer: LanguageTokenizer, form: str) -> bool:
    ids = tokenizer.encode(form)
    return bool(ids) and UNK not in ids
