"""Texts in, translations out: the way of a trained network's user."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, final

import torch

from dragoman.config import parse
from dragoman.data.corpora.conllu import Heads
from dragoman.data.tokenizer import Tokenizer
from dragoman.data.trees import of_pieces
from dragoman.decoding import Hypothesis, LengthLimit, Normalisation, SearchSettings, score_hypotheses, search
from dragoman.decoding.penalties import normalised
from dragoman.errors import DataError
from dragoman.models.interfaces import Seq2Seq, Symbols
from dragoman.runtime.batches import batches_by_length, rectangle
from dragoman.runtime.in_use import in_use
from dragoman.runtime.splitting import split
from dragoman.runtime.trees import Reader, Trees, refuse_more

DEFAULTS = SearchSettings()
BATCH_TOKENS = 4096
LONGEST_PIECE = 512
"""Tokens of a source above which it is translated in pieces, cut between sentences where there are any."""
LONGEST_LINE = 65_536
"""Tokens above which a line is no sentence or paragraph but a mistake, and is refused."""
STREAM_CHUNK = 4096
"""Lines of a stream that are sorted and batched together."""

Ids = list[int]


class Piece(NamedTuple):
    """What the network reads at once, with the tree of its words where the network reads trees."""

    ids: Ids
    heads: Heads | None


class TranslationWarning(UserWarning):
    """Something about one line that its reader should know; the message names the line."""


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of a text; `tokens` are its pieces in readable form."""

    text: str
    hypothesis: Hypothesis
    tokens: tuple[str, ...]


NOTHING = Translation(text="", hypothesis=Hypothesis((), 0.0, 0.0, (), finished=True), tokens=())
"""The translation of an empty text, for which no network is asked."""


