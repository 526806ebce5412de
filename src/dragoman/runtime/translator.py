"""Texts in, translations out: the way of a trained network's user."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, final

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from dragoman.config import parse
from dragoman.data.tokenizer import Tokenizer
from dragoman.decoding import Hypothesis, LengthLimit, Normalisation, SearchSettings, score_hypotheses, search
from dragoman.decoding.penalties import normalised
from dragoman.errors import DataError
from dragoman.models.interfaces import Seq2Seq, Symbols
from dragoman.runtime.batches import batches_by_length
from dragoman.runtime.splitting import split

DEFAULTS = SearchSettings()
BATCH_TOKENS = 4096
LONGEST_PIECE = 512
"""Tokens of a source above which it is translated in pieces, cut between sentences where there are any."""
LONGEST_LINE = 65_536
"""Tokens above which a line is no sentence or paragraph but a mistake, and is refused."""
STREAM_CHUNK = 4096
"""Lines of a stream that are sorted and batched together."""

Ids = list[int]


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
        self._module = model if isinstance(model, nn.Module) else None
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
    ) -> list[str]:
        """The best translation of each text, in order; that of an empty text is empty.

        Raises ConfigError on settings that make no sense, DataError on a text too long to be meant.
        """
        asked = {
            "beam": beam,
            "normalisation": normalisation,
            "minimum_length": minimum_length,
            "maximum_length": maximum_length,
        }
        return [found[0].text for found in self.hypotheses(texts, parse(SearchSettings, asked))]

    def hypotheses(
        self, texts: Sequence[str], settings: SearchSettings = DEFAULTS, *, first_line: int = 1
    ) -> list[list[Translation]]:
        """The `settings.best` best translations of each text, best first, at least one for each.

        Messages number the texts from `first_line`. Raises DataError on a text too long to be meant.
        """
        lines = self._pieces(texts, first_line)
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
        self, lines: Iterable[str], settings: SearchSettings = DEFAULTS, *, chunk: int = STREAM_CHUNK
    ) -> Iterator[list[Translation]]:
        """What `hypotheses` returns, for any number of lines in the memory of `chunk` of them."""
        iterator, first_line = iter(lines), 1
        while texts := list(islice(iterator, chunk)):
            yield from self.hypotheses(texts, settings, first_line=first_line)
            first_line += len(texts)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        normalisation: Normalisation = DEFAULTS.normalisation,
        first_line: int = 1,
    ) -> list[Hypothesis]:
        """Each target as an output for its source, with the log-probability that the network gives it.

        Raises DataError when there are not as many targets as sources, or a line is too long for the network.
        """
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources but {len(targets)} targets, from line {first_line} on; give one for each"
            )
        source_ids = self.tokenizer.source.encode_batch(list(_checked(sources)))
        target_ids = self.tokenizer.target.encode_batch(list(_checked(targets)))
        lengths = [max(len(one), len(other)) + 1 for one, other in zip(source_ids, target_ids, strict=True)]
        for number, length in enumerate(lengths, start=first_line):
            self._refuse_beyond(self._positions or LONGEST_LINE, length, number)
        results: dict[int, Hypothesis] = {}
        with self._in_use():
            for rows in batches_by_length(lengths, budget=self.batch_tokens):
                source, source_lengths = self._sources([source_ids[row] for row in rows])
                scored = score_hypotheses(
                    self.model,
                    source,
                    source_lengths,
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
    ) -> Iterator[Hypothesis]:
        """What `score` returns, for any number of (source, target) pairs in the memory of `chunk` of them."""
        iterator, first_line = iter(pairs), 1
        while some := list(islice(iterator, chunk)):
            sources, targets = zip(*some, strict=True)
            yield from self.score(sources, targets, normalisation=normalisation, first_line=first_line)
            first_line += len(some)

    def _pieces(self, texts: Sequence[str], first_line: int) -> list[list[Ids]]:
        """The ids of each text: none for an empty one, and of several pieces for one that is too long."""
        encode = self.tokenizer.source.encode_batch
        whole = encode(list(_checked(texts)))
        lines = [[ids] if ids else [] for ids in whole]
        for place, ids in enumerate(whole):
            if len(ids) > self._longest_piece:
                number = first_line + place
                self._refuse_beyond(LONGEST_LINE, len(ids), number)
                parts = split(texts[place], lambda text: len(encode([text])[0]) <= self._longest_piece)
                lines[place] = [part for part in encode(parts) if part]
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

    def _search(self, pieces: Sequence[Ids], settings: SearchSettings) -> list[list[Translation]]:
        results: dict[int, list[Translation]] = {}
        with self._in_use():
            for rows in batches_by_length([len(ids) + 1 for ids in pieces], budget=self.batch_tokens):
                batch = self._search_batch([pieces[row] for row in rows], settings)
                results |= {row: self._translations(found) for row, found in zip(rows, batch, strict=True)}
        return [results[row] for row in range(len(pieces))]

    def _search_batch(self, pieces: Sequence[Ids], settings: SearchSettings) -> list[list[Hypothesis]]:
        limits = [settings.limit(len(ids)) for ids in pieces]
        if self._positions is not None:
            limits = [min(limit, self._positions - 1) for limit in limits]
        memory = self.model.encode(*self._sources(pieces))
        return search(
            self.model,
            memory,
            limits=torch.tensor(limits, device=self.device),
            settings=settings,
            symbols=self._symbols,
        )

    def _sources(self, pieces: Sequence[Ids]) -> tuple[torch.Tensor, torch.Tensor]:
        """The padded sources with their end symbols, and their lengths."""
        rows = [torch.tensor([*ids, self._symbols.end]) for ids in pieces]
        source = pad_sequence(rows, batch_first=True, padding_value=self._symbols.pad)
        return source.to(self.device), torch.tensor([len(row) for row in rows], device=self.device)

    def _translations(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        side = self.tokenizer.target
        return [Translation(side.decode(one.tokens), one, tuple(side.tokens(one.tokens))) for one in hypotheses]

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Without gradients and without dropout; a network in training goes on training afterwards."""
        training = self._module is not None and self._module.training
        with torch.inference_mode():
            self._set_training(False)
            try:
                yield
            finally:
                self._set_training(training)

    def _set_training(self, training: bool) -> None:
        if self._module is not None and self._module.training != training:
            self._module.train(training)


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
