"""A text as a translator takes it: sentences of it, and the pieces that the network reads at once."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import SearchSettings
from dragoman.inference.sentence_splitting import Layout
from dragoman.inference.translation import Translation, in_a_row, joined


class Sentence(NamedTuple):
    """What is translated for itself: a line, whose number this is, or a sentence of it where lines are split."""

    text: str
    heads: Heads | None
    line: int


class Piece(NamedTuple):
    """What the network reads at once, with the tree of its words where the network reads trees."""

    ids: list[int]
    heads: Heads | None


class Line(NamedTuple):
    """A text as it is translated: the pieces of each of its sentences."""

    layout: Layout
    sentences: list[list[Piece]]

    def pieces(self) -> list[Piece]:
        return [piece for sentence in self.sentences for piece in sentence]

    def translated(self, found: Iterator[list[Translation]], settings: SearchSettings) -> list[Translation]:
        """The whole from what is found for its pieces, one after the other."""
        sentences = [joined([next(found) for _ in pieces], settings, together=in_a_row) for pieces in self.sentences]
        return joined(sentences, settings, together=self.layout.around)


def sentences_of(
    layouts: Sequence[Layout], texts: Sequence[str], trees: Sequence[Heads | None], first_line: int
) -> list[list[Sentence]]:
    """The sentences of each line, with the tree of each where there are trees."""
    lines = []
    for line, (layout, text, heads) in enumerate(zip(layouts, texts, trees, strict=True), start=first_line):
        theirs = [None] * len(layout.sentences) if heads is None else of_pieces(heads, text, layout.sentences)
        lines.append([Sentence(*one, line) for one in zip(layout.sentences, theirs, strict=True)])
    return lines


def of_pieces(heads: Heads, text: str, pieces: Sequence[str]) -> Sequence[Heads]:
    """The trees of parts of a text, from its own; PyTorch is not imported where there are none."""
    from dragoman.data.datasets import trees

    return trees.of_pieces(heads, text, pieces)
