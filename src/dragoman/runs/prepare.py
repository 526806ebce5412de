"""A corpus prepared once, for many trainings: cleaned, without duplicates, as ids, in a folder of its own."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from dragoman.atomic import in_turn, refused, write_atomically
from dragoman.config import Tree, merge
from dragoman.data.cleaning import Report
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.hashing import file_fingerprint
from dragoman.data.preprocessing.blocks import BLOCK
from dragoman.data.preprocessing.pipeline import Cleaned, Engine, clean_in_blocks, segment_in_shards, sweep
from dragoman.data.preprocessing.prepare import (
    FORMAT,
    FORMAT_VERSION,
    INDEX,
    TOKENIZER,
    paths_to_read,
    what_texts_hang_on,
)
from dragoman.data.tokenizers import Bpe, Tokenizer, Unigram
from dragoman.errors import ConfigError, DataError, DragomanError, RunError
from dragoman.runs.auto_config import fitting_a_preset, vocabulary_for
from dragoman.runs.choices import given
from dragoman.runs.config import to_experiment
from dragoman.runs.init_from import lasting, with_start
from dragoman.tasks.config import Translation
from dragoman.tasks.initialization import first_tokenizer

KEY = 16
"""Letters of what tells the work on one corpus from the work on another."""


@final
@dataclass(frozen=True)
class Written:
    """A folder that was prepared, in numbers, and what is to be said of it."""

    report: Report
    notes: tuple[str, ...]
    pairs: int
    """To learn from."""
    left_out: int
    """Longer in tokens than the limits."""
    valid: int
    test: int | None
    shards: int
    vocabulary: int


def asked_for(tree: Tree, *, complete: bool, tokenizer: Path | None = None) -> tuple[Translation, bool]:
    """What a tree of settings says of corpus and tokenizer, and whether the vocabulary is to be chosen.

    It is where the tree is no `complete` configuration and does not say. `tokenizer` is a file of one that is there
    already. Raises ConfigError where the tree is about another task, of what is prepared already, or of another
    tokenizer than that.
    """
    ready = None if tokenizer is None else Tokenizer.load(tokenizer).settings
    if ready is not None:
        tree = merge({"tokenizer": ready.model_dump(mode="json")}, tree)
    experiment = to_experiment(with_start(tree)) if complete else fitting_a_preset(with_start(tree))
    if not isinstance(experiment, Translation):
        raise ConfigError(f"task = {experiment.task}: dragoman data prepare is for pairs to translate; leave task out")
    data = experiment.data
    if data.prepared is not None:
        raise ConfigError(f"data.train.folder = {data.prepared}: is prepared already; name the texts themselves")
    if any(getattr(corpus, "source_trees", None) is not None for corpus in data.corpora):
        raise ConfigError("data.train.source_trees: trees cannot be prepared; train on the texts themselves")
    if ready is not None and lasting(experiment.tokenizer) != lasting(ready):
        raise ConfigError(f"tokenizer: is that of {tokenizer}; leave it out, or leave out --tokenizer")
    learns = isinstance(experiment.tokenizer, Bpe | Unigram) and experiment.start is None
    return experiment, learns and not complete and not given(tree, "tokenizer.vocabulary")


@final
@dataclass(frozen=True)
class Preparation:
    """How a corpus is to be prepared."""

    experiment: Translation
    """Of which `data`, `tokenizer`, `start` and the seed are obeyed."""
    engine: Engine
    choose_vocabulary: bool = False
    """Whether the number of entries follows from that of the pairs."""
    tokenizer: Path | None = None
    """One that is there already."""
    size: int = BLOCK
    """Pairs of the corpus that make a block."""


def prepare_folder(asked: Preparation, out: Path, *, tell: Callable[[str], None]) -> Written:
    """Write what trainings of a corpus begin with; the same whatever the engine.

    What a killed command has done is not done again. Raises RunError where something is at `out` already, DataError
    where a corpus or a tokenizer cannot be used.
    """
    _require_free(out)
    ready = None if asked.tokenizer is None else Tokenizer.load(asked.tokenizer)  # before the work of hours
    tell("looking at the files")
    data, seed = asked.experiment.data, asked.experiment.training.seed
    corpora = {str(path): file_fingerprint(path) for path in paths_to_read(data)}
    facts = [FORMAT_VERSION, what_texts_hang_on(data), corpora, seed, asked.size]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:KEY]
    parent = out.absolute().parent
    work, lock = parent / f".{out.name}.{key}.tmp", parent / f".{out.name}.lock"
    made = not parent.exists()
    try:
        with in_turn(lock):
            _require_free(out)
            return _prepare(asked, ready, work, out, corpora, tell)
    except DragomanError:
        shutil.rmtree(work, ignore_errors=True)
        raise
    except OSError as error:
        raise refused(out, error) from error
    finally:
        lock.unlink(missing_ok=True)
        if made:
            with suppress(OSError):  # unless something is in it
                parent.rmdir()


def _require_free(out: Path) -> None:
    if out.exists():
        raise RunError(f"{out}: exists already and is never overwritten; choose another place by --out")


def _prepare(
    asked: Preparation,
    ready: Tokenizer | None,
    work: Path,
    out: Path,
    corpora: dict[str, str],
    tell: Callable[[str], None],
) -> Written:
    experiment, data = asked.experiment, asked.experiment.data
    of_another_key = re.compile(rf"\.{re.escape(out.name)}\.[0-9a-f]{{{KEY}}}\.tmp")
    for other in work.parent.iterdir():
        if other != work and of_another_key.fullmatch(other.name):
            shutil.rmtree(other, ignore_errors=True)
    (work / "blocks").mkdir(parents=True, exist_ok=True)
    tell("reading and cleaning the corpus")
    cleaned = clean_in_blocks(data, work, seed=experiment.training.seed, engine=asked.engine, size=asked.size)
    tell("preparing the tokenizer")
    made = _learnt(asked, cleaned) if ready is None else ready
    made.save(work / TOKENIZER)
    tell("turning texts into tokens")
    ids = segment_in_shards(cleaned, work / TOKENIZER, data, work, asked.engine)
    if not len(ids):
        raise DataError(
            f"every one of the {len(cleaned.texts):,} training pairs is longer than data.longest_source = "
            f"{data.longest_source} or data.longest_target = {data.longest_target} tokens; "
            "raise them, or split the text into sentences"
        )
    write_atomically(work / INDEX, json.dumps(_index(experiment, cleaned, ids, made, corpora), indent=1) + "\n")
    work.rename(out)
    sweep(out)
    return Written(
        cleaned.report,
        cleaned.notes,
        len(ids),
        len(cleaned.texts) - len(ids),
        len(cleaned.valid),
        None if cleaned.test is None else len(cleaned.test),
        len(cleaned.shards),
        len(made.source),
    )


def _learnt(asked: Preparation, cleaned: Cleaned) -> Tokenizer:
    experiment = asked.experiment
    if asked.choose_vocabulary:
        settings = experiment.tokenizer.model_copy(update={"vocabulary": vocabulary_for(len(cleaned.texts))})
        experiment = experiment.model_copy(update={"tokenizer": settings})
    sample = cleaned.texts.sample(experiment.data.vocabulary_pairs, seed=experiment.training.seed)
    return first_tokenizer(experiment, sample)


def _index(
    experiment: Translation, cleaned: Cleaned, ids: TokenStore, tokenizer: Tokenizer, corpora: dict[str, str]
) -> Tree:
    """What the folder says of itself."""
    data = experiment.data
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "pairs": len(ids),
        "longest_source": data.longest_source,
        "longest_target": data.longest_target,
        "tokenizer": {"settings": tokenizer.settings.model_dump(mode="json"), "fingerprint": tokenizer.fingerprint},
        "times": [1.0, *(one.times for one in data.beside)],
        "temperature": data.temperature,
        "noise": None if data.noise is None else data.noise.model_dump(mode="json"),
        "ends": list(cleaned.ends),
        "seed": experiment.training.seed,
        "corpora": [{"file": Path(path).name, "sha256": digest} for path, digest in corpora.items()],
        "stores": {
            "texts": cleaned.texts.fingerprint,
            "ids": ids.fingerprint,
            "valid": cleaned.valid.fingerprint,
            "shards": [shard.name for shard in cleaned.shards],
        },
        "report": cleaned.report.to_json(),
        "notes": list(cleaned.notes),
    }
