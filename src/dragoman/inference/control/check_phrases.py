"""Check of phrases on a text: which of them it satisfies, and which no text can satisfy."""

from collections.abc import Sequence

from dragoman.data.terminology.target_forms import find_phrases
from dragoman.data.terminology.word_units import Span
from dragoman.decoding.constraints import Phrase


def is_satisfied(phrase: Phrase, text: str, literals: Sequence[Span] = ()) -> bool:
    """Return whether a text satisfies a phrase; words of its `literals` do not count."""
    if phrase.kind == "preferred":
        return True
    count = len(find_in_text(phrase, text, literals))
    return count == 0 if phrase.kind == "forbidden" else count == 1 if phrase.kind == "once" else count > 0


def contradicted(phrases: Sequence[Phrase], prefix: str) -> tuple[Phrase, ...]:
    """Return the phrases that no output satisfies which begins with a prefix, which may be empty.

    They are those that the prefix has too often, and required ones of which every form has a forbidden phrase.
    """
    forbidden = [phrase for phrase in phrases if phrase.kind == "forbidden"]
    required = [phrase for phrase in phrases if phrase.kind in ("required", "once")] if forbidden else []
    impossible = [
        phrase
        for phrase in required
        if all(any(not is_satisfied(other, form) for other in forbidden) for form in phrase.texts)
    ]
    if prefix:
        impossible += [one for one in forbidden if not is_satisfied(one, prefix)]
        impossible += [one for one in phrases if one.kind == "once" and len(find_in_text(one, prefix, ())) > 1]
    return tuple(impossible)


def find_in_text(phrase: Phrase, text: str, literals: Sequence[Span]) -> list[Span]:
    """Return the places of the forms of a phrase in a text, outside of its `literals`."""
    return find_phrases(
        text,
        phrase.texts,
        whole_words=phrase.whole_words,
        smart_case=phrase.kind == "forbidden",
        literals=literals,
    )
