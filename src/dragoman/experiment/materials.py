"""What a run learns from, made ready on disk: texts, tokenizer and ids."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.data.batching import BatchStream
from dragoman.data.corpora import name_of
from dragoman.data.preparing import Prepared, prepare
from dragoman.data.segmenting import segment, segment_anew
from dragoman.data.store import TextStore, TokenStore
from dragoman.data.tokenizer import Bpe, Tokenizer
from dragoman.errors import DataError, RunError
from dragoman.experiment.config import Experiment
from dragoman.experiment.run import RunFolder
from dragoman.runtime.translator import LONGEST_LINE

LONGEST_JUDGED = 2048
"""Tokens of a side above which a validation pair is left out of the loss, whose memory grows with their square."""
MOST_NAMED = 5


@dataclass(frozen=True)
class Materials:
    """The stores of a run; `left_out` pairs were longer in tokens than the configuration allows."""

    texts: Prepared
    tokenizer: Tokenizer
    train: TokenStore
    valid: TokenStore
    left_out: int
    notes: tuple[str, ...]
    """Sentences to be printed."""

    def name(self, rows: Sequence[int]) -> str:
        """Which lines of the corpus the rows of a batch are, in words."""
        lines = [self.texts.train.line(int(self.train.origins[row])) for row in rows[:MOST_NAMED]]
        return f"lines {', '.join(map(str, lines))}{', …' if len(rows) > MOST_NAMED else ''} of the training corpus"


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
    if not len(train):
        raise DataError(
            f"every one of the {len(texts.train):,} training pairs is longer than data.longest_source = "
            f"{experiment.data.longest_source} or data.longest_target = {experiment.data.longest_target} tokens; "
            "raise them, or split the text into sentences"
        )
    valid, notes = _held_out(experiment, texts, tokenizer, cache)
    return Materials(texts, tokenizer, train, valid, len(texts.train) - len(train), notes)


def _held_out(
    experiment: Experiment, texts: Prepared, tokenizer: Tokenizer, cache: Path
) -> tuple[TokenStore, tuple[str, ...]]:
    """What the validation loss is measured on; raises DataError where a held-out line is too long to be meant."""
    data = experiment.data
    for store, corpus in ((texts.valid, data.valid or data.train), (texts.test, data.test)):
        if store is not None and corpus is not None:
            _refuse_endless(store, tokenizer, where=name_of(corpus))
    longest = min(LONGEST_JUDGED, getattr(experiment.model.positions, "length", LONGEST_JUDGED + 1) - 1)
    valid = segment(texts.valid, tokenizer, cache, longest_source=longest, longest_target=longest)
    if not len(valid):
        raise DataError(
            f"every one of the {len(texts.valid):,} validation pairs is longer than {longest:,} tokens; "
            "split the text into sentences"
        )
    missing = len(texts.valid) - len(valid)
    note = f"{missing:,} validation pairs are longer than {longest:,} tokens and are left out of the validation loss"
    return valid, (note,) if missing else ()


def _refuse_endless(texts: TextStore, tokenizer: Tokenizer, *, where: str) -> None:
    for row, (source, _) in enumerate(texts.pairs()):
        # Few lines need be segmented to know: tokens stand for bytes at least, but for what normalisation adds.
        if 4 * len(source.encode()) > LONGEST_LINE and len(tokenizer.source.encode(source)) > LONGEST_LINE:
            raise DataError(
                f"{where}, line {texts.line(row)}: more than the {LONGEST_LINE:,} tokens that a line may have; "
                "put one sentence or paragraph on each line"
            )


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
    began_with = folder.read_environment().get("corpora")
    if began_with is None:
        return
    known = {corpus["sha256"] for corpus in began_with}
    for name, digest in texts.fingerprints.items():
        if digest not in known:
            raise RunError(
                f"{name}: has changed since the run in {folder.path} began; put back the file, or start a new run"
            )
