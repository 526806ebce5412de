"""Forms in which the corpus writes values. The module needs Babel.

Difficult families have more forms and more weight: digits to copy in order, hours of 12 that become hours of 24, and
many words that must each occur often.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

from dragoman_demo import locale_formatting as writers
from dragoman_demo import random_values as values
from dragoman_demo.cldr_codes import CURRENCIES, LANGUAGES, TERRITORIES, UNITS
from dragoman_demo.locale_formatting import DateStyle, ListStyle, NameWidth, TimeUnit, Width, Write
from dragoman_demo.random_values import Values


@final
@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """Writer of one kind of value in any locale; `weight` is its relative frequency within its family."""

    family: str
    values: Values[Any]
    write: Write
    weight: float


def all_forms() -> Iterator[Form]:
    """Yield all forms; of two ambiguous forms, the first is kept."""
    yield from _dates()
    yield from _times()
    yield from _dates_with_times()
    yield from _weekdays()
    yield from _intervals()
    yield from _numbers()
    yield from _money()
    yield from _units()
    yield from _durations()
    yield from _lists()


_DATE_STYLES: dict[DateStyle, int] = {"full": 4, "long": 3, "medium": 3, "short": 1}
_TIME_STYLES: tuple[DateStyle, ...] = ("short", "medium")
_DATES = {"yMMMEd": 3, "yMd": 4, "yMEd": 2, "yMMMd": 2, "GyMMMd": 1}
_PARTS_OF_DATES = ("yMMMM", "yMMM", "yM", "MMMMd", "MMMd", "MMMEd", "MEd", "yQQQQ", "yQQQ")
_DATE_INTERVALS = ("yMMMd", "yMMMEd", "yMd", "MMMd", "yMMM")
_NAME_WIDTHS: tuple[NameWidth, ...] = ("wide", "abbreviated")
_LISTS: tuple[ListStyle, ...] = ("standard", "or")
_UNIT_WIDTHS: dict[Width, float] = {"long": 3, "short": 1, "narrow": 0.5}
_DURATIONS = {
    ("hour", "minute"): (23, 59),
    ("minute", "second"): (59, 59),
    ("hour", "minute", "second"): (23, 59, 59),
    ("day", "hour"): (30, 23),
    ("week", "day"): (12, 6),
    ("year", "month"): (30, 11),
}
_RELATIVE: dict[TimeUnit, int] = {"second": 59, "minute": 59, "hour": 23, "day": 6, "week": 3, "month": 11, "year": 99}


def _dates() -> Iterator[Form]:
    for style, weight in _DATE_STYLES.items():
        yield Form("date", values.MOMENTS, writers.date(style), weight)
    for fields, weight in _DATES.items():
        yield Form("date", values.MOMENTS, writers.skeleton(fields), weight)
    for fields in _PARTS_OF_DATES:
        yield Form("date", values.MOMENTS, writers.skeleton(fields), 0.7)


def _times() -> Iterator[Form]:
    yield Form("time", values.MOMENTS, writers.time("short"), 2)
    yield Form("time", values.MOMENTS, writers.time("medium"), 2)
    yield Form("time", values.ZONED_MOMENTS, writers.time("full"), 2)


def _dates_with_times() -> Iterator[Form]:
    for date_style in _DATE_STYLES:
        for time_style in _TIME_STYLES:
            write = writers.together(writers.date(date_style), writers.time(time_style))
            yield Form("date-time", values.MOMENTS, write, 1)


def _weekdays() -> Iterator[Form]:
    yield Form("weekday", values.MOMENTS, writers.together(writers.weekday("wide"), writers.time("short")), 3)
    yield Form("weekday", values.MOMENTS, writers.together(writers.weekday("abbreviated"), writers.time("medium")), 2)
    days = values.names_of(tuple(map(str, range(7))), most=4)
    for width in _NAME_WIDTHS:
        for style in _LISTS:
            yield Form("weekday", days, writers.listed(writers.weekday_name(width), style), 0.7)


def _intervals() -> Iterator[Form]:
    for fields in _DATE_INTERVALS:
        yield Form("interval", values.DAY_SPANS, writers.interval(fields), 1)
    yield Form("interval", values.HOUR_SPANS, writers.interval("jm"), 2)


def _numbers() -> Iterator[Form]:
    yield Form("number", values.NUMBERS, writers.decimal, 5)
    yield Form("number", values.SHARES, writers.percent, 2)
    yield Form("number", values.NUMBERS, writers.scientific, 1)
    yield Form("number", values.ROUND_NUMBERS, writers.compact("long"), 1.5)
    yield Form("number", values.ROUND_NUMBERS, writers.compact("short"), 1.5)


def _money() -> Iterator[Form]:
    yield Form("money", values.PRICES, writers.amount("standard"), 4)
    yield Form("money", values.PRICES, writers.amount("name"), 4)
    yield Form("money", values.WHOLE_PRICES, writers.whole_amount("standard"), 2)
    yield Form("money", values.WHOLE_PRICES, writers.whole_amount("name"), 2)
    yield Form("money", values.DEBTS, writers.amount("accounting"), 1)
    yield Form("money", values.FORTUNES, writers.compact_amount, 1)


def _units() -> Iterator[Form]:
    for unit in UNITS:
        for width, weight in _UNIT_WIDTHS.items():
            yield Form("unit", values.COUNTS, writers.measure(unit, width), weight)
    yield Form("rate", values.RATES, writers.rate("long"), 3)
    yield Form("rate", values.RATES, writers.rate("short"), 1)


def _durations() -> Iterator[Form]:
    for parts, limits in _DURATIONS.items():
        lengths = values.within(*limits)
        for width in _UNIT_WIDTHS:
            yield Form("duration", lengths, writers.duration(parts, width), 2 if width == "long" else 1)
    for unit, limit in _RELATIVE.items():
        distances = values.within(limit)
        for sign in (1, -1):
            for width in _UNIT_WIDTHS:
                yield Form("duration", distances, writers.relative(unit, sign, width), 0.5)


def _lists() -> Iterator[Form]:
    territories, languages = values.names_of(TERRITORIES, most=3), values.names_of(LANGUAGES, most=3)
    currencies = values.names_of(CURRENCIES, most=3)
    months = values.names_of(tuple(map(str, range(1, 13))), most=3)
    for style in _LISTS:
        yield Form("list", territories, writers.listed(writers.territory, style), 2)
        yield Form("list", languages, writers.listed(writers.language, style), 1.5)
        yield Form("list", currencies, writers.listed(writers.currency, style), 1)
        for width in _NAME_WIDTHS:
            yield Form("list", months, writers.listed(writers.month_name(width), style), 0.5)
