"""Preparation of the texts of a call: their steps, prefixes and constraints."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, TypeVar

from dragoman.data.markup import MarkupRules, parse_inline, split_blocks
from dragoman.data.placeholders.accelerators import remove_accelerator
from dragoman.data.placeholders.icu_messages import find_choices
from dragoman.data.placeholders.rules import AnyPlaceholders, PlaceholderRules
from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import DataError
from dragoman.inference.control.accelerators import AcceleratorStep
from dragoman.inference.control.glossary_terms import (
    GlossaryControl,
    GlossaryMode,
    TextGlossaries,
    build_glossary_control,
)
from dragoman.inference.control.inline_markup import AnyMarkup, MarkupStep, TextMarkup, read_markup
from dragoman.inference.control.pair_aligner import PairAligner
from dragoman.inference.control.placeholders import PlaceholderControl, read_rules
from dragoman.inference.control.prepared_text import PreparedBlocks, PreparedText, TextStep
from dragoman.inference.control.text_constraints import Constraint, TextConstraints
from dragoman.inference.length_batches import text_list
from dragoman.number_words import counted

_T = TypeVar("_T")
TextPlaceholders = AnyPlaceholders | Sequence[AnyPlaceholders | None]
"""Whether the placeholders of all texts are protected, or with which rules; or those of each text."""


class ControlOptions(TypedDict, total=False):
    """Keyword arguments of `Translator.translate` that control the words of translations."""

    target_prefix: str | Sequence[str] | None
    constraints: TextConstraints | None
    glossary: TextGlossaries | None
    glossary_mode: GlossaryMode | None
    markup: TextMarkup | None
    placeholders: TextPlaceholders | None


def control_of_part(control: ControlOptions, first: int, count: int) -> ControlOptions:
    """Return the options for `count` texts of a longer list, from the text number `first`, counted from 0, on."""
    part = control.copy()
    prefixes, constraints = control.get("target_prefix"), control.get("constraints")
    if prefixes is not None and not isinstance(prefixes, str):
        part["target_prefix"] = prefixes[first : first + count]
    if constraints and not isinstance(constraints[0], Constraint):
        part["constraints"] = constraints[first : first + count] or None
    if isinstance(glossary := control.get("glossary"), Sequence):
        part["glossary"] = glossary[first : first + count]
    if (markup := _markup_of_each(control.get("markup"))) is not None:
        part["markup"] = markup[first : first + count]
    if isinstance(placeholders := control.get("placeholders"), Sequence):
        part["placeholders"] = placeholders[first : first + count]
    return part


def check_length(control: ControlOptions, count: int) -> None:
    """Raise DataError where options are for another number of texts than `count`."""
    _read_prefixes(control.get("target_prefix"), count)
    _read_constraints(control.get("constraints"), count)
    if isinstance(glossary := control.get("glossary"), Sequence):
        _one_for_each(glossary, count, "glossary")
    _read_markups(control.get("markup"), count)
    _read_placeholders(control.get("placeholders"), count)


def prepare_texts(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    aligner: PairAligner,
    *,
    target_prefix: str | Sequence[str] | None = None,
    constraints: TextConstraints | None = None,
    glossary: TextGlossaries | None = None,
    glossary_mode: GlossaryMode | None = None,
    markup: TextMarkup | None = None,
    placeholders: TextPlaceholders | None = None,
) -> list[PreparedBlocks]:
    """Return the texts, prepared; `aligner` places their tags.

    Raises DataError where an option is for another number of texts, and on elements nested too deep.
    """
    prefixes = _read_prefixes(target_prefix, len(texts))
    needed = _read_constraints(constraints, len(texts))
    terms = _read_glossaries(glossary, glossary_mode, tokenizer, len(texts))
    rules = _read_markups(markup, len(texts))
    protection = _read_placeholders(placeholders, len(texts))
    prepare = _Preparation(aligner, PlaceholderControl(tokenizer) if any(protection) else None)
    return [
        prepare.blocks(text, own_rules, own_terms, kept, prefix.strip(), tuple(own))
        for text, prefix, own, own_rules, own_terms, kept in zip(
            texts, prefixes, needed, rules, terms, protection, strict=True
        )
    ]


@dataclass(frozen=True, slots=True)
class _Preparation:
    """Settings that the steps of all texts share."""

    aligner: PairAligner
    placeholders: PlaceholderControl | None

    def blocks(
        self,
        original: str,
        rules: MarkupRules | None,
        terms: GlossaryControl | None,
        kept: PlaceholderRules | None,
        prefix: str,
        given: tuple[Constraint, ...],
    ) -> PreparedBlocks:
        """Return a text as prepared blocks; a text without markup, or without blocks, is one."""
        pieces: tuple[str, ...] = ("", original, "")
        if rules is not None and "<" in original:
            split = split_blocks(original, rules)
            pieces = pieces if kept is not None and _cuts_choice(original, split) else split
        prefixes = [prefix, *[""] * len(pieces)]  # only the first block begins with it
        blocks = [
            self._text(block, rules, terms, kept, start, given)
            for block, start in zip(pieces[1::2], prefixes, strict=False)
        ]
        return PreparedBlocks(original, pieces[::2], tuple(blocks))

    def _text(
        self,
        original: str,
        rules: MarkupRules | None,
        terms: GlossaryControl | None,
        kept: PlaceholderRules | None,
        prefix: str,
        given: tuple[Constraint, ...],
    ) -> PreparedText:
        """Return a text with its steps; each changes the text that the step before it has made.

        Tags are taken out first, so that all other steps read words only.
        """
        steps: list[TextStep] = []
        protection = self.placeholders if kept is not None else None
        message = None
        if protection is not None and kept is not None:
            message = protection.message_step(original, kept, markup=rules is not None)
        text, cuts = original, list[int]()
        if rules is not None and message is None:  # the branches of a message are no fragments of markup
            inline = parse_inline(original, rules)
            steps.append(MarkupStep(inline, self.aligner, rules))
            text, cuts = inline.text, inline.cuts
        elif kept is not None and kept.accelerator is not None and rules is None:
            marked = remove_accelerator(original, kept.accelerator)
            if marked is not None:
                steps.append(AcceleratorStep(marked))
                text = marked.text
        if protection is not None and kept is not None:
            step = message or protection.step(text, kept, cuts=cuts, whole_start=bool(prefix))
            prefix = step.prefix(prefix)
            steps.append(step)
            text = step.text
        if terms is not None:
            steps.append(terms.step(text))
        return PreparedText(original, tuple(steps), prefix, given)


def _cuts_choice(original: str, pieces: Sequence[str]) -> bool:
    """Return whether blocks begin or end inside of a choice of an ICU message, whose branches stay together."""
    cuts = list(itertools.accumulate(map(len, pieces)))
    return any(start < cut < end for start, end in find_choices(original) for cut in cuts)


def _one_for_each(given: Sequence[_T], count: int, name: str) -> list[_T]:
    """Return what is given for each of `count` texts. Raises DataError if it is for another number of texts."""
    if len(given) != count:
        raise DataError(f"{counted(count, 'texts')} but {len(given)} of `{name}`; give one for each")
    return list(given)


def _read_prefixes(given: str | Sequence[str] | None, count: int) -> list[str]:
    if given is None or isinstance(given, str):
        return [given or ""] * count
    return _one_for_each(text_list(given, name="target_prefix"), count, "target_prefix")


def _markup_of_each(given: TextMarkup | None) -> Sequence[AnyMarkup | None] | None:
    """Return the markup of each text, None if all texts have the same."""
    return None if given is None or isinstance(given, str | MarkupRules) else given


def _read_markups(given: TextMarkup | None, count: int) -> list[MarkupRules | None]:
    if (each := _markup_of_each(given)) is not None:
        return list(map(read_markup, _one_for_each(each, count, "markup")))
    assert given is None or isinstance(given, str | MarkupRules)
    return [read_markup(given)] * count


def _read_placeholders(given: TextPlaceholders | None, count: int) -> list[PlaceholderRules | None]:
    """Return the rules for the placeholders of each text."""
    if isinstance(given, Sequence):
        return list(map(read_rules, _one_for_each(given, count, "placeholders")))
    return [read_rules(given)] * count


def _read_glossaries(
    given: TextGlossaries | None, mode: GlossaryMode | None, tokenizer: Tokenizer, count: int
) -> list[GlossaryControl | None]:
    """Return what applies the glossary of each text."""
    if not isinstance(given, Sequence):
        return [build_glossary_control(given, mode, tokenizer)] * count
    each = _one_for_each(given, count, "glossary")
    return [None if one is None else build_glossary_control(one, mode, tokenizer) for one in each]


def _read_constraints(given: TextConstraints | None, count: int) -> list[Sequence[Constraint]]:
    """Return the constraints of each text. Raises TypeError where something else is given."""
    shared: list[Constraint] = []
    each: list[Sequence[Constraint]] = []
    for one in given or ():
        if isinstance(one, Constraint):
            shared.append(one)
        elif isinstance(one, Sequence) and all(isinstance(part, Constraint) for part in one):
            each.append(one)
        else:
            raise TypeError(
                f"constraints: {one!r:.60} is no Constraint. Give Constraint(words), or a list for each text."
            )
    if shared and each:
        raise TypeError("constraints has single ones and lists. Give those of all texts, or a list for each text.")
    return _one_for_each(each, count, "constraints") if each else [shared] * count
