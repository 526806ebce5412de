"""Texts that stand for translations: each word in reverse, with the tags and placeholders of the source."""

import re

from dragoman.data.placeholders.recognition import find_placeholders


def reverse_words(text: str, markup: str | None) -> str:
    """Return a text with the letters of each word in reverse order, and with its tags and placeholders."""
    fixed = [found.span() for found in re.finditer(r"<[^<>]*>|&\w+;", text) if markup is not None]
    fixed += [(one.start, one.end) for one in find_placeholders(text, markup=markup is not None)]
    written, place = "", 0
    for start, end in [*sorted(fixed), (len(text), len(text))]:
        if start >= place:
            written += re.sub(r"[^\W\d_]+", lambda word: word[0][::-1], text[place:start]) + text[start:end]
            place = end
    return written
