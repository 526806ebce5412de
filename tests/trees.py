"""Dependency trees at random, and what is told of them to files and networks, put together by hand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import torch
from hypothesis import strategies as st

from dragoman.shapes import Structure
from tests.fake_models import SYMBOLS

Heads = tuple[int, ...]


@st.composite
def forests(draw: st.DrawFn, *, most: int = 7) -> Heads:
    """The head of each word, of none up to `most`; there may be several roots."""
    order = draw(st.integers(0, most).flatmap(lambda words: st.permutations(range(1, words + 1))))
    heads = dict.fromkeys(order, 0)
    for place, word in enumerate(order):
        heads[word] = draw(st.sampled_from([0, *order[:place]]))
    return tuple(heads[word] for word in sorted(heads))


def random_tree(generator: Random, words: int) -> Heads:
    """A tree with one root."""
    order = generator.sample(range(1, words + 1), words)
    heads = {word: generator.choice(order[:place]) if place else 0 for place, word in enumerate(order)}
    return tuple(heads[word] for word in sorted(heads))


def way_up(heads: Sequence[int], word: int) -> list[int]:
    """The word, what it hangs on, and so on up to 0."""
    return [word] if word == 0 else [word, *way_up(heads, heads[word - 1])]


def depth(heads: Sequence[int], word: int) -> int:
    return len(way_up(heads, word)) - 1


def relation(heads: Sequence[int], first: int, second: int) -> int:
    """By the definition: along one way up the difference of depths, else the signed sum."""
    own, other = depth(heads, first), depth(heads, second)
    if second in way_up(heads, first) or first in way_up(heads, second):
        return other - own
    return own + other if second > first else -own - other


@dataclass(frozen=True)
class Parsed:
    """A source as ids without END, the number of tokens of each word, and the heads of the words."""

    ids: tuple[int, ...]
    sizes: tuple[int, ...]
    heads: Heads

    @property
    def words(self) -> list[int]:
        """The word of each token, END included."""
        return [*(word for word, size in enumerate(self.sizes, start=1) for _ in range(size)), 0]


@st.composite
def parsed(draw: st.DrawFn, *, vocabulary: int, most: int = 5) -> Parsed:
    """A source of words of one to three tokens."""
    heads = draw(forests(most=most))
    sizes = tuple(draw(st.integers(1, 3)) for _ in heads)
    ids = draw(st.lists(st.integers(4, vocabulary - 1), min_size=sum(sizes), max_size=sum(sizes)))
    return Parsed(tuple(ids), sizes, heads)


def structure_of(sources: Sequence[Parsed], *, places: int = 0, words: int = 0) -> Structure:
    """The trees of some sources, with so many more places and words of padding."""
    of_tokens = [source.words for source in sources]
    with_root = [[0, *source.heads] for source in sources]
    return Structure(_rectangle(of_tokens, more=places), _rectangle(with_root, more=words))


def conllu(sentences: Iterable[tuple[str, Heads]]) -> str:
    """A file of sentences, whose words stand between spaces."""
    blocks = []
    for text, heads in sentences:
        rows = enumerate(zip(text.split(), heads, strict=True), start=1)
        lines = [f"{number}\t{word}\t_\t_\t_\t_\t{head}\t_\t_\t_" for number, (word, head) in rows]
        blocks.append("\n".join([f"# text = {text}", *lines]) + "\n\n")
    return "".join(blocks)


def _rectangle(rows: Sequence[Sequence[int]], *, more: int) -> torch.Tensor:
    width = max(len(row) for row in rows) + more
    return torch.tensor([[*row, *[SYMBOLS.pad] * (width - len(row))] for row in rows])
