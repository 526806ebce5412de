"""Random dependency trees, and the forms in which files and models receive them, built by hand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import torch
from hypothesis import strategies as st

from dragoman.array_types import SourceFeatures
from tests.fake_models import SYMBOLS

Heads = tuple[int, ...]


@st.composite
def forests(draw: st.DrawFn, *, most: int = 7) -> Heads:
    """Draw the head of each word, for up to `most` words; several roots are allowed."""
    order = draw(st.integers(0, most).flatmap(lambda words: st.permutations(range(1, words + 1))))
    heads = dict.fromkeys(order, 0)
    for place, word in enumerate(order):
        heads[word] = draw(st.sampled_from([0, *order[:place]]))
    return tuple(heads[word] for word in sorted(heads))


def random_tree(generator: Random, words: int) -> Heads:
    """Return a tree with one root."""
    order = generator.sample(range(1, words + 1), words)
    heads = {word: generator.choice(order[:place]) if place else 0 for place, word in enumerate(order)}
    return tuple(heads[word] for word in sorted(heads))


def path_to_root(heads: Sequence[int], word: int) -> list[int]:
    """Return the word, its head, and so on up to 0."""
    return [word] if word == 0 else [word, *path_to_root(heads, heads[word - 1])]


def depth(heads: Sequence[int], word: int) -> int:
    return len(path_to_root(heads, word)) - 1


def relation(heads: Sequence[int], first: int, second: int) -> int:
    """Return the relation by definition: the difference of depths along one path to the root, else the signed sum."""
    own, other = depth(heads, first), depth(heads, second)
    if second in path_to_root(heads, first) or first in path_to_root(heads, second):
        return other - own
    return own + other if second > first else -own - other


@dataclass(frozen=True)
class Parsed:
    """A source as ids without EOS, the number of tokens per word, and the heads of the words."""

    ids: tuple[int, ...]
    sizes: tuple[int, ...]
    heads: Heads

    @property
    def words(self) -> list[int]:
        """Return the word of each token, EOS included."""
        return [*(word for word, size in enumerate(self.sizes, start=1) for _ in range(size)), 0]


@st.composite
def parsed(draw: st.DrawFn, *, vocabulary: int, most: int = 5) -> Parsed:
    """Draw a source whose words have one to three tokens."""
    heads = draw(forests(most=most))
    sizes = tuple(draw(st.integers(1, 3)) for _ in heads)
    ids = draw(st.lists(st.integers(4, vocabulary - 1), min_size=sum(sizes), max_size=sum(sizes)))
    return Parsed(tuple(ids), sizes, heads)


def structure_of(sources: Sequence[Parsed], *, places: int = 0, words: int = 0) -> SourceFeatures:
    """Return the trees of some sources, with extra positions and words of padding."""
    of_tokens = [source.words for source in sources]
    with_root = [[0, *source.heads] for source in sources]
    return SourceFeatures(_rectangle(of_tokens, more=places), _rectangle(with_root, more=words))


def conllu(sentences: Iterable[tuple[str, Heads]]) -> str:
    """Return a CoNLL-U file of sentences, whose words are separated by spaces."""
    blocks = []
    for text, heads in sentences:
        rows = enumerate(zip(text.split(), heads, strict=True), start=1)
        lines = [f"{number}\t{word}\t_\t_\t_\t_\t{head}\t_\t_\t_" for number, (word, head) in rows]
        blocks.append("\n".join([f"# text = {text}", *lines]) + "\n\n")
    return "".join(blocks)


def _rectangle(rows: Sequence[Sequence[int]], *, more: int) -> torch.Tensor:
    width = max(len(row) for row in rows) + more
    return torch.tensor([[*row, *[SYMBOLS.pad] * (width - len(row))] for row in rows])
