"""Values of phrases, independent of any locale: moments, spans, counts, amounts, names.

Every kind of value can be drawn at random and has probes: fixed values that differ in one respect at a time. A form
with the same source but different targets for two probes loses information.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Generic, TypeVar, final

from dragoman_demo.cldr_codes import CURRENCIES, RATE_DENOMINATORS, RATE_NUMERATORS, ZONES

V = TypeVar("V")
Moment = datetime.datetime
Span = tuple[Moment, Moment]
Money = tuple[Decimal, str]
Rate = tuple[Decimal, str, str]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Values(Generic[V]):
    """One kind of value: its random draw, and probes that show which information a form loses."""

    draw: Callable[[Random], V]
    probes: tuple[V, ...]


def decimals(text: str) -> tuple[Decimal, ...]:
    """Split a text into numbers."""
    return tuple(map(Decimal, text.split()))


@final
class Zone(datetime.tzinfo):
    """Time zone that is always in standard or always in daylight saving time; `key` is its CLDR name."""

    def __init__(self, key: str, hours: int, *, summer: bool) -> None:
        self.key = key
        self._saving = datetime.timedelta(hours=int(summer))
        self._offset = datetime.timedelta(hours=hours) + self._saving

    def utcoffset(self, _moment: datetime.datetime | None) -> datetime.timedelta:
        return self._offset

    def dst(self, _moment: datetime.datetime | None) -> datetime.timedelta:
        return self._saving

    def tzname(self, _moment: datetime.datetime | None) -> str:
        return self.key


_BASE = datetime.datetime(2031, 3, 4, 17, 5, 9)
_OTHERS = (
    *(_BASE.replace(year=year) for year in (1931, 2030, 2041)),
    *(_BASE.replace(month=month) for month in (1, 2, 5, 8, 9, 10, 12)),
    *(_BASE.replace(day=day) for day in (1, 3, 11, 14, 25)),
    *(_BASE.replace(hour=hour) for hour in (0, 5, 11, 12, 20)),
    *(_BASE.replace(minute=minute) for minute in (0, 15, 50)),
    *(_BASE.replace(second=second) for second in (0, 50)),
)


def _moment(random: Random) -> Moment:
    """Draw a second of the years 1900 to 2099; near years and quarters of an hour are more frequent, as in texts."""
    moment = _FIRST + datetime.timedelta(seconds=random.randrange(_SECONDS))
    if random.random() < 0.5:
        moment = moment.replace(year=random.randint(*_NEAR_YEARS), day=min(moment.day, 28))
    if random.random() < 0.3:
        moment = moment.replace(minute=random.choice((0, 0, 15, 30, 45)), second=0)
    return moment


_NEAR_YEARS = 1990, 2035
_FIRST = datetime.datetime(1900, 1, 1)
_SECONDS = round((datetime.datetime(2100, 1, 1) - _FIRST).total_seconds())
MOMENTS = Values(draw=_moment, probes=(_BASE, *_OTHERS))


def _zoned(random: Random) -> Moment:
    return _moment(random).replace(tzinfo=random.choice(_ZONES))


_ZONES = tuple(
    Zone(key, hours, summer=summer) for key, hours, saves in ZONES for summer in ((False, True) if saves else (False,))
)
ZONED_MOMENTS = Values(
    draw=_zoned,
    probes=tuple(moment.replace(tzinfo=zone) for moment in (_BASE, _BASE.replace(hour=5)) for zone in _ZONES),
)


def _days(random: Random) -> Span:
    """From one day to a later one, near enough to share month or year now and then."""
    start = _moment(random)
    return start, start + datetime.timedelta(days=random.choice((random.randint(1, 20), random.randint(1, 700))))


def _hours(random: Random) -> Span:
    """From one minute to a later one of the same day."""
    step = random.choice((1, 15, 60))
    first, last = (step * place for place in sorted(random.sample(range(24 * 60 // step), 2)))
    midnight = _BASE.replace(hour=0, second=0)
    return midnight.replace(hour=first // 60, minute=first % 60), midnight.replace(hour=last // 60, minute=last % 60)


DAY_SPANS = Values(
    draw=_days,
    probes=tuple(
        (moment, moment + datetime.timedelta(days=days))
        for moment in (_BASE, *(other for other in _OTHERS if other.date() != _BASE.date()))
        for days in (2, 40, 400)
    ),
)
HOUR_SPANS = Values(
    draw=_hours,
    probes=tuple(
        (_BASE.replace(hour=start, minute=5), _BASE.replace(hour=end, minute=30))
        for start, end in ((0, 12), (1, 3), (9, 17), (11, 12), (12, 20), (13, 15), (13, 13))
    ),
)


def _digits(random: Random, most: int) -> int:
    """A whole number of up to `most` digits, every length as likely as the others."""
    length = random.randint(1, most)
    return random.randrange(10 ** (length - 1) if length > 1 else 0, 10**length)


def shortest(number: Decimal) -> Decimal:
    """The number without closing zeros, so that what decides between singular and plural is what is written."""
    whole = number.to_integral_value()
    return whole if whole == number else number.normalize()


def _count(random: Random) -> Decimal:
    """Draw a count of up to four digits, mostly whole; one in six is below two, which needs the singular."""
    if random.random() < 1 / 6:
        return shortest(Decimal(random.randrange(200)) / 100)
    count = Decimal(_digits(random, 4))
    if random.random() < 0.4:
        count += Decimal(random.randrange(100)) / 10 ** random.randint(1, 2)
    return shortest(count)


COUNTS = Values(draw=_count, probes=decimals("0 1 2 3 5 7 11 21 100 1234 0.5 1.5 2.5"))


def _number(random: Random) -> Decimal:
    """Draw a number of up to seven digits before and three after the point, one in four negative."""
    number = Decimal(_digits(random, 7))
    if number < 1000 or random.random() < 0.5:
        places = random.randint(1, 3)
        number += Decimal(random.randrange(1, 10**places)) / 10**places
    return shortest(-number if random.random() < 0.25 else number)


NUMBERS = Values(draw=_number, probes=decimals("1234 1234567 0.5 1.25 3.125 45.5 1000.25 -7 -1234.5 -0.75"))


def _share(random: Random) -> Decimal:
    """Draw a share in percent with at most two decimal places."""
    places = random.randint(0, 2)
    return shortest(Decimal(random.randrange(-100 * 10**places, 200 * 10**places)) / (100 * 10**places))


SHARES = Values(draw=_share, probes=decimals("0.05 0.5 0.123 0.4567 1.5 -0.25 0.01"))


def _round_number(random: Random) -> Decimal:
    """Draw two or three digits followed by zeros, from thousands to trillions, which short forms keep exactly."""
    return Decimal(random.randint(10, 999)) * 10 ** random.randint(2, 11)


ROUND_NUMBERS = Values(
    draw=_round_number, probes=decimals("1000 1200 12300 25000 150000 1000000 2300000 1000000000 45000000000")
)


def _price(random: Random) -> Money:
    return Decimal(_digits(random, 6)) + Decimal(random.randrange(100)) / 100, random.choice(CURRENCIES)


def _debt(random: Random) -> Money:
    amount, currency = _price(random)
    return -amount - 1, currency


def _fortune(random: Random) -> Money:
    return _round_number(random), random.choice(CURRENCIES)


def _money(amounts: str) -> tuple[Money, ...]:
    return tuple((Decimal(amount), currency) for amount in amounts.split() for currency in CURRENCIES)


PRICES = Values(draw=_price, probes=_money("1 12.5 1234.56"))
WHOLE_PRICES = Values(
    draw=lambda random: (Decimal(_digits(random, 5)), random.choice(CURRENCIES)), probes=_money("1 12 1234")
)
DEBTS = Values(draw=_debt, probes=_money("-1 -1234.56"))
FORTUNES = Values(draw=_fortune, probes=_money("1200 45000 2300000 4000000000"))


def _rate(random: Random) -> Rate:
    return _count(random), random.choice(RATE_NUMERATORS), random.choice(RATE_DENOMINATORS)


RATES = Values(
    draw=_rate,
    probes=tuple(
        (Decimal(count), unit, per)
        for count in ("1", "2.5", "12")
        for unit in RATE_NUMERATORS
        for per in RATE_DENOMINATORS
    ),
)


def names_of(pool: tuple[str, ...], *, most: int) -> Values[tuple[str, ...]]:
    """Return lists of two to `most` different codes of the pool."""

    def draw(random: Random) -> tuple[str, ...]:
        return tuple(random.sample(pool, random.randint(2, most)))

    return Values(draw=draw, probes=tuple((pool[index - 1], code) for index, code in enumerate(pool)))


def within(*limits: int) -> Values[tuple[int, ...]]:
    """Return whole numbers, each from one to its limit, as the parts of a duration."""

    def draw(random: Random) -> tuple[int, ...]:
        return tuple(random.randint(1, limit) for limit in limits)

    probes = [tuple(min(count, limit) for limit in limits) for count in (1, 2, 3, 5, 7, 11, 21)]
    return Values(draw=draw, probes=tuple(dict.fromkeys(probes)))
