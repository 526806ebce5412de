"""Placeholders of any text and any translation, against the formatters that read them."""

import itertools
import string

from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.placeholders.clusters import cluster_placeholders
from dragoman.data.placeholders.icu_messages import IcuMessage, quote_text, unquote_text
from dragoman.data.placeholders.recognition import Placeholder, find_placeholders
from dragoman.data.placeholders.stand_ins import protect_placeholders, restore_placeholders
from tests.property_settings import examples

STAND_INS = ("4817", "5926", "7043", "8251", "9364", "6158", "3725")
WORDS = st.sampled_from(["save", "the", "file", "100", "it's", "now.", "(or", "not)", "50", "ünï", "?", "-"])
FIELDS = st.builds(
    "{{{}{}{}}}".format,
    st.sampled_from(["", "0", "name", "user.name", "items[3]"]),
    st.sampled_from(["", "!r", "!s"]),
    st.sampled_from(["", ":.2f", ":>7", ":,", ":{width}"]),
)
SPECIFIERS = st.builds(
    "%{}{}{}{}".format,
    st.sampled_from(["", "(count)"]),
    st.sampled_from(["", "-", "0", "+"]),
    st.sampled_from(["", "7", ".3", "5.2"]),
    st.sampled_from("sdfx"),
)
TEXTS = st.lists(WORDS | FIELDS | SPECIFIERS, max_size=11).map(" ".join)
PIECES = st.text("ab '%s{}#<>1\\n`$@-/:", max_size=23)


@examples(200)
@given(st.lists(WORDS | FIELDS, max_size=11).map(" ".join))
def test_fields_are_those_of_format_strings(text: str) -> None:
    parsed = [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
    found = [one.text for one in find_placeholders(text)]
    assert len(found) == len(parsed)
    assert all(one[1:].startswith(name) for one, name in zip(found, parsed, strict=True))


@examples(200)
@given(st.lists(WORDS, max_size=7).map(" ".join), st.lists(SPECIFIERS, max_size=5))
def test_specifiers_are_those_that_python_formats(prose: str, specifiers: list[str]) -> None:
    text = " ".join([prose, *specifiers])
    found = [one.text for one in find_placeholders(text)]
    assert found == specifiers
    unnamed = " ".join(one.replace("(count)", "") for one in found)
    assert len((unnamed % ((7,) * len(found))).split()) == len(found)


@examples(300)
@given(PIECES | TEXTS)
def test_restored_text_is_the_same(text: str) -> None:
    protected = protect_placeholders(text, STAND_INS)
    restored = restore_placeholders(protected, protected.text, written=[one.stand_in for one in protected.slots])
    assert restored.text.split() == text.split()
    assert restored.moved == ()


@examples(300)
@given(TEXTS, st.lists(st.sampled_from([*STAND_INS[:4], "ein", "Wort", ".", "("]), max_size=13).map(" ".join))
def test_any_translation_has_each_placeholder_once(text: str, translation: str) -> None:
    protected = protect_placeholders(text, STAND_INS)
    written = [one.stand_in for one in protected.slots]
    restored = restore_placeholders(protected, translation, written=written)
    left = protected.start + protected.end
    for slot in protected.slots:
        same = sum(other.original == slot.original for other in protected.slots)
        assert restored.text.count(slot.original) >= same + left.count(slot.original)
    assert not any(word in restored.text for word in written)


@examples(200)
@given(st.text("ab'{}#|é ", max_size=23), st.booleans(), st.booleans())
def test_quoted_text_of_messages_reads_as_before(text: str, in_plural: bool, doubles: bool) -> None:
    quoted = quote_text(text, in_plural=in_plural, doubles=doubles)
    assert unquote_text(quoted, in_plural=in_plural) == text
    message = IcuMessage.parse(
        f"{{n, plural, other {{{quoted}}}}}" if in_plural else f"{{n, select, other {{{quoted}}}}}"
    )
    assert message is not None
    assert [unquote_text(leaf.source, in_plural=in_plural) for leaf in message.leaves] == [text]


@examples(200)
@given(st.text("{}',# nplurasectoh=1", max_size=37))
def test_any_text_is_a_message_or_none(text: str) -> None:
    message = IcuMessage.parse("{n, plural, one {x} other {" + text)
    assert message is None or message.fill([leaf.source for leaf in message.leaves]).startswith("{n, plural, one {")


@examples(300)
@given(st.text("a~<%s:1 (", max_size=29), st.data())
def test_clusters_do_not_overlap(text: str, data: st.DataObject) -> None:
    """Whatever is recognized: what is between two placeholders belongs to one of them at most."""
    ends = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    parts = list(zip(ends[::2], ends[1::2], strict=False))
    found = [Placeholder("unreadable", start, end, text[start:end]) for start, end in parts]
    clusters = cluster_placeholders(text, found)
    assert all(one.end <= other.start for one, other in itertools.pairwise(clusters))
    assert [part.text for cluster in clusters for part in cluster.found] == [part.text for part in found]
