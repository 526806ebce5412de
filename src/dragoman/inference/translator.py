"""Texts in, translations out: the way of a trained network's user."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from typing import Any, final

import numpy as np

from dragoman.config import merge, parse
from dragoman.data.readers.conllu import Heads
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding import Choice, Hypothesis, LengthLimit, Normalisation, SearchSettings, search
from dragoman.errors import ConfigError, DataError, warn
from dragoman.inference.backends.protocol import Translating
from dragoman.inference.engine.engine import Engine
from dragoman.inference.engine.in_order import in_order
from dragoman.inference.engine.request import Request
from dragoman.inference.engine.scheduler import Running
from dragoman.inference.length_batches import batches_by_length
from dragoman.inference.segmentation import split as split_long
from dragoman.inference.segments import Line, Piece, Sentence, of_pieces, sentences_of
from dragoman.inference.sentence_splitting import Layout, Split, cutting, whole
from dragoman.inference.source_trees import Trees, portions, refuse_more, trees_of
from dragoman.inference.translation import Translation
from dragoman.models.special_symbols import Symbols

DEFAULTS = SearchSettings()
BATCH_TOKENS = 4096
LONGEST_PIECE = 512
"""Tokens of a source above which it is translated in pieces, cut between sentences where there are any."""
LONGEST_LINE = 65_536
"""Tokens above which a line is no sentence or paragraph but a mistake, and is refused."""
STREAM_CHUNK = 4096
"""Lines of a stream that are read ahead of the translation that is given out next, or sorted and batched together."""
READ_AT_ONCE = 256
"""Lines of them that become ids together."""

Ids = list[int]


class TranslationWarning(UserWarning):
    """Something about one line that its reader should know; the message names the line."""


@final
class Translator:
    """A network and its tokenizer, for use.

    Every text is translated whole or in pieces, never cut short without a `TranslationWarning` that names its line. The
    result for a text does not depend on the texts beside it. What a caller does not say of the search is as in
    `settings`: for a run that was trained, as its configuration has it.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        device: Any = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        longest_piece: int = LONGEST_PIECE,
        settings: SearchSettings = DEFAULTS,
        engine: Engine | None = None,
    ) -> None:
        """`batch_tokens` bounds the source tokens of a batch, padding included.

        The model is a `runtime.network.Translating`, or a `models.interfaces.Seq2Seq` of PyTorch, on `device` already.
        Where an engine has it at work, that is asked, as `shared` explains.
        """
        self.model = model
        self.tokenizer = tokenizer
        self.batch_tokens = batch_tokens
        self.settings = settings
        self._symbols = Symbols()
        self.network = _network_of(model, tokenizer, device)
        """The model as searches and engines ask it."""
        self._engine = engine
        self.device = self.network.device
        self._positions = self.network.maximum_length
        # One position is for the end symbol of a source, and for the begin symbol of a target.
        self.longest_piece = longest_piece if self._positions is None else min(longest_piece, self._positions - 1)
        """The tokens of the longest text that is read at once; longer ones are translated in pieces."""

    def reads_whole(self, text: str) -> bool:
        """Whether a text is translated at once and not in pieces."""
        return len(self.tokenizer.source.encode(text)) <= self.longest_piece

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        normalisation: Normalisation | None = None,
        choice: Choice | None = None,
        minimum_length: int | None = None,
        maximum_length: LengthLimit | None = None,
        trees: Trees | None = None,
        split: Split | None = None,
        language: str | None = None,
    ) -> list[str]:
        """The best translation of each text, in order; that of an empty text is empty.

        With `split="sentences"` a text of any length is translated sentence by sentence, and the white space between
        them is kept, blank lines and indentation too; `language` is the code of its language, "en" without it. A
        network with structural positions needs the tree of each text: the word that each of its words, which white
        space separates, hangs on, counted from 1, and 0 for a root. Raises ConfigError on settings that make no sense,
        DataError on a text too long to be meant and on trees that are missing or none of their texts, and
        MissingExtraError where the splitter is not installed.
        """
        settings = self.searching(
            beam=beam,
            normalisation=normalisation,
            choice=choice,
            minimum_length=minimum_length,
            maximum_length=maximum_length,
        )
        found = self.hypotheses(texts, settings, trees=trees, split=split, language=language)
        return [translations[0].text for translations in found]

    def searching(self, *, where: str = "", **asked: Any) -> SearchSettings:
        """Its own settings of search with what is asked in their place, and None for what is not.

        Of a group such as `maximum_length` a mapping may give some keys. Raises ConfigError, which begins with `where`.
        """
        given = {name: value for name, value in asked.items() if value is not None}
        return parse(SearchSettings, merge(self.settings.model_dump(), given), where=where)

    def hypotheses(
        self,
        texts: Sequence[str],
        settings: SearchSettings | None = None,
        *,
        first_line: int = 1,
        trees: Trees | None = None,
        split: Split | None = None,
        language: str | None = None,
    ) -> list[list[Translation]]:
        """The `settings.best` best translations of each text, best first, at least one for each.

        A text that is translated in parts has the sum of their log-probabilities; its best translation is made of their
        best ones, its second of their second ones, and so on. Messages number the texts from `first_line`. Raises what
        `translate` does.
        """
        settings = settings or self.settings
        cut = cutting(split, language)
        lines = list(self._lines(texts, self._trees_of(texts, trees, first_line), first_line, cut=cut))
        found = iter(self._search([piece for line in lines for piece in line.pieces()], settings))
        results = [line.translated(found, settings) for line in lines]
        for number, translations in enumerate(results, start=first_line):
            _warn_unless_finished(translations, number)
        return results

    def stream(
        self,
        lines: Iterable[str],
        settings: SearchSettings | None = None,
        *,
        chunk: int = STREAM_CHUNK,
        trees: Iterable[Sequence[int]] | None = None,
        split: Split | None = None,
        language: str | None = None,
    ) -> Iterator[list[Translation]]:
        """What `hypotheses` returns, for any number of lines in the memory of `chunk` of them.

        Where sentences may join the batch freely, a line is read whenever one has been given out, and the batch never
        runs empty; else `chunk` lines are translated after the other. Raises in its place what is wrong with a line.
        """
        settings = settings or self.settings
        beside = None if trees is None else iter(trees)
        cut = cutting(split, language)
        if self._engine is not None or not self.network.joins_freely:
            for first_line, texts, theirs in portions(lines, beside, size=chunk):
                yield from self.hypotheses(
                    texts, settings, first_line=first_line, trees=theirs, split=split, language=language
                )
            return
        asked: deque[Line] = deque()

        def jobs() -> Iterator[list[Request]]:
            for first_line, texts, theirs in portions(lines, beside, size=min(chunk, READ_AT_ONCE)):
                for line in self._lines(texts, self._trees_of(texts, theirs, first_line), first_line, cut=cut):
                    asked.append(line)
                    yield self._requests(line.pieces(), settings)

        answers = in_order(Running(self.network, room=self.batch_tokens), jobs(), ahead=chunk)
        for number in count(1):
            with self.network.in_use():
                answer = next(answers, None)
            if answer is None:
                return
            translations = asked.popleft().translated(map(self._translations, answer), settings)
            _warn_unless_finished(translations, number)
            yield translations

    @contextmanager
    def shared(self) -> Iterator["Translator"]:
        """Inside, a translator for any number of threads, whose texts run in one batch as they come.

        What it finds does not depend on who asks meanwhile; callers that ask for too much at a time wait.
        """
        with Engine(self.network, room=self.batch_tokens) as engine:
            yield Translator(
                self.model,
                self.tokenizer,
                device=self.device,
                batch_tokens=self.batch_tokens,
                longest_piece=self.longest_piece,
                settings=self.settings,
                engine=engine,
            )

    def around(self, network: Translating[Any, Any]) -> "Translator":
        """The same with another network, such as one around this one's."""
        return Translator(
            network,
            self.tokenizer,
            device=self.device,
            batch_tokens=self.batch_tokens,
            longest_piece=self.longest_piece,
            settings=self.settings,
        )

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        normalisation: Normalisation | None = None,
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
        heads = self._trees_of(sources, trees, first_line)
        source_ids = self.tokenizer.source.encode_batch(list(sources))
        target_ids = self.tokenizer.target.encode_batch(list(_checked(targets)))
        lengths = [max(len(one), len(other)) + 1 for one, other in zip(source_ids, target_ids, strict=True)]
        for number, length in enumerate(lengths, start=first_line):
            self._refuse_beyond(self._positions or LONGEST_LINE, length, number)
        results: dict[int, Hypothesis] = {}
        with self.network.in_use():
            for rows in batches_by_length(lengths, budget=self.batch_tokens):
                scored = self.network.score(
                    [source_ids[row] for row in rows],
                    [target_ids[row] for row in rows],
                    normalisation=normalisation or self.settings.normalisation,
                    trees=_given([heads[row] for row in rows]),
                )
                results |= dict(zip(rows, scored, strict=True))
        return [results[row] for row in range(len(lengths))]

    def score_stream(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        normalisation: Normalisation | None = None,
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

    def _trees_of(self, texts: Sequence[str], trees: Trees | None, first_line: int) -> list[Heads | None]:
        return trees_of(_checked(texts), trees, first_line, structural=self.network.structural)

    def _lines(
        self, texts: Sequence[str], trees: Sequence[Heads | None], first_line: int, *, cut: Callable[[str], Layout]
    ) -> Iterator[Line]:
        """What is read of each text; one that is too long is refused when those before it are given out."""
        layouts = list(map(cut, _checked(texts)))
        lines = sentences_of(layouts, texts, trees, first_line)
        pieces = self._pieces([sentence for line in lines for sentence in line], split=cut is not whole)
        for layout, line in zip(layouts, lines, strict=True):
            yield Line(layout, [next(pieces) for _ in line])

    def _pieces(self, sentences: Sequence[Sentence], *, split: bool) -> Iterator[list[Piece]]:
        """What is read of each: nothing of an empty one, and several pieces of one that is too long."""
        encoded = self.tokenizer.source.encode_batch([sentence.text for sentence in sentences])
        for ids, sentence in zip(encoded, sentences, strict=True):
            too_long = len(ids) > self.longest_piece
            yield self._cut(sentence, len(ids), split=split) if too_long else [Piece(ids, sentence.heads)] * bool(ids)

    def _cut(self, sentence: Sentence, length: int, *, split: bool) -> list[Piece]:
        """The pieces of one that is too long; a sentence of what is `split` already is not to be split once more."""
        encode, heads = self.tokenizer.source.encode_batch, sentence.heads
        self._refuse_beyond(LONGEST_LINE, length, sentence.line)
        parts = split_long(sentence.text, lambda text: len(encode([text])[0]) <= self.longest_piece)
        theirs = [None] * len(parts) if heads is None else of_pieces(heads, sentence.text, parts)
        pieces = [Piece(*piece) for piece in zip(encode(parts), theirs, strict=True) if piece[0]]
        beginning = f"a sentence of {length} tokens is" if split else f"{length} tokens are"
        name, remedy = ("it", "") if split else ("the line", "; split it by sentences")
        warn(
            f"line {sentence.line}: {beginning} too long to be translated at once (at most {self.longest_piece}); "
            f"{name} was translated in {len(pieces)} pieces{remedy}",
            TranslationWarning,
        )
        return pieces

    def _refuse_beyond(self, limit: int, length: int, number: int) -> None:
        if length > limit:
            raise DataError(
                f"line {number}: {length} tokens, more than the {limit} that a line may have; "
                "put one sentence or paragraph on each line"
            )

    def _search(self, pieces: Sequence[Piece], settings: SearchSettings) -> list[list[Translation]]:
        asked = self._requests(pieces, settings)
        if self._engine is not None:
            return [self._translations(hypotheses) for hypotheses in self._engine.stream(asked)]
        with self.network.in_use():
            if self.network.joins_freely:
                running = Running(self.network, room=self.batch_tokens)
                answers = in_order(running, ([request] for request in asked), ahead=len(asked) + 1)
                return [self._translations(found) for [found] in answers]
            batches = self._in_batches(asked)
        return [self._translations(batches[request]) for request in asked]

    def _requests(self, pieces: Sequence[Piece], settings: SearchSettings) -> list[Request]:
        return [Request(piece.ids, settings, self._limit(piece, settings), piece.heads) for piece in pieces]

    def _in_batches(self, asked: Sequence[Request]) -> dict[Request, list[Hypothesis]]:
        """What is found in batches of like length."""
        found: dict[Request, list[Hypothesis]] = {}
        for rows in batches_by_length([request.tokens for request in asked], budget=self.batch_tokens):
            batch = [asked[row] for row in rows]
            hypotheses = search(
                self.network,
                self.network.encode([one.ids for one in batch], _given([one.heads for one in batch])),
                limits=np.array([one.limit for one in batch]),
                settings=batch[0].settings,
                symbols=self._symbols,
            )
            found |= dict(zip(batch, hypotheses, strict=True))
        return found

    def _limit(self, piece: Piece, settings: SearchSettings) -> int:
        """The most tokens of the output."""
        limit = settings.limit(len(piece.ids))
        if self._positions is not None and settings.minimum_length > self._positions - 1:
            raise ConfigError(
                f"minimum_length = {settings.minimum_length}: an output of this network has at most "
                f"{self._positions - 1} tokens; lower it"
            )
        return limit if self._positions is None else min(limit, self._positions - 1)

    def _translations(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        side = self.tokenizer.target
        return [Translation(side.decode(one.tokens), one, tuple(side.tokens(one.tokens))) for one in hypotheses]


def _network_of(model: Any, tokenizer: Tokenizer, device: Any) -> Translating[Any, Any]:
    """The model as a translator asks it; PyTorch is imported where it is one of its networks."""
    if isinstance(model, Translating):
        return model
    from dragoman.inference.backends.torch_backend import OnTensors

    return OnTensors(model, tokenizer.source, target_vocabulary=len(tokenizer.target), device=device)


def _given(trees: Sequence[Heads | None]) -> list[Heads]:
    """The trees where there are any: every text has one, or none has."""
    return [heads for heads in trees if heads is not None]


def _checked(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise TypeError("expected a list of texts, got one text; put it into a list")
    return texts


def _warn_unless_finished(translations: Sequence[Translation], number: int) -> None:
    if not translations[0].hypothesis.finished:
        warn(
            f"line {number}: the translation reached its longest allowed length before it was over "
            f"({len(translations[0].tokens)} tokens); if it should go on, raise decoding.maximum_length",
            TranslationWarning,
        )
