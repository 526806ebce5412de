"""Placeholders in translations: stand-ins in the text that the model reads, and a check of what it writes.

A text is translated with stand-ins first. A segment whose translation lacks or repeats one is translated again, by a
search that must write each of them exactly once; the first search is faster, and mostly better where it succeeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from dragoman.data.documents.plural_categories import plural_categories
from dragoman.data.placeholders.icu_messages import IcuMessage, Leaf, find_choices, unquote_text
from dragoman.data.placeholders.recognition import Placeholder, find_placeholders
from dragoman.data.placeholders.rules import AnyPlaceholders, PlaceholderRules
from dragoman.data.placeholders.stand_ins import (
    ProtectedText,
    RestoredText,
    Slot,
    are_in_place,
    find_between,
    find_stand_in,
    protect_placeholders,
    protect_prefix,
    restore_placeholders,
    trace_part,
)
from dragoman.data.tokenizers import Tokenizer
from dragoman.data.tokenizers.reserved_symbols import PLACEHOLDER_SYMBOLS, has_reserved_symbols
from dragoman.errors import ConfigError
from dragoman.inference.control.text_constraints import Constraint
from dragoman.inference.control.unreadable_words import find_unreadable
from dragoman.inference.translation_result import Translation
from dragoman.models.special_symbols import UNK

PART_BREAK: Final = "\u2028"
"""Line separator between the sentences of an ICU message, which are translated one by one."""
_NUMBERS: Final = tuple(
    sorted((str(number) for number in range(3079, 9973, 47) if len(set(str(number))) == 4), key=lambda one: one[::-1])
)
"""Stand-ins that models copy most reliably: numbers of four different digits, which are no years."""
_NAMES: Final = ("X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8", "Kowalski", "Nakamura", "Lindgren", "Petrov")
"""Stand-ins for vocabularies without digits."""
_DEFAULT_RULES: Final = PlaceholderRules()
_OPENING: Final = "([{\"'“‘«"


@final
class PlaceholderControl:
    """Protects the placeholders of the texts of a call."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Find the stand-ins that the model can write."""
        self._source = tokenizer.source
        reserved = PLACEHOLDER_SYMBOLS if _has_symbols(tokenizer) else ()
        self.written = _writable(tokenizer, (*reserved, *_NUMBERS)) or _writable(tokenizer, _NAMES)
        """Stand-ins, and what the model writes for each."""
        self._target = tokenizer.target

    def can_write(self, text: str) -> bool:
        """Return whether the model has tokens for a text."""
        return UNK not in self._target.encode(text)

    def message_step(self, text: str, rules: PlaceholderRules, *, markup: bool) -> "PlaceholderStep | None":
        """Return the step of an ICU message, whose tags are placeholders; None if the text is no message.

        A fragment of `markup` is a message if it has a choice. Raises ConfigError if the model can write no stand-in.
        """
        message = _parse_message(text, rules, markup=markup)
        if message is None:
            return None
        self._require_stand_ins(text)
        parts = tuple(_protect_leaf(leaf, list(self.written)) for leaf in message.leaves)
        return PlaceholderStep(text, parts, self, message, (text,))

    def step(
        self,
        text: str,
        rules: PlaceholderRules = _DEFAULT_RULES,
        *,
        cuts: Sequence[int] = (),
        whole_start: bool = False,
    ) -> "PlaceholderStep":
        """Return the step of a text without its tags, which stand at the characters `cuts`.

        With `whole_start`, the translation begins with the first word, whatever precedes it. Raises ConfigError if the
        model can write no stand-in for a placeholder of the text.
        """
        found = find_between(text, cuts, _with_choices)
        names = tuple(one.text for one in found)
        if found:
            self._require_stand_ins(text)
        if self.written:
            unreadable = find_unreadable(text, found, self._source, cuts=cuts)
            found = sorted([*found, *unreadable], key=lambda one: one.start)
        protected = protect_placeholders(
            text,
            list(self.written),
            cuts=cuts,
            placeholders=found,
            numbering=rules.numbering,
            whole_start=whole_start,
        )
        return PlaceholderStep(text, (protected,), self, None, names)

    def _require_stand_ins(self, text: str) -> None:
        if not self.written:
            raise ConfigError(
                f"placeholders: this model can write neither digits nor letters in place of those of {text!r:.60}. "
                "Leave the option out."
            )


