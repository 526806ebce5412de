"""Pairs of texts, cleaned and turned into ids: what translators and writers of continuations learn from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from torch import Tensor

from dragoman.data.batching.mixing import Times, at_temperature, place_of, row_ends
from dragoman.data.cleaning import Report
from dragoman.data.config import DataSettings, PreparedFolder
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.datasets.trees import SourceTrees, TreeStore, prepare_trees
from dragoman.data.preprocessing.prepare import Ids, Prepared, prepare
from dragoman.data.preprocessing.tokenize import segment, segment_anew
from dragoman.data.readers import Corpus, ParallelFiles, name_of
from dragoman.data.readers.shards import shards
from dragoman.data.tokenizers import Bpe, Tokenizer, TokenizerSettings
from dragoman.data.tokenizers.tokenizer import Pairs as LearntFrom
from dragoman.errors import ConfigError, DataError
from dragoman.inference.translator import LONGEST_LINE
from dragoman.runs.folder import RunFolder
from dragoman.tasks.prepared_data import cache_folder, check_same, listed, own_tokenizer


@final
@dataclass(frozen=True)
class Limits:
    """The most tokens of either side that enter the loss on held-out text."""

    source: int
    target: int

    @property
    def shown(self) -> str:
        """In words."""
        return f"{self.source:,}" if self.source == self.target else f"{self.source:,} and {self.target:,}"

    def within(self, texts: TextStore, tokenizer: Tokenizer) -> TokenStore:
        """The ids of the pairs that are within."""
        return segment(texts, tokenizer, cache_folder(), longest_source=self.source, longest_target=self.target)


@final
@dataclass(frozen=True)
class Pairs:
    """The stores of a run; `left_out` pairs were longer in tokens than the configuration allows."""

    texts: Prepared
    tokenizer: Tokenizer
    train: TokenStore
    valid: TokenStore
    judged: Limits
    left_out: int
    notes: tuple[str, ...]
    """Sentences to be printed."""
    joined: bool
    """Whether one network reads both sides, one after the other."""
    trees: Mapping[str, SourceTrees]
    """Those of the sources of `train`, `valid` and `test`, where they are given."""
    times: Times | None = None
    """How often each pair of `train` is learnt from in an epoch, where that is not once."""
    weights: Mapping[str, Tensor] | None = None
    """What the network begins with, if not with chance."""

    @property
    def fingerprints(self) -> Mapping[str, str]:
        return self.texts.fingerprints

    @property
    def report(self) -> Report:
        return self.texts.report

    @property
    def remarks(self) -> tuple[str, ...]:
        too_long = f"{self.left_out:,} pairs are longer in tokens than the limits and were left out"
        return (*self.texts.notes, *self.notes, *((too_long,) if self.left_out else ()))

    @property
    def sizes(self) -> str:
        texts = self.texts
        test = f", {len(texts.test):,} to test" if texts.test is not None else ""
        return f"{len(self.train):,} pairs to learn from, {len(texts.valid):,} to validate{test}"

    @property
    def tokens(self) -> int:
        def of(start: int, stop: int) -> int:
            written = stop - start + int(self.train.target_lengths[start:stop].sum(dtype=np.int64))
            read = int(self.train.source_lengths[start:stop].sum(dtype=np.int64)) if self.joined else 0
            return written + read

        return int(of(0, len(self.train)) if self.times is None else self.times.tokens(of))

    def name(self, rows: Sequence[int]) -> str:
        """Which lines of the corpus the rows of a batch are, in words."""
        lines = [self.texts.train.line(int(self.train.origins[row])) for row in rows]
        if len(self.texts.ends) == 1:
            return f"{listed(lines)} of the training corpus"
        places = [f"{line} of corpus {corpus + 1}" for corpus, line in (place_of(at, self.texts.ends) for at in lines)]
        return f"{listed(places)}, counted from data.train on"


def gather_pairs(
    data: DataSettings,
    folder: RunFolder,
    *,
    learn: Callable[[LearntFrom], Tokenizer],
    seed: int,
    judged: Limits,
    joined: bool = False,
    tell: Callable[[str], None],
) -> Pairs:
    """Read, clean, `learn` the tokenizer from the training text or take the run's own, and segment.

    Raises DataError on texts that cannot be used, and RunError where they are not those the run began with.
    """
    tell("reading and cleaning the corpus")
    texts = prepare(data, cache_folder(), seed=seed)
    check_same(texts.fingerprints, folder)
    stores = _tree_stores(data, cache_folder(), tell=tell)
    sample = texts.train.sample(data.vocabulary_pairs, seed=seed)
    tokenizer = own_tokenizer(folder, lambda: learn(sample), tell=tell)
    tell("turning texts into tokens")
    limits = Limits(data.longest_source, data.longest_target)
    train = _prepared(texts.ids, tokenizer, limits) if texts.ids else limits.within(texts.train, tokenizer)
    if not len(train):
        raise DataError(
            f"every one of the {len(texts.train):,} training pairs is longer than data.longest_source = "
            f"{data.longest_source} or data.longest_target = {data.longest_target} tokens; "
            "raise them, or split the text into sentences"
        )
    for store, given in ((texts.valid, data.valid or data.train), (texts.test, data.test or data.train)):
        if store is not None:
            _refuse_endless(store, tokenizer, where=_named(given))
    valid, notes = _judged(texts, tokenizer, judged)
    trees = _source_trees(stores, texts, tokenizer)
    if data.temperature is not None and len(texts.ends) == 1:
        raise ConfigError("data.temperature mixes several corpora, and one was prepared; leave it out")
    times = _times(data, texts, train) if len(texts.ends) > 1 else None
    return Pairs(texts, tokenizer, train, valid, judged, len(texts.train) - len(train), notes, joined, trees, times)


def store_by_epoch(
    materials: Pairs, data: DataSettings, settings: TokenizerSettings, *, seed: int
) -> TokenStore | Callable[[int], TokenStore]:
    """What is learnt from: one store, or with noise or BPE dropout one for every epoch, segmented anew."""
    probability = settings.dropout if isinstance(settings, Bpe) else 0.0
    noise = data.noise if data.noise is not None and data.noise.any else None
    if noise is None and not probability:
        return materials.train

    def anew(epoch: int) -> TokenStore:
        return segment_anew(
            materials.train,
            materials.texts.train,
            materials.tokenizer,
            cache_folder(),
            probability=probability,
            noise=noise,
            seed=seed,
            epoch=epoch,
        )

    return anew


def _times(data: DataSettings, texts: Prepared, train: TokenStore) -> Times:
    """How often each pair is learnt from, by its corpus."""
    ends = row_ends(lambda row: texts.train.line(int(train.origins[row])), len(train), texts.ends)
    if data.temperature is not None:
        return at_temperature(ends, data.temperature)
    each = texts.ids.times if texts.ids is not None else [1.0, *(one.times for one in data.beside)]
    return Times(ends, np.array(each))


def _prepared(ids: Ids, tokenizer: Tokenizer, limits: Limits) -> TokenStore:
    """The ids that were prepared. Raises ConfigError where the run has another tokenizer, or other limits."""
    header = ids.tokens.header
    if header["tokenizer"] != tokenizer.fingerprint:
        raise ConfigError(
            f"{ids.folder}: was prepared with another tokenizer than that of the run; prepare the corpus with the "
            "run's own: dragoman data prepare --tokenizer RUN/tokenizer.json"
        )
    for key, limit in (("longest_source", limits.source), ("longest_target", limits.target)):
        if header[key] != limit:
            raise ConfigError(
                f"data.{key} = {limit}, but {ids.folder} was prepared with {header[key]}; leave it out, or prepare the "
                "corpus again"
            )
    return ids.tokens


def _named(corpus: Corpus | PreparedFolder) -> str:
    return str(corpus.folder) if isinstance(corpus, PreparedFolder) else name_of(corpus)


def _tree_stores(data: DataSettings, cache: Path, *, tell: Callable[[str], None]) -> dict[str, TreeStore]:
    """The trees of each set, by line; a set that is held out of the training corpus has the lines of that."""
    if isinstance(data.train, PreparedFolder):
        return {}
    corpora: dict[str, Corpus | None] = {"train": data.train, "valid": data.valid or data.train, "test": data.test}
    stores = {}
    for name, corpus in corpora.items():
        if isinstance(corpus, ParallelFiles) and corpus.source_trees is not None:
            tell("reading the trees")
            (source,) = shards(corpus.source)
            stores[name] = prepare_trees(source, corpus.source_trees, cache)
    return stores


def _source_trees(stores: Mapping[str, TreeStore], texts: Prepared, tokenizer: Tokenizer) -> dict[str, SourceTrees]:
    sets = {"train": texts.train, "valid": texts.valid, "test": texts.test}
    return {
        name: SourceTrees(stores[name], store, tokenizer.source)
        for name, store in sets.items()
        if name in stores and store is not None
    }


def _judged(texts: Prepared, tokenizer: Tokenizer, limits: Limits) -> tuple[TokenStore, tuple[str, ...]]:
    """What the validation loss is measured on, and what is to be said of it."""
    valid = limits.within(texts.valid, tokenizer)
    if not len(valid):
        raise DataError(
            f"every one of the {len(texts.valid):,} validation pairs is longer than {limits.shown} tokens; "
            "split the text into sentences"
        )
    missing = len(texts.valid) - len(valid)
    note = f"{missing:,} validation pairs are longer than {limits.shown} tokens and are left out of the validation loss"
    return valid, (note,) if missing else ()


def _refuse_endless(texts: TextStore, tokenizer: Tokenizer, *, where: str) -> None:
    """Raises DataError where a held-out line is too long to be meant."""
    for row, (source, _) in enumerate(texts.pairs()):
        # Few lines need be segmented to know: tokens stand for bytes at least, but for what normalisation adds.
        if 4 * len(source.encode()) > LONGEST_LINE and len(tokenizer.source.encode(source)) > LONGEST_LINE:
            raise DataError(
                f"{where}, line {texts.line(row)}: more than the {LONGEST_LINE:,} tokens that a line may have; "
                "put one sentence or paragraph on each line"
            )
