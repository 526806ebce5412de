"""Writers of values in a locale, by Babel: one function per form and style. The module needs Babel.

A writer returns the text of Babel, except where Babel writes codes instead of text.
"""

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

from babel import Locale, dates, lists, numbers, units

from dragoman_demo.cldr_codes import UNITS
from dragoman_demo.random_values import Moment, Money, Rate, Span

Write = Callable[[Locale, Any], str]
Name = Callable[[Locale, str], str]
Width = Literal["long", "short", "narrow"]
DateStyle = Literal["full", "long", "medium", "short"]
NameWidth = Literal["wide", "abbreviated"]
MoneyStyle = Literal["standard", "accounting", "name"]
ListStyle = Literal["standard", "or", "unit", "unit-short", "unit-narrow"]
TimeUnit = Literal["second", "minute", "hour", "day", "week", "month", "year"]

_SHORT: Width = "short"
_UNIT_LISTS: dict[Width, ListStyle] = {"long": "unit", "short": "unit-short", "narrow": "unit-narrow"}
_UNIT_CODE = re.compile(rf"(?:{'|'.join(sorted({unit.partition('-')[0] for unit in UNITS}))})-[a-z]")
_SECONDS: dict[str, int] = dict(dates.TIMEDELTA_UNITS)


class GapError(LookupError):
    """The CLDR has no text for this value in this locale."""


def date(style: DateStyle) -> Write:
    """Return a writer of dates such as `March 4, 2031`."""
    return lambda locale, moment: dates.format_date(moment, style, locale=locale)


def time(style: DateStyle) -> Write:
    """Return a writer of times such as `5:05:09 PM`, in the zone of the moment."""

    def write(locale: Locale, moment: Moment) -> str:
        return dates.format_time(moment, style, tzinfo=moment.tzinfo, locale=locale)

    return write


def weekday(width: NameWidth) -> Write:
    """`Tuesday`"""
    return lambda locale, moment: dates.get_day_names(width, "format", locale)[moment.weekday()]


def together(day: Write, hour: Write) -> Write:
    """Return a writer of a day and an hour, joined by the locale: `Tuesday, 5:05 PM`."""

    def write(locale: Locale, moment: Moment) -> str:
        pattern = str(dates.get_datetime_format("medium", locale=locale)).replace("'", "")
        return pattern.replace("{0}", hour(locale, moment)).replace("{1}", day(locale, moment))

    return write


def skeleton(fields: str) -> Write:
    """Return a writer of the fields of a moment, named by CLDR letters, in the format of the locale."""
    return lambda locale, moment: dates.format_skeleton(fields, moment, locale=locale)


def interval(fields: str) -> Write:
    """Return a writer of intervals such as `9:05 – 11:30 AM`; the field `j` is the hour of the locale, of 12 or 24."""

    def write(locale: Locale, span: Span) -> str:
        hour = "h" if "h" in locale.time_formats["short"].pattern else "H"
        return dates.format_interval(*span, fields.replace("j", hour), locale=locale)

    return write


def decimal(locale: Locale, number: Decimal) -> str:
    """`-1,234.5`"""
    return numbers.format_decimal(number, locale=locale, numbering_system="default")


def percent(locale: Locale, share: Decimal) -> str:
    """`12.5%`"""
    return numbers.format_percent(share, locale=locale, decimal_quantization=False, numbering_system="default")


def scientific(locale: Locale, number: Decimal) -> str:
    """`1.2345E3`"""
    return numbers.format_scientific(number, locale=locale, decimal_quantization=False, numbering_system="default")


def compact(width: Literal["long", "short"]) -> Write:
    """`2.3 million`"""

    def write(locale: Locale, number: Decimal) -> str:
        return numbers.format_compact_decimal(
            number, format_type=width, locale=locale, fraction_digits=2, numbering_system="default"
        )

    return write


def amount(style: MoneyStyle) -> Write:
    """Write `$1,234.50`, `($1,234.50)` or `1,234.50 US dollars`."""

    def write(locale: Locale, money: Money) -> str:
        number, currency = money
        return numbers.format_currency(number, currency, locale=locale, format_type=style, numbering_system="default")

    return write


