"""What a run learns from, made ready on disk: texts, tokenizer and ids."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.data.batching import BatchStream
from dragoman.data.preparing import Prepared, prepare
from dragoman.data.segmenting import segment, segment_anew
from dragoman.data.store import TokenStore
from dragoman.data.tokenizer import Bpe, Tokenizer
from dragoman.errors import DataError, RunError
from dragoman.experiment.config import Experiment
from dragoman.experiment.run import RunFolder


@dataclass(frozen=True)
class Materials:
    """The stores of a run; `left_out` pairs were longer in tokens than the configuration allows."""

    texts: Prepared
    tokenizer: Tokenizer
    train: TokenStore
    valid: TokenStore
    left_out: int


def cache_folder() -> Path:
    """Where stores are kept that are built once per corpus and tokenizer: `DRAGOMAN_CACHE`, or the user's cache."""
    if chosen := os.environ.get("DRAGOMAN_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman"


def gather(experiment: Experiment, folder: RunFolder, *, tell: Callable[[str], None]) -> Materials:
    """Read, clean, learn the tokenizer or take the run's own, and turn the texts into ids.

    Raises DataError on texts that cannot be used, and RunError where they are not those the run began with.
    """
    cache = cache_folder()
    tell("reading and cleaning the corpus")
    texts = prepare(experiment.data, cache, seed=experiment.training.seed)
    _check_same(texts, folder)
    if folder.tokenizer.exists():
        tokenizer = folder.read_tokenizer()
    else:
        tell("learning the tokenizer")
        tokenizer = Tokenizer.train(texts.train.pairs, experiment.tokenizer)
        tokenizer.save(folder.tokenizer)
    tell("turning texts into tokens")
    longest = {"longest_source": experiment.data.longest_source, "longest_target": experiment.data.longest_target}
    train = segment(texts.train, tokenizer, cache, **longest)
    valid = segment(texts.valid, tokenizer, cache, longest_source=10**6, longest_target=10**6)
    if not len(train):
        raise DataError(
            f"every one of the {len(texts.train):,} training pairs is longer than data.longest_source = "
            f"{experiment.data.longest_source} or data.longest_target = {experiment.data.longest_target} tokens; "
            "raise them, or split the text into sentences"
        )
    return Materials(texts, tokenizer, train, valid, len(texts.train) - len(train))


def build_stream(experiment: Experiment, materials: Materials) -> BatchStream:
    """The batches of a training; under BPE dropout every epoch is segmented anew."""
    budget, seed = experiment.training.batch_tokens, experiment.training.seed
    tokenizer = experiment.tokenizer
    if not isinstance(tokenizer, Bpe) or not tokenizer.dropout:
        return BatchStream(materials.train, budget=budget, seed=seed)
    probability = tokenizer.dropout

    def anew(epoch: int) -> TokenStore:
        return segment_anew(
            materials.train,
            materials.texts.train,
            materials.tokenizer,
            cache_folder(),
            probability=probability,
            seed=seed,
            epoch=epoch,
        )

    return BatchStream(anew, budget=budget, seed=seed)


def _check_same(texts: Prepared, folder: RunFolder) -> None:
    began_with = folder.read_environment().get("corpora", {})
    for name, digest in texts.fingerprints.items():
        if began_with.get(Path(name).name, digest) != digest:
            raise RunError(
                f"{name}: has changed since the run in {folder.path} began; put back the file, or start a new run"
            )
