"""Forms in two locales, chosen so that each source has one target. The module needs Babel."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from babel import Locale

from dragoman_demo.normalized_comparison import normal, spaced
from dragoman_demo.phrase_templates import Form

Pair = tuple[str, str]


@final
@dataclass(slots=True, eq=False)
class Reading:
    """Form in two locales, and the forms that sometimes write the same source for another target."""

    form: Form
    source: Locale
    target: Locale
    rivals: "list[Reading]" = field(default_factory=list)

    def pair(self, value: Any) -> Pair | None:
        """Return the value in both locales, or None if the CLDR has no text for it or a rival contradicts it."""
        pair = self._written(value)
        if pair is None:
            return None
        others = (rival._written(value) for rival in self.rivals)
        return None if any(other is not None and _contradicts(pair, other) for other in others) else pair

    def _written(self, value: Any) -> Pair | None:
        try:
            source = self.form.write(self.source, value).strip()
            target = self.form.write(self.target, value).strip()
        except (LookupError, ValueError, NotImplementedError):  # raised by Babel for gaps in the CLDR
            return None
        return (source, target) if source and target else None


def _contradicts(pair: Pair, other: Pair) -> bool:
    return normal(pair[0]) == normal(other[0]) and spaced(pair[1]) != spaced(other[1])


def consistent(forms: Iterable[Form], source: Locale, target: Locale) -> list[Reading]:
    """Return the forms whose source determines the target, each with its rivals.

    Every form writes its probes. A form with one source for two different targets (a year of two digits that has four
    digits elsewhere) is left out, and so is a form whose sources mostly mean something else in an earlier form. If two
    forms contradict each other on few values only (long and short names of months, equal in May), both stay, and these
    values are skipped.
    """
    known: dict[str, tuple[str, Reading, Any]] = {}
    kept: list[Reading] = []
    for form in forms:
        reading = Reading(form, source, target)
        written = [(value, pair) for value in form.values.probes if (pair := reading.pair(value))]
        if not written or _is_ambiguous(written):
            continue
        rivals = _rivals(reading, written, known)
        if rivals is None:
            continue
        for rival in rivals:
            reading.rivals.append(rival)
            rival.rivals.append(reading)
        kept.append(reading)
        for value, (text, translation) in written:
            known.setdefault(normal(text), (spaced(translation), reading, value))
    return kept


def _is_ambiguous(written: Sequence[tuple[Any, Pair]]) -> bool:
    """Return whether two values have one source and two targets."""
    targets: dict[str, str] = {}
    return any(targets.setdefault(normal(text), spaced(target)) != spaced(target) for _, (text, target) in written)


def _rivals(
    reading: Reading, written: Sequence[tuple[Any, Pair]], known: dict[str, tuple[str, Reading, Any]]
) -> list[Reading] | None:
    """Return the forms that contradict this form on less than half of the probes, or None to leave it out."""
    rivals: dict[Reading, int] = {}
    for value, (text, translation) in written:
        target, other, meaning = known.get(normal(text), (spaced(translation), reading, value))
        if target == spaced(translation):
            continue
        if other.form.values is not reading.form.values or meaning != value:
            return None
        rivals[other] = rivals.get(other, 0) + 1
    return None if 2 * sum(rivals.values()) >= len(written) else list(rivals)
