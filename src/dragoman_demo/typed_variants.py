"""Other ways in which people type an English phrase of the CLDR: `4 March 2031` or `March 4th, 2031`, `5pm`, `5 km`.

The CLDR has one way to write a value. A model that has seen no other one fails on the first phrase that a person types.
Each rule rewrites one part of a phrase and keeps its meaning, so that the target stays the same.
"""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

Rewrite = Callable[[re.Match[str]], str]
Rule = tuple[re.Pattern[str], Sequence[Rewrite]]

_SHARE: Final = 0.5
"""Probability with which a rule that fits is applied."""
_LOWERCASE_SHARE: Final = 0.08
_MONTHS: Final = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
)
_DAYS: Final = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_WORDS: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_UNITS: Final = "second|minute|hour|day|week|month|year"
_BRITISH: Final = {"meter": "metre", "liter": "litre"}


def type_variant(phrase: str, random: Random) -> str:
    """Return the phrase, or another way to type it."""
    for pattern, rewrites in _RULES:
        if random.random() < _SHARE:
            phrase = pattern.sub(random.choice(rewrites), phrase)
    return _in_lower_case(phrase) if random.random() < _LOWERCASE_SHARE else phrase


def _in_lower_case(phrase: str) -> str:
    """Return the phrase with the names of days and months in lower case."""
    return re.sub(rf"\b(?:{_DAYS}|{_MONTHS})\b", lambda name: name[0].lower(), phrase)


def ordinal(day: str) -> str:
    """Return `4th` for `4`, `21st` for `21`."""
    number = int(day)
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{day}{ending}"


def _dot(month: str) -> str:
    """Return the dot after an abbreviated month."""
    return "." if len(month) == 3 and month != "May" else ""


def _hours_of_24(clock: re.Match[str]) -> str:
    hour = int(clock["hour"]) % 12 + (12 if clock["half"] == "PM" else 0)
    return f"{hour:02}:{clock['minute']}{clock['second'] or ''}"


def _full_hour(clock: re.Match[str], half: str) -> str:
    """Return a clock time, without its minutes on the hour: `5pm` for `5:00 PM`."""
    is_full = clock["minute"] == "00" and not clock["second"]
    return f"{clock['hour']}{'' if is_full else ':' + clock['minute'] + (clock['second'] or '')}{half}"


def _hour(clock: str) -> str:
    """Return `9` for `9:00`."""
    return clock.removesuffix(":00")


_CLOCK: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?P<second>:\d\d)?\s(?P<half>AM|PM)"
_DATE: Final = rf"(?P<month>{_MONTHS}) (?P<day>\d{{1,2}})(?!\d|:| ?–)"
_RULES: Final[Sequence[Rule]] = (
    # A date and a time of day.
    (
        re.compile(rf"^(?P<date>.*(?:{_MONTHS}|/)[^–]*\d), (?P<time>{_CLOCK})$"),
        (
            lambda match: f"{match['date']} at {match['time']}",
            lambda match: f"{match['time']} on {match['date']}",
            lambda match: f"{match['date']} {match['time']}",
        ),
    ),
    (re.compile(rf"^(?P<day>{_DAYS}), (?={_CLOCK}$)"), (lambda day: f"{day['day']} at ", lambda day: f"{day['day']} ")),
    # Intervals, those of full hours first.
    (
        re.compile(r"^(?P<start>\d+:\d\d)(?P<half>\s[AP]M)? – (?P<end>\d+:\d\d)\s(?P<last>[AP]M)$"),
        (
            lambda span: f"{_hour(span['start'])}{span['half'] or ''} – {_hour(span['end'])} {span['last']}",
            lambda span: (
                f"{_hour(span['start'])}{(span['half'] or '').strip().lower()} – {_hour(span['end'])}"
                f"{span['last'].lower()}"
            ),
            lambda span: (
                f"{_hour(span['start'])}{span['half'] or ' ' + span['last']} – {_hour(span['end'])} {span['last']}"
            ),
        ),
    ),
    (
        re.compile(r"^(?P<start>[^–]+) – (?P<end>[^–]+)$"),
        (
            lambda span: f"{span['start']} - {span['end']}",
            lambda span: f"{span['start']} to {span['end']}",
            lambda span: f"from {span['start']} to {span['end']}",
            lambda span: f"{span['start']}-{span['end']}",
        ),
    ),
    # Times of day; without the half of the day, hours would be ambiguous in an interval.
    (
        re.compile(rf"{_CLOCK}(?![^\n]*[–-]| to )"),
        (
            _hours_of_24,
            lambda clock: _full_hour(clock, clock["half"].lower()),
            lambda clock: _full_hour(clock, f" {clock['half']}"),
            lambda clock: _full_hour(clock, f" {clock['half'].lower()}"),
            lambda clock: _full_hour(clock, f" {clock['half'][0].lower()}.m."),
            lambda clock: _full_hour(clock, clock["half"]),
        ),
    ),
    # Days of the week and dates.
    (re.compile(rf"\b(?P<day>{_DAYS}), (?=\d|{_MONTHS})"), (lambda day: f"{day['day']} ",)),
    (
        re.compile(rf"{_DATE}(?P<year>, \d{{4}})?"),
        (
            lambda date: f"{date['day']} {date['month']}{(date['year'] or '')[1:]}",
            lambda date: f"{date['day']} {date['month']}{(date['year'] or '')[1:]}",
            lambda date: f"{ordinal(date['day'])} {date['month']}{(date['year'] or '')[1:]}",
            lambda date: f"{ordinal(date['day'])} of {date['month']}{(date['year'] or '')[1:]}",
            lambda date: f"{date['month']} {ordinal(date['day'])}{date['year'] or ''}",
            lambda date: f"{date['month']} {date['day']}{(date['year'] or '')[1:]}",
            lambda date: f"{date['month']} {ordinal(date['day'])}{(date['year'] or '')[1:]}",
            lambda date: f"{date['month']}{_dot(date['month'])} {date['day']}{date['year'] or ''}",
        ),
    ),
    (re.compile(r"^(?P<number>\d)(?:st|nd|rd|th) quarter (?=\d{4}$)"), (lambda part: f"Q{part['number']} ",)),
    (
        re.compile(r"^(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})$"),
        (lambda date: f"{date['year']}-{int(date['month']):02}-{int(date['day']):02}",),
    ),
    # Numbers, amounts and units.
    (re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), (lambda _: "",)),
    (re.compile(r"(?<=\d)%"), (lambda _: " %", lambda _: " percent")),
    (
        re.compile(rf"(?<![\d.,])(?P<count>[1-9]|1[0-2]) (?=(?:{_UNITS})s?\b)"),
        (lambda count: f"{_WORDS[int(count['count'])]} ", lambda count: f"{_WORDS[int(count['count'])]} "),
    ),
    (re.compile(r"(?P<name>meter|liter)(?=s?\b)"), (lambda unit: _BRITISH[unit["name"]],)),
    # Durations and lists.
    (re.compile(rf"(?<=[sr]), (?=\d+ (?:{_UNITS})s?$)"), (lambda _: " and ", lambda _: " ")),
    (re.compile(r", (?=(?:and|or) )"), (lambda _: " ",)),
)
