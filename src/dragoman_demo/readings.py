"""Forms read in two locales, so chosen that a source has one target. This file needs Babel."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from babel import Locale

from dragoman_demo.forms import Form
from dragoman_demo.text import normal, spaced

Pair = tuple[str, str]


@final
@dataclass(slots=True, eq=False)
class Reading:
    """A form read in two locales, and the forms that now and then write the same source for another target."""

    form: Form
    source: Locale
    target: Locale
    rivals: "list[Reading]" = field(default_factory=list)

    def pair(self, value: Any) -> Pair | None:
        """The value in both locales; None where the CLDR has no text for it, or where a rival contradicts it."""
        pair = self._written(value)
        if pair is None:
            return None
        others = (rival._written(value) for rival in self.rivals)
        return None if any(other is not None and _contradicts(pair, other) for other in others) else pair

    def _written(self, value: Any) -> Pair | None:
        try:
            source = self.form.write(self.source, value).strip()
            target = self.form.write(self.target, value).strip()
        except (LookupError, ValueError, NotImplementedError):  # so Babel answers where the CLDR has a gap
            return None
        return (source, target) if source and target else None


def _contradicts(pair: Pair, other: Pair) -> bool:
    return normal(pair[0]) == normal(other[0]) and spaced(pair[1]) != spaced(other[1])


def consistent(forms: Iterable[Form], source: Locale, target: Locale) -> list[Reading]:
    """The forms that say in the source all that they say in the target, each told what it may be confused with.

    Every form writes its probes. One that writes two values alike in the source and unlike in the target (a year of two
    digits that has four digits elsewhere) is left out, and so is one whose source mostly means something else in a form
    before it. Where two forms differ on few values only (long and short names of months, which are one word in May),
    both stay, and those values are passed over.
    """
    told: dict[str, tuple[str, Reading, Any]] = {}
    kept: list[Reading] = []
    for form in forms:
        reading = Reading(form, source, target)
        written = [(value, pair) for value in form.values.probes if (pair := reading.pair(value))]
        if not written or _forgets(written):
            continue
        rivals = _rivals(reading, written, told)
        if rivals is None:
            continue
        for rival in rivals:
            reading.rivals.append(rival)
            rival.rivals.append(reading)
        kept.append(reading)
        for value, (text, translation) in written:
            told.setdefault(normal(text), (spaced(translation), reading, value))
    return kept


def _forgets(written: Sequence[tuple[Any, Pair]]) -> bool:
    """Whether two values have one source and two targets."""
    targets: dict[str, str] = {}
    return any(targets.setdefault(normal(text), spaced(target)) != spaced(target) for _, (text, target) in written)


def _rivals(
    reading: Reading, written: Sequence[tuple[Any, Pair]], told: dict[str, tuple[str, Reading, Any]]
) -> list[Reading] | None:
    """The forms that contradict this one on less than half of the probes; None where it must give way to them."""
    rivals: dict[Reading, int] = {}
    for value, (text, translation) in written:
        target, other, meaning = told.get(normal(text), (spaced(translation), reading, value))
        if target == spaced(translation):
            continue
        if other.form.values is not reading.form.values or meaning != value:
            return None
        rivals[other] = rivals.get(other, 0) + 1
    return None if 2 * sum(rivals.values()) >= len(written) else list(rivals)