@final
@dataclass(frozen=True, slots=True)
class PlaceholderStep:
    """Text with stand-ins, or the sentences of an ICU message with stand-ins."""

    original: str
    """The text with its placeholders."""
    parts: tuple[ProtectedText, ...]
    control: PlaceholderControl
    message: IcuMessage | None = None
    names: tuple[str, ...] = ()
    """Placeholders of the text, or the message."""

    @property
    def text(self) -> str:
        """The text as the next step, or the model, reads it."""
        return PART_BREAK.join(part.text for part in self.parts)

    def prefix(self, text: str) -> str:
        """Return the beginning of a translation with stand-ins.

        Raises ConfigError where it has other placeholders than the text.
        """
        protected = protect_prefix(self.parts[0], text, written=self._written(self.parts[0].slots))
        if unknown := find_placeholders(protected):
            raise ConfigError(
                f"target_prefix has the placeholder {unknown[0].text!r:.60}, which the text does not have, or not at "
                "this place. Leave it out."
            )
        return protected

    def constraints(self, segment: str) -> Sequence[Constraint]:
        """Return the constraints on the translation of a segment: each stand-in exactly once."""
        return [self._constraint(slot) for slot in self._slots(segment)]

    def is_met(self, segment: str, output: str) -> bool:
        """Return whether the translation of a segment has each stand-in once, in an order that is allowed."""
        slots = self._slots(segment)
        return are_in_place(slots, segment, output, written=self._written(slots))

    def restore(self, translation: Translation) -> Translation:
        """Return the translation with its placeholders; `unmet` names those that were put in place by their order.

        Its `trace` says where everything that the model read and wrote stands then.
        """
        texts = translation.text.split(PART_BREAK) if len(self.parts) > 1 else [translation.text]
        restored = [self._restore_part(number, text) for number, text in enumerate(texts)]
        moved = dict.fromkeys(name for name in translation.unmet if name not in self._names())
        moved |= dict.fromkeys(name for one in restored for name in one.moved)
        if self.message is not None:
            whole, trace = self.message.fill([one.text for one in restored]), None
        else:
            whole, trace = restored[0].text, trace_part(self.parts[0], self.original, texts[0], restored[0])
        return replace(translation, text=whole, unmet=tuple(moved), placeholders=self.names, trace=trace)

    def _restore_part(self, number: int, text: str) -> RestoredText:
        part, written = self.parts[number], self._written(self.parts[number].slots)
        if self.message is None:
            return restore_placeholders(part, text, written=written)
        return restore_placeholders(part, text, written=written, escape=self.message.quote(self.message.leaves[number]))

    def _slots(self, segment: str) -> list[Slot]:
        """Return the slots of a segment: those of the sentence of the message that it is a part of."""
        found = {word for word in self.control.written if word in segment and find_stand_in(segment, word)}
        parts = [part for part in self.parts if found <= {slot.stand_in for slot in part.slots}]
        part = next((one for one in parts if segment in one.text), parts[0] if parts else None)
        return [] if part is None else [slot for slot in part.slots if slot.stand_in in found]

    def _written(self, slots: Sequence[Slot]) -> list[str]:
        return [self.control.written[slot.stand_in] for slot in slots]

    def _constraint(self, slot: Slot) -> Constraint:
        """Return the constraint on a stand-in, which may follow the mark that precedes it in the source."""
        word = slot.stand_in
        marked = slot.before + word if slot.before and slot.before in _OPENING else word
        forms = tuple(dict.fromkeys((word, marked if self.control.can_write(marked) else word)))
        # A reserved symbol is a token of its own, wherever it stands; a number may be the beginning of a longer one.
        return Constraint(forms, kind="once", whole_words=word[-1].isalnum())

    def _names(self) -> set[str]:
        """Return the names that constraints on stand-ins have in messages."""
        found = (self._constraint(slot) for part in self.parts for slot in part.slots)
        return {" or ".join(one.texts) for one in found}


def read_rules(given: AnyPlaceholders | None) -> PlaceholderRules | None:
    """Return the rules for placeholders, None where they are not protected."""
    if isinstance(given, PlaceholderRules):
        return given
    return _DEFAULT_RULES if given else None


def _parse_message(text: str, rules: PlaceholderRules, *, markup: bool) -> IcuMessage | None:
    """Return the ICU message of a text, with the plural categories of the translation unless they are too many."""
    if PART_BREAK in text or (markup and not find_choices(text)):
        return None
    language = rules.plural_language
    categories = () if language is None else plural_categories(language) or ()
    return IcuMessage.parse(text, categories) or IcuMessage.parse(text)


def _with_choices(text: str) -> list[Placeholder]:
    """Return the placeholders of a text that is no message; choices that could not be read are some."""
    choices = find_choices(text)
    others = [
        one for one in find_placeholders(text) if all(one.end <= start or end <= one.start for start, end in choices)
    ]
    found = [*others, *(Placeholder("brace", start, end, text[start:end]) for start, end in choices)]
    return sorted(found, key=lambda one: one.start)


def _protect_leaf(leaf: Leaf, stand_ins: Sequence[str]) -> ProtectedText:
    """Return a sentence of an ICU message with stand-ins, as the model reads it: without quoting apostrophes."""
    arguments = [Placeholder("brace", *span, leaf.source[slice(*span)]) for span in leaf.arguments]
    others = [
        one
        for one in find_placeholders(leaf.source)
        if all(one.end <= start or end <= one.start for start, end in leaf.arguments)
    ]
    found = sorted([*arguments, *others], key=lambda one: one.start)
    protected = protect_placeholders(leaf.source, stand_ins, placeholders=found)
    return replace(protected, text=unquote_text(protected.text, in_plural=leaf.in_plural))


def _has_symbols(tokenizer: Tokenizer) -> bool:
    return all(has_reserved_symbols(side, PLACEHOLDER_SYMBOLS) for side in (tokenizer.source, tokenizer.target))


def _writable(tokenizer: Tokenizer, words: Sequence[str]) -> dict[str, str]:
    """Return the words that the model can read and write as one, and what it writes for each."""
    rows = zip(
        words,
        tokenizer.source.encode_batch(list(words)),
        tokenizer.target.encode_batch(list(words)),
        strict=True,
    )
    found: dict[str, str] = {}
    for word, source, target in rows:
        written = tokenizer.target.decode(target)
        if source and target and UNK not in (*source, *target) and written.split() == [written]:
            found[word] = written
    return found if len(set(found.values())) == len(found) else {}