@final
class Translator:
    """A network and its tokenizer, for use.

    Every text is translated whole or in pieces, never cut short without a `TranslationWarning` that names its line. The
    result for a text does not depend on the texts beside it.
    """

    def __init__(
        self,
        model: Seq2Seq[Any, Any],
        tokenizer: Tokenizer,
        *,
        device: torch.device | str = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        longest_piece: int = LONGEST_PIECE,
    ) -> None:
        """`batch_tokens` bounds the source tokens of a batch, padding included; the model is on `device` already."""
        self.model = model
        self.tokenizer = tokenizer
        self.device = torch.device(device)
        self.batch_tokens = batch_tokens
        self._symbols = Symbols()
        self._reader = Reader(model, tokenizer.source)
        self._positions: int | None = getattr(model, "maximum_length", None)
        # One position is for the end symbol of a source, and for the begin symbol of a target.
        self._longest_piece = longest_piece if self._positions is None else min(longest_piece, self._positions - 1)

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int = DEFAULTS.beam,
        normalisation: Normalisation = DEFAULTS.normalisation,
        minimum_length: int = DEFAULTS.minimum_length,
        maximum_length: LengthLimit = DEFAULTS.maximum_length,
        trees: Trees | None = None,
    ) -> list[str]:
        """The best translation of each text, in order; that of an empty text is empty.

        A network with structural positions needs the tree of each text: the word that each of its words, which white
        space separates, hangs on, counted from 1, and 0 for a root. Raises ConfigError on settings that make no sense,
        DataError on a text too long to be meant, and on trees that are missing or none of their texts.
        """
        asked = {
            "beam": beam,
            "normalisation": normalisation,
            "minimum_length": minimum_length,
            "maximum_length": maximum_length,
        }
        return [found[0].text for found in self.hypotheses(texts, parse(SearchSettings, asked), trees=trees)]

    def hypotheses(
        self,
        texts: Sequence[str],
        settings: SearchSettings = DEFAULTS,
        *,
        first_line: int = 1,
        trees: Trees | None = None,
    ) -> list[list[Translation]]:
        """The `settings.best` best translations of each text, best first, at least one for each.

        Messages number the texts from `first_line`. Raises DataError as `translate` does.
        """
        lines = self._pieces(texts, self._reader.trees_of(_checked(texts), trees, first_line), first_line)
        pieces = [piece for line in lines for piece in line]
        found = iter(self._search(pieces, settings))
        results = [_joined([next(found) for _ in line], settings) for line in lines]
        for number, translations in enumerate(results, start=first_line):
            if not translations[0].hypothesis.finished:
                _warn(
                    f"line {number}: the translation reached its longest allowed length before it was over "
                    f"({len(translations[0].tokens)} tokens); if it should go on, raise the maximum length"
                )
        return results

    def stream(
        self,
        lines: Iterable[str],
        settings: SearchSettings = DEFAULTS,
        *,
        chunk: int = STREAM_CHUNK,
        trees: Iterable[Sequence[int]] | None = None,
    ) -> Iterator[list[Translation]]:
        """What `hypotheses` returns, for any number of lines in the memory of `chunk` of them."""
        iterator, first_line = iter(lines), 1
        beside = None if trees is None else iter(trees)
        while texts := list(islice(iterator, chunk)):
            theirs = None if beside is None else list(islice(beside, len(texts)))
            yield from self.hypotheses(texts, settings, first_line=first_line, trees=theirs)
            first_line += len(texts)
        refuse_more(beside, texts=first_line - 1)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        normalisation: Normalisation = DEFAULTS.normalisation,
        first_line: int = 1,
        trees: Trees | None = None,
    ) -> list[Hypothesis]:
        """Each target as an output for its source, with the log-probability that the network gives it.

        `trees` are those of the sources, as for `translate`. Raises DataError when there are not as many targets as
        sources, a line is too long for the network, or trees are missing or none of their texts.
        """
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources but {len(targets)} targets, from line {first_line} on; give one for each"
            )
        heads = self._reader.trees_of(_checked(sources), trees, first_line)
        source_ids = self.tokenizer.source.encode_batch(list(sources))
        target_ids = self.tokenizer.target.encode_batch(list(_checked(targets)))
        lengths = [max(len(one), len(other)) + 1 for one, other in zip(source_ids, target_ids, strict=True)]
        for number, length in enumerate(lengths, start=first_line):
            self._refuse_beyond(self._positions or LONGEST_LINE, length, number)
        results: dict[int, Hypothesis] = {}
        with in_use(self.model):
            for rows in batches_by_length(lengths, budget=self.batch_tokens):
                pieces = [Piece(source_ids[row], heads[row]) for row in rows]
                scored = score_hypotheses(
                    self._model_for(pieces),
                    *self._sources(pieces),
                    outputs=[target_ids[row] for row in rows],
                    normalisation=normalisation,
                    symbols=self._symbols,
                )
                results |= dict(zip(rows, scored, strict=True))
        return [results[row] for row in range(len(lengths))]

    def score_stream(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        normalisation: Normalisation = DEFAULTS.normalisation,
        chunk: int = STREAM_CHUNK,
        trees: Iterable[Sequence[int]] | None = None,
    ) -> Iterator[Hypothesis]:
        """What `score` returns, for any number of (source, target) pairs in the memory of `chunk` of them."""
        iterator, first_line = iter(pairs), 1
        beside = None if trees is None else iter(trees)
        while some := list(islice(iterator, chunk)):
            sources, targets = zip(*some, strict=True)
            theirs = None if beside is None else list(islice(beside, len(some)))
            yield from self.score(sources, targets, normalisation=normalisation, first_line=first_line, trees=theirs)
            first_line += len(some)
        refuse_more(beside, texts=first_line - 1)

    def _pieces(self, texts: Sequence[str], trees: Sequence[Heads | None], first_line: int) -> list[list[Piece]]:
        """What is read of each text: nothing of an empty one, and several pieces of one that is too long."""
        encode = self.tokenizer.source.encode_batch
        whole = encode(list(texts))
        lines = [[Piece(ids, heads)] if ids else [] for ids, heads in zip(whole, trees, strict=True)]
        for place, ids in enumerate(whole):
            if len(ids) > self._longest_piece:
                number = first_line + place
                self._refuse_beyond(LONGEST_LINE, len(ids), number)
                parts = split(texts[place], lambda text: len(encode([text])[0]) <= self._longest_piece)
                heads = trees[place]
                theirs = [None] * len(parts) if heads is None else of_pieces(heads, texts[place], parts)
                lines[place] = [Piece(*piece) for piece in zip(encode(parts), theirs, strict=True) if piece[0]]
                _warn(
                    f"line {number}: {len(ids)} tokens are too long to be translated at once (at most "
                    f"{self._longest_piece}); the line was translated in {len(lines[place])} pieces"
                )
        return lines

    def _refuse_beyond(self, limit: int, length: int, number: int) -> None:
        if length > limit:
            raise DataError(
                f"line {number}: {length} tokens, more than the {limit} that a line may have; "
                "put one sentence or paragraph on each line"
            )

    def _search(self, pieces: Sequence[Piece], settings: SearchSettings) -> list[list[Translation]]:
        results: dict[int, list[Translation]] = {}
        with in_use(self.model):
            for rows in batches_by_length([len(piece.ids) + 1 for piece in pieces], budget=self.batch_tokens):
                batch = self._search_batch([pieces[row] for row in rows], settings)
                results |= {row: self._translations(found) for row, found in zip(rows, batch, strict=True)}
        return [results[row] for row in range(len(pieces))]

    def _search_batch(self, pieces: Sequence[Piece], settings: SearchSettings) -> list[list[Hypothesis]]:
        limits = [settings.limit(len(piece.ids)) for piece in pieces]
        if self._positions is not None:
            limits = [min(limit, self._positions - 1) for limit in limits]
        memory = self._model_for(pieces).encode(*self._sources(pieces))
        return search(
            self.model,
            memory,
            limits=torch.tensor(limits, device=self.device),
            settings=settings,
            symbols=self._symbols,
        )

    def _sources(self, pieces: Sequence[Piece]) -> tuple[torch.Tensor, torch.Tensor]:
        """The padded sources with their end symbols, and their lengths."""
        return rectangle([[*piece.ids, self._symbols.end] for piece in pieces], device=self.device)

    def _model_for(self, pieces: Sequence[Piece]) -> Seq2Seq[Any, Any]:
        """The network as it reads these pieces."""
        trees = [piece.heads for piece in pieces if piece.heads is not None]
        return self._reader.reading([piece.ids for piece in pieces], trees, device=self.device) if trees else self.model

    def _translations(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        side = self.tokenizer.target
        return [Translation(side.decode(one.tokens), one, tuple(side.tokens(one.tokens))) for one in hypotheses]


def _joined(pieces: list[list[Translation]], settings: SearchSettings) -> list[Translation]:
    """The translations of a line from those of its pieces: best with best, second with second, and so on."""
    if not pieces:
        return [NOTHING]
    if len(pieces) == 1:
        return pieces[0]
    return [_join(ranked, settings) for ranked in zip(*pieces, strict=False)]


def _join(parts: Sequence[Translation], settings: SearchSettings) -> Translation:
    hypotheses = [part.hypothesis for part in parts]
    log_prob = sum(one.log_prob for one in hypotheses)
    length = torch.tensor(sum(one.length for one in hypotheses))
    return Translation(
        text=" ".join(part.text for part in parts if part.text),
        hypothesis=Hypothesis(
            tokens=tuple(token for one in hypotheses for token in one.tokens),
            log_prob=log_prob,
            score=float(normalised(torch.tensor(log_prob), length, settings.normalisation)),
            token_log_probs=tuple(number for one in hypotheses for number in one.token_log_probs),
            finished=all(one.finished for one in hypotheses),
        ),
        tokens=tuple(token for part in parts for token in part.tokens),
    )


def _checked(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise TypeError("expected a list of texts, got one text; put it into a list")
    return texts


def _warn(message: str) -> None:
    warnings.warn(message, TranslationWarning, stacklevel=3)
