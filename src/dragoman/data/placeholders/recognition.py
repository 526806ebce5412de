"""Recognition of placeholders: parts of a text that a translation has to repeat byte for byte.

The syntaxes are those of C, Java, PHP and Python `printf`, Objective-C, Qt, Lisp, `strftime`, Python, .NET and Rust
format strings, ICU and Fluent arguments, Ruby, shell, Laravel, Drupal, Symfony, MediaWiki, vue-i18n and template
languages, and, besides them, tags, entities, escapes, URLs, e-mail addresses, code spans, identifiers, paths, options
of commands, keyboard shortcuts and emoji. What may be prose is none: `100 % sure`, `50% of it`, `{alone`, `$15`.
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
    "key",
    "emoji",
    "unreadable",
]
"""Kind of a placeholder. `template` is `{{x}}`, `${x}`, `#{x}` and the like, `variable` is `$x`, `:x` and `%PATH%`.

`unreadable` is a word with characters that a model does not know; no syntax has it.
"""
KINDS: Final[tuple[PlaceholderKind, ...]] = get_args(PlaceholderKind)
MARKUP_KINDS: Final = frozenset({"tag", "entity"})
"""Kinds that belong to the markup of a text where it has any."""

_OPENED: Final = {")": "(", "]": "[", "}": "{"}
_FINAL: Final = ".,;:!?'’»”"
_PRINTF: Final = r"""
    %%\([^()\s%]{1,60}+\)(?:[a-zA-Z](?![A-Za-z]))?+                      # its percent sign is quoted
  | %%
  | %(?:\d{1,2}+\$)?+\#@\w++@                                        # variable of a stringsdict
  | (?<![\w%])%arg(?!\w)                                              # its number, in a string catalog
  | (?<!\d)%
    (?:\d{1,2}+\$|\([^()%\n]{1,60}\)|\([^()\s%]{1,100}\))?+          # position or name
    [-+\#0',]*+(?:\*(?:\d{1,2}+\$)?+|\d{1,3}+)?+(?:\.(?:\*|\d{1,3})?)?+   # flags, width, precision; no space: `50 % of`
    (?:(?:hh?|ll?|I64|[qLjzt])?+
       (?:[dsf@](?![A-Za-z]{4})|[iouxXeEgGaAcCrSpnO](?![A-Za-z]))          # a unit may follow: `%dpx`
      |[tT][A-Za-z](?![A-Za-z]))                                           # Java
  | (?<=\d)%[ds](?![A-Za-z])
  | %\d{1,2}+\$[a-zA-Z@]
  | (?<![\w%)}])(?<![\w%)}][ \u00a0])%[ ]\d*+[df](?![\w'’])          # space as flag
  | %\([^()\s%]{1,100}\)[-+\#0]*+\d*+(?:\.\d++)?+[a-zA-Z]
  | (?:(?<![\d%])|(?<=%\d)|(?<=%L\d))%L?[1-9]\d?+(?![\w$]|%(?!L?\d))                        # Qt
  | (?<![\d%])%[-_^\#]?[YymdBbHIMSpAjZUWwFTRD](?![A-Za-z])           # strftime
  | (?<![\w~/])~\d{0,3}[aAsSdDfF](?!\w)                             # Lisp
"""
_BRACE: Final = r"""
    \{(?:[ ]?[$\w][\w.\-]*+(?:\[[^\[\]{}\n]{1,60}\])*+(?:\.\w++)*+[ ]?)?+
      (?:![rsa])?(?::(?:%[^{}\n]{1,60}|[ ][<>^+\-][^{}\s]{0,20}|(?:[^{}\s]|\{\w*\}){0,60}))?\}   # Python, .NET, ICU
  | \{\w{1,60}:[yMdHhmsftTzKg/:.,\-'\ ]{1,60}\}                              # .NET date formats, which have spaces
  | \{\d{1,3}:[^{}\n]{1,60}\}
  | \{\$?\w[\w.\->]{0,60}\|[^{}\n]{1,100}\}                                  # filters of Smarty and Twig
  | \{[\#/@^>~!&=*?]\w[^{}\n]{0,100}+\}                                     # blocks of Svelte and Dust, marked names
  | \{\s*+\w++\s*+,\s*+(?:number|date|time|spellout|ordinal|duration|list)\s*+(?:,[^{}]{0,200})?\}
  | \{\s*+\w++\s*+,\s*+choice\s*+,(?:[^{}]|\{[^{}]{0,100}\}){0,500}\}          # Java
  | \{-?\d{1,3},-?\d{1,3}(?::[^{}\n]{0,60})?\}                             # .NET alignment
  | \{\s*+(?:-[a-z][\w-]*+|[A-Z]++\([^{}()\n]{0,200}\))\s*+\}                # Fluent terms and functions
  | [{\[]\d{1,6},(?:\d{1,6}|\*|Inf)[}\]]                                   # intervals of Laravel
"""
_TEMPLATE: Final = r"""
    \{\{\{[^{}\n]{1,200}\}\}\}
  | \{\{[^{}\n]{1,200}\}\}
  | \{%[^{}\n]{1,200}%\}
  | [$\#%@]\{[^{}\n]{1,200}\}
  | \$t\([^()\n]{1,100}\)
  | \$\([A-Za-z_][\w.\-]{0,60}\)                                           # make, NSIS, MSBuild
  | \\\([A-Za-z_][\w.]{0,60}\)                                             # Swift
  | (?<!\d)%[-+\#0]*+\d*+<PRI[a-zA-Z]\w{1,10}>                                # gettext
  | (?<!\d)%<[A-Za-z_]\w{0,60}>[-+\#0]*+\d*+(?:\.\d++)?+[a-zA-Z](?![A-Za-z])   # Ruby
  | <%[^<>\n]{1,200}%>|<\?[^<>\n]{1,200}\?>|\[%[^\[\]\n]{1,200}%\]
  | \[\[[^\[\]\n]{1,100}\]\]
  | [$\#%@]\[[\w.\-]{1,60}+\]
  | (?<![\w\])!$\#%@\\])\[(?!(?:optional|default|required|none|empty|unknown|sic)\])                  # prose
      (?:[a-z][a-z0-9]*+(?:[_.\-][a-z0-9]++)*+|[A-Z0-9]++(?:_[A-Z0-9]++)++|\d{1,4}+)\](?![(\[:\w])      # no link
  | \*\|[\w:.]{1,60}\|\*
"""
_VARIABLE: Final = r"""
    (?<![\w$])\$[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+\$?+
  | (?<![\w$])\$[1-9](?![\w$]|[.,]\d)                                      # MediaWiki
  | (?<![\w@.])@[A-Za-z_]\w*+\((?:"[^"\n]{0,200}+"|'[^'\n]{0,200}+'|[^()"'\n]{0,200}+)\)       # Blade
  | (?<![\w@.])@[A-Za-z_]\w*+
  | (?<![\\\w])\\\d{1,2}+(?!\d)                                               # group of a regular expression
  | (?<![\w&\#])\#\d{1,9}+(?!\w)                                            # number of an issue
  | (?<![\w@])@(?:\.\w{1,30})?:(?:\([^()\n]{1,100}\)|\{[^{}\n]{1,100}\}|\w++(?:[.\-]\w++)*+)   # vue-i18n
  | (?<!\w)%(?!(?:ll|hh)[a-z]%)[A-Za-z_][\w.]{2,60}%(?!\w)
  | (?<![\w%])%(?!ig(?:e[mnrs]?)?\b)[a-z](?:(?<=[dsf])[a-z_]{4}|(?<![dsf])[a-z_]{3})\w{0,60}(?![\w%(])   # Drupal
  | (?<![^\s(\["'“])![a-z_]\w{1,60}
  | (?<![^\s(\["'“«„‘>=/|-]):[A-Za-z_]\w*+(?::{1,2}[A-Za-z_]\w*+)*+(?![\w:])                          # Laravel, Rails
  | (?<!\w)__[A-Za-z]\w{0,60}?__(?!\w)
  | %%\w{2,60}%%|\#\#\w{2,60}\#\#
"""
_ATTRIBUTE: Final = r"""\s++[A-Za-z_:@][\w:.@-]*+(?:\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=`]++))?+"""
_EXTENSIONS: Final = (
    "txt|md|rst|json|ya?ml|toml|xml|html?|css|js|ts|py|cpp|java|rb|php|sh|bat|exe|dll|so|zip|tar|t?gz|bz2|xz|7z|rar|iso|img|"
    "pdf|docx?|xlsx?|pptx?|od[tsp]|csv|tsv|png|jpe?g|gif|svg|webp|mp[34]|wav|ogg|flac|avi|mkv|mov|ini|cfg|conf|log|db|"
    "sql|po|pot|mo|xliff|lock|bak|tmp|deb|rpm|apk|dmg|jar|pem|crt|key"
)
"""Extensions of names of files; others may be words after a full stop."""
_MODIFIERS: Final = "Ctrl|Control|Alt|AltGr|Shift|Cmd|Command|Option|Super|Win|Meta|Strg"
_EMOJI: Final = "\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
"""Symbols and pictures, which vocabularies lack."""
_SYNTAX: Final[dict[PlaceholderKind, str]] = {
    "code": r"""``[^\n]+?``(?!`)
      | `(?!(?:[^`'\n]++|'(?![\s.,]))*+'[\s.,])[^`\n]++`  # and not the words between two ends of `GNU' quotation marks
      | (?<![\w@$%{\\.])[A-Za-z][A-Za-z0-9]*+(?:_[A-Za-z0-9]++)++(?![\w@])(?:\(\))?+
      | (?<![\w@$%:{\\.])[A-Za-z_]\w*+(?:\.\w++)*+\(\)""",
    "url": r"\b(?:https?|ftps?|sftp|file|wss?|ssh|git)://[^\s<>\"`]++|\bmailto:[^\s<>\"`]++|\bwww\.[^\s<>\"`]++",
    "email": r"(?<![\w.+-])[\w.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)++",
    "tag": rf"""</[A-Za-z][\w:.-]*+\s*+>|<[A-Za-z][\w:.-]*+(?:{_ATTRIBUTE})*+\s*+/?>|</?\d{{1,2}}\s*+/?>
      | <!--[^<>]{{0,500}}-->|<!\[CDATA\[|\]\]>""",
    "template": _TEMPLATE,
    "brace": _BRACE,
    "variable": _VARIABLE,
    "printf": _PRINTF,
    "entity": r"&(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31}|[A-Za-z][\w.\-]{0,60}\w);",
    "path": rf"""
        (?<!\w)[A-Za-z]:(?:\\[^\s<>:"|?*]*+|/(?=\w)[^\s<>:"|?*]*+)
      | (?<![\w\\])\\\\[\w.$-]++\\[^\s<>:"|?*]*+
      | (?<![\w/.>)}}\]<%$~])(?:(?:~|\.{{1,2}})/[\w.+@~/-]*+
          |/(?:usr|etc|home|var|tmp|dev|opt|s?bin|lib|proc|sys|mnt|media|boot|root|run|srv)\b[\w.+@~/-]*+
          |/[\w.+@~-]++/[\w.+@~/-]*+)
      | (?<![\w/.@%$-])(?:[\w*-]{{1,60}}+/){{0,10}}+[\w*-]{{1,60}}+
        (?:\.[\w*-]{{1,30}}+){{0,3}}\.(?:{_EXTENSIONS})(?![\w/-])
    """,
    "escape": r"""\\(?:[nrt"'\\]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})|(?<!')'[{}]+'(?!')""",
    "option": r"""(?<![\w-])--[A-Za-z][A-Za-z0-9-]*+(?:=[^\s,;:.!?)\]}'"]++)?+|(?<![^\s(\["'`“‘«])-[A-Za-z](?![\w-])""",
    "key": rf"(?<!\w)(?:{_MODIFIERS})(?:[ ]?\+[ ]?(?:{_MODIFIERS})){{0,3}}[ ]?\+[ ]?(?:\w{{1,10}}|[^\s\w])(?!\w)"
    r"|(?<![\w.])F(?:[1-9]|1\d|2[0-4])(?!\w|\.\w)"
    r"|[\u2318\u2325\u2303\u21e7\u21ea]++\w?(?!\w)",
    "emoji": rf"(?<![^\s(\[\"'“>/:-]):[+\-\w]{{2,40}}:(?!\w)|[{_EMOJI}][{_EMOJI}\ufe0e\ufe0f\u200d\u20e3]*+",
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
    found = _find_once(text, markup) if len(text) <= _MAX_REMEMBERED else _find(text, markup=markup)
    return list(found)


_REMEMBERED: Final = 4096
_MAX_REMEMBERED: Final = 2000
"""Texts whose placeholders are remembered, and their characters: a file and the translator read the same texts."""


@lru_cache(_REMEMBERED)
def _find_once(text: str, markup: bool) -> tuple[Placeholder, ...]:
    return tuple(_find(text, markup=markup))


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
