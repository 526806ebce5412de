"""Recognition of placeholders: parts of a text that a translation has to repeat byte for byte.

The syntaxes are those of C and Python `printf`, Objective-C, Qt, `strftime`, Python and .NET format strings, ICU and
Fluent arguments, Ruby, shell, Drupal and template languages, and, besides them, tags, entities, escapes, URLs, e-mail
addresses, code spans, paths and options of commands. What may be prose is none: `100 % sure`, `50% of it`, `{alone`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, get_args

PlaceholderKind = Literal[
    "code",
    "url",
    "email",
    "tag",
    "template",
    "brace",
    "printf",
    "variable",
    "entity",
    "path",
    "escape",
    "option",
]
"""Kind of a placeholder. `template` is `{{x}}`, `${x}`, `#{x}` and the like, `variable` is `$x`, `@x` and `%PATH%`."""
KINDS: Final[tuple[PlaceholderKind, ...]] = get_args(PlaceholderKind)
MARKUP_KINDS: Final = frozenset({"tag", "entity"})
"""Kinds that belong to the markup of a text where it has any."""

_OPENED: Final = {")": "(", "]": "[", "}": "{"}
_FINAL: Final = ".,;:!?'’»”"
_PRINTF: Final = r"""
    %%
  | %\#@\w++@                                                        # variable of a stringsdict
  | (?<!\d)%
    (?:\d{1,2}+\$|\([^()\s%]{1,100}\))?+                             # position or name
    [-+\#0']*+(?:\*|\d{1,3}+)?+(?:\.(?:\*|\d{1,3})?)?+               # flags, width, precision; no space: `50 % of`
    (?:hh?|ll?|I64|[qLjzt])?+
    (?:[dsf@](?![A-Za-z]{4})|[iouxXeEgGaAcCrSpn](?![A-Za-z]))        # a unit may follow: `%dpx`
  | (?<=\d)%[ds](?![A-Za-z])
  | %\d{1,2}+\$[a-zA-Z@]
  | %\([^()\s%]{1,100}\)[-+\#0]*+\d*+(?:\.\d++)?+[a-zA-Z]
  | (?<![\d%])%L?[1-9]\d?+(?![\w$%])                                 # Qt
  | (?<![\d%])%[-_^\#]?[YymdBbHIMSpAjZUWwFTRD](?![A-Za-z])           # strftime
"""
_BRACE: Final = r"""
    \{(?:[ ]?[$\w][\w.\-]*+(?:\[[^\[\]{}\n]{1,60}\])*+(?:\.\w++)*+[ ]?)?+
      (?:![rsa])?(?::(?:%[^{}\n]{1,60}|(?:[^{}\s]|\{\w*\}){0,60}))?\}      # Python, .NET, simple ICU arguments
  | \{\s*+\w++\s*+,\s*+(?:number|date|time|spellout|ordinal|duration|list)\s*+(?:,[^{}]{0,200})?\}
  | \{-?\d{1,3},-?\d{1,3}(?::[^{}\n]{0,60})?\}                             # .NET alignment
  | \{\s*+(?:-[a-z][\w-]*+|[A-Z]++\([^{}()\n]{0,200}\))\s*+\}                # Fluent terms and functions
"""
_TEMPLATE: Final = r"""
    \{\{\{[^{}\n]{1,200}\}\}\}
  | \{\{[^{}\n]{1,200}\}\}
  | \{%[^{}\n]{1,200}%\}
  | [$\#%@]\{[^{}\n]{1,200}\}
  | \$t\([^()\n]{1,100}\)
"""
_VARIABLE: Final = r"""
    (?<![\w$])\$[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+\$?+
  | (?<![\w@.])@[A-Za-z_]\w*+
  | (?<!\w)%[A-Z][A-Z0-9_]{2,60}%(?!\w)
  | (?<!\w)__[A-Za-z]\w{0,60}?__(?!\w)
"""
_ATTRIBUTE: Final = r"""\s++[A-Za-z_:@][\w:.@-]*+(?:\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=`]++))?+"""
_SYNTAX: Final[dict[PlaceholderKind, str]] = {
    "code": r"``[^`\n]++``|`[^`\n]++`",
    "url": r"\b(?:https?|ftps?|sftp|file|wss?|ssh|git)://[^\s<>\"`]++|\bmailto:[^\s<>\"`]++|\bwww\.[^\s<>\"`]++",
    "email": r"(?<![\w.+-])[\w.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)++",
    "tag": rf"</[A-Za-z][\w:.-]*+\s*+>|<[A-Za-z][\w:.-]*+(?:{_ATTRIBUTE})*+\s*+/?>",
    "template": _TEMPLATE,
    "brace": _BRACE,
    "variable": _VARIABLE,
    "printf": _PRINTF,
    "entity": r"&(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",
    "path": r"""
        (?<!\w)[A-Za-z]:\\[^\s<>:"|?*]*+
      | (?<![\w/.>)}\]<%$~])(?:(?:~|\.{1,2})/[\w.+@~/-]*+
          |/(?:usr|etc|home|var|tmp|dev|opt|s?bin|lib|proc|sys|mnt|media|boot|root|run|srv)\b[\w.+@~/-]*+
          |/[\w.+@~-]++/[\w.+@~/-]*+)
    """,
    "escape": r"""\\(?:[nrt"'\\]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})""",
    "option": r"""(?<![\w-])--[A-Za-z][A-Za-z0-9-]*+(?:=[^\s,;:.!?)\]}'"]++)?+""",
}


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Part of a text that a translation repeats."""

    kind: PlaceholderKind
    start: int
    end: int
    text: str


def find_placeholders(text: str, *, markup: bool = False) -> list[Placeholder]:
    """Return the placeholders of a text in order; they do not overlap.

    With `markup` the text is a fragment of XML or HTML: its tags and entities are none, nor anything inside of them.
    """
    return list(_find(text, markup=markup))


def _find(text: str, *, markup: bool) -> Iterator[Placeholder]:
    for found in _pattern().finditer(text):
        kind = next(kind for kind in KINDS if found.lastgroup == kind)
        start, end = found.start(), found.end()
        if kind in ("url", "path"):
            end = start + len(_without_punctuation(found.group()))
        if markup and (kind in MARKUP_KINDS or "<" in found.group()):
            continue
        if start < end:
            yield Placeholder(kind, start, end, text[start:end])


def _without_punctuation(text: str) -> str:
    """Return a URL or path without the punctuation of the sentence after it, and brackets that it does not open."""
    unopened = {closed: text.count(closed) - text.count(opened) for closed, opened in _OPENED.items()}
    end = len(text)
    while end and (text[end - 1] in _FINAL or unopened.get(text[end - 1], 0) > 0):
        end -= 1
        if text[end] in unopened:
            unopened[text[end]] -= 1
    return text[:end]


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>{syntax})" for kind, syntax in _SYNTAX.items()), re.VERBOSE)
