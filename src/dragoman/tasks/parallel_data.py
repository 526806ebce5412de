"""Cleaned and tokenized parallel data, for translation and for language models of prompts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np
from torch import Tensor

from dragoman.data.augmentation.pair_augmentation import PairAugmentation
from dragoman.data.batching.corpus_mixing import CorpusWeights, locate_line, row_ends, temperature_weights
from dragoman.data.config import DataConfig, PreparedFolder
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.datasets.source_token_features import FeatureStore, StoredFeatures, prepare_source_features
from dragoman.data.preprocessing.pipeline import PreparedData, TokenizedText, prepare_data, read_index
from dragoman.data.preprocessing.tokenize_corpus import (
    ONE_DIRECTION,
    CorpusDirections,
    retokenize_epoch,
    tokenize_texts,
)
from dragoman.data.readers.parallel import ParallelCorpus, ParallelFiles, corpus_name, resolve_files
from dragoman.data.tokenizers import BpeConfig, Direction, Tokenizer, TokenizerConfig
from dragoman.data.tokenizers.tokenizer_pair import Pairs as TextPairs
from dragoman.errors import ConfigError, DataError, shorten
from dragoman.inference.text_segmentation import MAX_LINE_LENGTH
from dragoman.inference.translation_options import LanguageOptions
from dragoman.number_words import counted
from dragoman.tasks import task


@final
@dataclass(frozen=True)
class LengthLimits:
    """Maximum number of tokens on each side."""

    source: int
    target: int

    def __str__(self) -> str:
        return f"{self.source:,}" if self.source == self.target else f"{self.source:,} and {self.target:,}"

    def tokenize(
        self, texts: TextStore, tokenizer: Tokenizer, directions: CorpusDirections = ONE_DIRECTION
    ) -> TokenStore:
        """Tokenize the texts and leave out longer pairs."""
        limits = {"max_source_length": self.source, "max_target_length": self.target}
        return tokenize_texts(texts, tokenizer, task.cache_dir(), **limits, directions=directions)


@final
@dataclass(frozen=True, kw_only=True)
class ParallelData(task.TaskData):
    """Parallel texts and their tokens."""

    texts: PreparedData
    train: TokenStore
    valid: TokenStore
    valid_limits: LengthLimits
    folder: task.RunFiles
    decoder_only: bool
    """Whether one model reads source and target as one sequence."""
    source_features: Mapping[str, StoredFeatures]
    """Dependency trees of the sources, by set."""
    directions: CorpusDirections = ONE_DIRECTION
    """Prefixes of the pairs of each training corpus."""
    languages: Mapping[str, LanguageOptions] = field(default_factory=dict)
    """Languages of the validation and the test set, by set: the options of a translation."""
    corpus_weights: CorpusWeights | None = None
    """Sampling weights of several corpora."""
    weights: Mapping[str, Tensor] | None = None
    """Initial weights from another run."""


def prepare_parallel_data(
    data: DataConfig,
    folder: task.RunFiles,
    *,
    create_tokenizer: Callable[[TextPairs], Tokenizer],
    seed: int,
    valid_limits: LengthLimits,
    advice: task.CorpusAdvice | None,
    prompt: Direction | None = None,
    report: Callable[[str], None],
) -> ParallelData:
    """Read, clean and tokenize parallel data; a new run creates its tokenizer from a sample of the training pairs.

    Validation pairs within `valid_limits` enter the validation loss. `advice` is None for a model that continues from
    another run. `prompt` holds the words around each source of a decoder-only model, and is None for other models.
    Raises DataError on unusable texts, and RunError if a corpus has changed since the run started.
    """
    if data.prepared_folder is not None and (prepared := read_index(data.prepared_folder).context) != data.context:
        raise ConfigError(
            f"data.context = {data.context!r}, but {data.prepared_folder} was prepared with {prepared!r}. Leave it "
            "out, or prepare the corpus again."
        )
    texts = prepare_data(data, task.cache_dir(), seed=seed, report=report)
    task.check_unchanged(texts.fingerprints, folder)
    features = _prepare_source_features(data, texts, report=report)
    sample = texts.train.sample(data.tokenizer_sample_size, seed=seed)
    tokenizer = task.load_or_create_tokenizer(folder, lambda: create_tokenizer(sample), report=report)
    report("tokenizing")
    directions = _training_directions(data, texts, tokenizer) if prompt is None else CorpusDirections((prompt,))
    limits = LengthLimits(data.max_source_length, data.max_target_length)
    train = _tokenize_training(texts, tokenizer, limits, directions)
    valid = _tokenize_validation(data, texts, tokenizer, valid_limits, prompt)
    corpus_weights = _corpus_weights(data, texts, train)
    num_test = None if texts.test is None else len(texts.test)
    return ParallelData(
        tokenizer=tokenizer,
        fingerprints=texts.fingerprints,
        notes=(
            *(advice.notes(len(train), "pairs") if advice else ()),
            *texts.notes,
            *_length_notes(texts, train, valid, valid_limits),
        ),
        summary=task.describe_sizes(counted(len(train), "pairs"), len(texts.valid), num_test),
        tokens_per_epoch=_tokens_per_epoch(train, corpus_weights, decoder_only=prompt is not None),
        describe_rows=partial(_describe_rows, texts, train),
        cleaning_report=texts.report,
        texts=texts,
        train=train,
        valid=valid,
        valid_limits=valid_limits,
        folder=folder,
        decoder_only=prompt is not None,
        source_features={name: StoredFeatures(*found, tokenizer.source) for name, found in features.items()},
        corpus_weights=corpus_weights,
        directions=directions,
        languages={name: _languages(corpus) for name, corpus in _held_out(data).items()},
    )


def _languages(corpus: ParallelCorpus | PreparedFolder | None) -> LanguageOptions:
    """Return the languages that a corpus names."""
    if corpus is None or isinstance(corpus, PreparedFolder):
        return {}
    return {"source_language": corpus.source_language, "target_language": corpus.target_language}


def _resolve(tokenizer: Tokenizer, corpus: ParallelCorpus | PreparedFolder | None, key: str) -> Direction:
    """Return the prefixes of a corpus. Raises ConfigError, which names its key, for an unknown or missing language."""
    try:
        return tokenizer.prefixes.resolve(**_languages(corpus))
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error


def _held_out(data: DataConfig) -> dict[str, ParallelCorpus | PreparedFolder | None]:
    """Return the corpora of the validation and the test set; a validation set may be a part of the training corpus."""
    return {"valid": data.valid or data.train, "test": data.test}


def _training_directions(data: DataConfig, texts: PreparedData, tokenizer: Tokenizer) -> CorpusDirections:
    """Return the prefixes of the training corpora. Raises ConfigError for a language that the tokenizer lacks."""
    first = _resolve(tokenizer, data.train, "data.train")
    extra = [
        _resolve(tokenizer, one.corpus, f"data.extra_corpora.{number}") for number, one in enumerate(data.extra_corpora)
    ]
    return CorpusDirections((first, *extra), texts.ends if extra else ())


def _length_notes(texts: PreparedData, train: TokenStore, valid: TokenStore, limits: LengthLimits) -> Iterator[str]:
    if missing := len(texts.valid) - len(valid):
        longer = f"longer than {limits} tokens and left out of the validation loss"
        yield counted(missing, f"validation pairs are {longer}", f"validation pair is {longer}")
    if skipped := len(texts.train) - len(train):
        many, one = "pairs exceed the length limits and are left out", "pair exceeds the length limits and is left out"
        yield counted(skipped, many, one)


def _tokens_per_epoch(train: TokenStore, weights: CorpusWeights | None, *, decoder_only: bool) -> int:
    def count(start: int, stop: int) -> int:
        target = stop - start + int(train.target.lengths[start:stop].sum(dtype=np.int64))
        return target + (int(train.source.lengths[start:stop].sum(dtype=np.int64)) if decoder_only else 0)

    return count(0, len(train)) if weights is None else int(weights.tokens_per_epoch(count))


def _describe_rows(texts: PreparedData, train: TokenStore, rows: Sequence[int]) -> str:
    """Name the lines of the corpus that the rows of a batch come from."""
    lines = [texts.train.line(int(train.origins[row])) for row in rows]
    if len(texts.ends) == 1:
        return f"{task.format_list(lines)} of the training corpus"
    names = [f"{line} of corpus {corpus + 1}" for corpus, line in (locate_line(one, texts.ends) for one in lines)]
    return f"{task.format_list(names)}, counted from data.train"


def epoch_store(
    parallel: ParallelData, data: DataConfig, config: TokenizerConfig, *, seed: int
) -> TokenStore | Callable[[int], TokenStore]:
    """Return the training data, or with augmentation or BPE dropout a function that tokenizes it for each epoch."""
    dropout = config.dropout if isinstance(config, BpeConfig) else 0.0
    texts, cache = parallel.texts.train, task.cache_dir()
    augmentation = PairAugmentation(data.noise, data.augmentation, texts)
    if not augmentation.enabled and not dropout:
        return parallel.train
    options: Any = {"probability": dropout, "seed": seed, "directions": parallel.directions}
    if augmentation.enabled:
        options["augmentation"] = augmentation
    return lambda epoch: retokenize_epoch(parallel.train, texts, parallel.tokenizer, cache, **options, epoch=epoch)


def _corpus_weights(data: DataConfig, texts: PreparedData, train: TokenStore) -> CorpusWeights | None:
    """Return the sampling weights of several corpora; None for one."""
    if len(texts.ends) == 1:
        if data.temperature is not None:
            raise ConfigError("data.temperature mixes several corpora, and one was prepared. Leave it out.")
        return None
    ends = row_ends(lambda row: texts.train.line(int(train.origins[row])), len(train), texts.ends)
    if data.temperature is not None:
        return temperature_weights(ends, data.temperature)
    if texts.tokenized is not None:
        return CorpusWeights(ends, np.array(texts.tokenized.corpus_weights))
    return CorpusWeights(ends, np.array([1.0, *(one.weight for one in data.extra_corpora)]))


def _tokenize_training(
    texts: PreparedData, tokenizer: Tokenizer, limits: LengthLimits, directions: CorpusDirections
) -> TokenStore:
    if texts.tokenized:
        train = _load_prepared(texts.tokenized, tokenizer, limits)
    else:
        train = limits.tokenize(texts.train, tokenizer, directions)
    if not len(train):
        raise DataError(
            f"All {len(texts.train):,} training pairs are longer than data.max_source_length = {limits.source} or "
            f"data.max_target_length = {limits.target} tokens. Raise the limits, or split the text into sentences."
        )
    return train


def _tokenize_validation(
    data: DataConfig, texts: PreparedData, tokenizer: Tokenizer, limits: LengthLimits, prompt: Direction | None
) -> TokenStore:
    """Check the lines of the held-out sets, and tokenize the validation set."""
    for store, given in ((texts.valid, data.valid or data.train), (texts.test, data.test or data.train)):
        if store is not None and given is not None:
            where = str(given.folder) if isinstance(given, PreparedFolder) else corpus_name(given)
            _check_line_lengths(store, tokenizer, where=where)
    if prompt is None:
        prompt = _resolve(tokenizer, _held_out(data)["valid"], "data.train" if data.valid is None else "data.valid")
    valid = limits.tokenize(texts.valid, tokenizer, CorpusDirections((prompt,)))
    if not len(valid):
        raise DataError(
            f"All {len(texts.valid):,} validation pairs are longer than {limits} tokens. Split the text into sentences."
        )
    return valid


def _load_prepared(prepared: TokenizedText, tokenizer: Tokenizer, limits: LengthLimits) -> TokenStore:
    """Return the prepared tokens. Raises ConfigError if tokenizer or limits of the run differ."""
    tokens, header = prepared.tokens, prepared.tokens.header
    if header.get("tokenizer") != tokenizer.fingerprint:
        raise ConfigError(
            f"{prepared.folder}: was prepared with another tokenizer than that of the run. Prepare the corpus with: "
            "dragoman data prepare --source FILE --target FILE --tokenizer RUN/tokenizer.json --output-dir FOLDER"
        )
    for name, limit, side in (("source", limits.source, tokens.source), ("target", limits.target, tokens.target)):
        key = f"max_{name}_length"
        if (prepared_limit := header.get(key)) != limit:
            raise ConfigError(
                f"data.{key} = {limit}, but {prepared.folder} was prepared with {shorten(prepared_limit)}. Leave it "
                "out, or prepare the corpus again."
            )
        if side.lengths.max(initial=0) > limit:
            raise tokens.damaged_error(f"a {name} is longer than {limit:,} tokens")
    return tokens


def _prepare_source_features(
    data: DataConfig, texts: PreparedData, *, report: Callable[[str], None]
) -> dict[str, tuple[FeatureStore, TextStore]]:
    """Return the dependency trees of each set by line; a set split from the training corpus has its lines."""
    found = {}
    sets = ((data.train, texts.train), (data.valid or data.train, texts.valid), (data.test, texts.test))
    for name, (corpus, store) in zip(("train", "valid", "test"), sets, strict=True):
        if store is not None and isinstance(corpus, ParallelFiles) and corpus.source_features is not None:
            report("reading the dependency trees")
            (source,) = resolve_files(corpus.source)
            trees = prepare_source_features(
                source, corpus.source_features, task.cache_dir(), fingerprints=texts.fingerprints
            )
            found[name] = trees, store
    return found


def _check_line_lengths(texts: TextStore, tokenizer: Tokenizer, *, where: str) -> None:
    """Raise DataError if a held-out line is longer than any sentence or paragraph."""
    for row, (source, _) in enumerate(texts):
        # Few lines are tokenized: a token has at least one byte, unless normalization adds some.
        if 4 * len(source.encode()) > MAX_LINE_LENGTH and len(tokenizer.source.encode(source)) > MAX_LINE_LENGTH:
            raise DataError(
                f"{where}, line {texts.line(row)}: has more than {MAX_LINE_LENGTH:,} tokens, the limit of a line. Put "
                "one sentence or paragraph on each line."
            )