def whole_amount(style: MoneyStyle) -> Write:
    """Return a writer of amounts without decimal places, such as `$1,234` or `1,234 US dollars`."""

    def write(locale: Locale, money: Money) -> str:
        number, currency = money
        pattern = re.sub(r"[.]0+", "", locale.currency_formats["standard"].pattern)
        named = style == "name"
        return numbers.format_currency(
            number,
            currency,
            format=None if named else pattern,
            locale=locale,
            currency_digits=False,
            format_type="name" if named else "standard",
            numbering_system="default",
        )

    return write


def compact_amount(locale: Locale, money: Money) -> str:
    """`$2.3M`"""
    number, currency = money
    return numbers.format_compact_currency(
        number, currency, locale=locale, fraction_digits=2, numbering_system="default"
    )


def measure(unit: str, width: Width) -> Write:
    """`2.5 kilometers`"""

    def write(locale: Locale, count: Decimal) -> str:
        def written(width: Width) -> str:
            return units.format_unit(count, unit, width, locale=locale, numbering_system="default")

        return _without_codes(written, width)

    return write


def rate(width: Width) -> Write:
    """`2.5 liters per hour`"""

    def write(locale: Locale, rate: Rate) -> str:
        count, unit, per = rate

        def written(width: Width) -> str:
            text = units.format_compound_unit(
                count, unit, denominator_unit=per, length=width, locale=locale, numbering_system="default"
            )
            return text or ""

        return _without_codes(written, width)

    return write


def _without_codes(written: Callable[[Width], str], width: Width) -> str:
    """Return the text of this width, or the short text, to which the CLDR refers for missing widths.

    Babel does not follow that reference and writes the code of the unit into the text.
    """
    for candidate in (width, _SHORT):
        text = written(candidate)
        if not _UNIT_CODE.search(text):
            return text
    raise GapError(text)


def duration(parts: tuple[str, ...], width: Width) -> Write:
    """`2 hours, 3 minutes`"""
    measures = [measure(f"duration-{unit}", width) for unit in parts]

    def write(locale: Locale, counts: tuple[int, ...]) -> str:
        texts = [part(locale, Decimal(count)) for part, count in zip(measures, counts, strict=True)]
        return _joined(texts, _UNIT_LISTS[width], locale)

    return write


def _joined(texts: list[str], style: ListStyle, locale: Locale) -> str:
    """Join quantities in the first style with all patterns in the locale.

    If a style lacks its pattern for two, Babel writes the second quantity twice.
    """
    needed = {"2"} if len(texts) == 2 else {"start", "end"}
    styles: tuple[ListStyle, ...] = (style, "unit-short", "unit", "standard")
    whole = [candidate for candidate in styles if needed <= set(locale.list_patterns.get(candidate, ()))]
    return lists.format_list(texts, whole[0], locale)


def relative(unit: TimeUnit, sign: int, width: Width) -> Write:
    """Return a writer of relative times: `in 3 weeks`, or `3 weeks ago` for a negative sign."""

    def write(locale: Locale, counts: tuple[int]) -> str:
        delta = datetime.timedelta(seconds=sign * counts[0] * _SECONDS[unit])
        return dates.format_timedelta(
            delta, granularity=unit, threshold=1, add_direction=True, format=width, locale=locale
        )

    return write


def listed(name: Name, style: ListStyle) -> Write:
    """`Monday, Tuesday, or Friday`"""
    return lambda locale, codes: lists.format_list([name(locale, code) for code in codes], style, locale)


def territory(locale: Locale, code: str) -> str:
    """`France`"""
    return locale.territories[code]


def language(locale: Locale, code: str) -> str:
    """`French`"""
    return locale.languages[code]


def currency(locale: Locale, code: str) -> str:
    """`Swiss Franc`"""
    return locale.currencies[code]


def weekday_name(width: NameWidth) -> Name:
    """Write `Monday`, whose code is 0."""
    return lambda locale, code: dates.get_day_names(width, "stand-alone", locale)[int(code)]


def month_name(width: NameWidth) -> Name:
    """Write `January`, whose code is 1."""
    return lambda locale, code: dates.get_month_names(width, "stand-alone", locale)[int(code)]
