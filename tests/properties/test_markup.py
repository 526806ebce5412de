"""Tags in translations: well-formed, complete and nested, for any tags, words and alignment."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from dragoman.data.markup import MarkupRules, TokenAlignment, parse_inline, split_blocks
from dragoman.data.markup.tags import Tag, read_tags
from dragoman.data.markup.token_alignment import find_atoms
from tests.property_settings import examples

XML = MarkupRules(markup="xml")
WORDS = st.sampled_from(["one", "two", "drei", "vier,", "fünf", "&amp;", "x&lt;y", "7", "読む", "l'eau"])
GAPS = st.sampled_from(["", " ", "  "])
TAG = re.compile(r"<[^>]*>")


@st.composite
def fragments(draw: st.DrawFn, *, depth: int = 4) -> str:
    """Return a fragment of XML with words, elements and empty elements, each tag with its own number."""
    numbers = iter(range(1000))

    def content(depth: int) -> str:
        parts = []
        for _ in range(draw(st.integers(0, 3))):
            kinds = ["word", "empty", *(["element"] * (depth > 0))]
            match draw(st.sampled_from(kinds)):
                case "word":
                    parts.append(draw(WORDS))
                case "empty":
                    parts.append(f'<x id="{next(numbers)}"/>')
                case _:
                    number = next(numbers)
                    parts.append(f'<g id="{number}">{content(depth - 1)}</g id="{number}">')
            parts.append(draw(GAPS))
        return "".join(parts)

    return re.sub(r'</g id="\d+">', "</g>", content(depth))


@st.composite
def alignments(draw: st.DrawFn, source: str, target: str) -> TokenAlignment:
    spans = find_atoms(source), find_atoms(target)
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    weights = generator.dirichlet([0.2] * max(1, len(spans[0])), size=len(spans[1]))[:, : len(spans[0])]
    return TokenAlignment(tuple(spans[0]), tuple(spans[1]), weights.reshape(len(spans[1]), len(spans[0])))


def ancestors(content: str) -> dict[str, Sequence[str]]:
    """Return the numbers of the elements around each element."""
    root = etree.fromstring(f"<root>{content}</root>")
    return {one.get("id", ""): [up.get("id", "") for up in one.iterancestors()] for one in root.iter()}


def tag_counts(content: str, rules: MarkupRules) -> Counter[str]:
    return Counter(one.source for one in read_tags(content, rules.markup) if isinstance(one, Tag))


@examples(150)
@given(st.data(), fragments(), st.lists(WORDS, max_size=7))
def test_tags_are_complete_and_nested_as_in_the_source(data: st.DataObject, fragment: str, words: list[str]) -> None:
    parsed = parse_inline(fragment, XML)
    translation = " ".join(words)
    placed = parsed.place(translation, data.draw(alignments(parsed.text, translation)))
    assert parsed.problems == ()
    assert Counter(TAG.findall(placed.content)) == Counter(TAG.findall(fragment))
    assert ancestors(placed.content) == ancestors(fragment)
    text = "".join(etree.fromstring(f"<root>{placed.content}</root>").itertext())
    if translation != parsed.text:
        assert text.split() == translation.split() or "".join(text.split()) == "".join(translation.split())


@examples(150)
@given(fragments())
def test_identity_translation_is_the_fragment(fragment: str) -> None:
    parsed = parse_inline(fragment, XML)
    spans = tuple(find_atoms(parsed.text))
    assert parsed.place(parsed.text, TokenAlignment(spans, spans, np.eye(len(spans)))).content == fragment


@examples(150)
@given(fragments())
def test_aligned_copies_of_words_get_the_tags_of_their_words(fragment: str) -> None:
    """A translation with other words in the same order has the tags in the same places."""
    fragment = re.sub(r"(?<=>)(?=\w)|(?<=\w)(?=<)", " ", re.sub(r" +", " ", fragment)).replace("> <", "><")
    parsed = parse_inline(fragment, XML)
    source = find_atoms(parsed.text)
    translation = "".join("Z" if one.isalnum() else one for one in parsed.text)
    target = find_atoms(translation)
    if len(source) == len(target):
        content = parsed.place(translation, TokenAlignment(tuple(source), tuple(target), np.eye(len(source)))).content
        shapes = [re.findall(r"<[^>]*>|\w+", re.sub(r"&\w+;", "w", one)) for one in (content, fragment)]
        assert [one if one[0] == "<" else "word" for one in shapes[0]] == [
            one if one[0] == "<" else "word" for one in shapes[1]
        ]


@examples(100)
@given(st.data(), st.sampled_from(["CtrlAltN", "H2O", "unbelievable", "größer"]), st.lists(WORDS, max_size=4))
def test_tags_in_a_copied_word_cut_its_copy(data: st.DataObject, word: str, others: Sequence[str]) -> None:
    begin, end = sorted(data.draw(st.lists(st.integers(0, len(word)), min_size=2, max_size=2, unique=True)))
    marked = f"{word[:begin]}<b>{word[begin:end]}</b>{word[end:]}"
    place = data.draw(st.integers(0, len(others)))
    translation = " ".join([*others[:place], word, *others[place:]])
    parsed = parse_inline(f"before {marked} after", XML)
    content = parsed.place(translation, data.draw(alignments(parsed.text, translation))).content
    assert marked in content.split(" ")


@examples(100)
@given(st.text(alphabet="<>/abi=\"' &;!-?x\n", max_size=60), st.sampled_from(["xml", "html"]))
def test_any_text_is_split_and_parsed_without_loss(content: str, markup: str) -> None:
    rules = MarkupRules(markup="xml" if markup == "xml" else "html")
    pieces = split_blocks(content, rules)
    assert "".join(pieces) == content
    for piece in pieces[1::2]:
        parsed = parse_inline(piece, rules)
        none = TokenAlignment((), (), np.zeros((0, 0)))
        assert parsed.place(parsed.text, none).content == piece
        assert tag_counts(parsed.place("Z", none).content, rules) == tag_counts(piece, rules)
