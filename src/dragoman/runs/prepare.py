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
from dragoman.data.cleaning import CleaningReport
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.hashing import file_fingerprint
from dragoman.data.preprocessing.blocks import BLOCK_SIZE
from dragoman.data.preprocessing.pipeline import (
    CleanedCorpus,
    TaskRunner,
    clean_in_blocks,
    remove_intermediate_files,
    tokenize_shards,
)
from dragoman.data.preprocessing.prepare import (
    FORMAT,
    FORMAT_VERSION,
    INDEX_FILE,
    TOKENIZER_FILE,
    cache_key_fields,
    corpus_files,
)
from dragoman.data.tokenizers import BpeConfig, Tokenizer, UnigramConfig
from dragoman.errors import ConfigError, DataError, DragomanError, RunError
from dragoman.runs.auto_config import apply_first_preset, vocab_size_for
from dragoman.runs.config import is_set, parse_experiment
from dragoman.runs.finetune import apply_init_from
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import TranslationConfig
from dragoman.tasks.initialization import initial_tokenizer, without_dropout

KEY_LENGTH = 16
"""Letters of what tells the work on one corpus from the work on another."""


@final
@dataclass(frozen=True)
class PreparedSummary:
    """A folder that was prepared, in numbers, and what is to be said of it."""

    report: CleaningReport
    notes: tuple[str, ...]
    pairs: int
    """To learn from."""
    left_out: int
    """Longer in tokens than the limits."""
    valid: int
    test: int | None
    shards: int
    vocabulary: int


def resolve_preparation(tree: Tree, *, complete: bool, tokenizer: Path | None = None) -> tuple[TranslationConfig, bool]:
    """What a tree of settings says of corpus and tokenizer, and whether the vocabulary is to be chosen.

    It is where the tree is no `complete` configuration and does not say. `tokenizer` is a file of one that is there
    already. Raises ConfigError where the tree is about another task, of what is prepared already, or of another
    tokenizer than that.
    """
    ready = None if tokenizer is None else Tokenizer.load(tokenizer).config
    if ready is not None:
        tree = merge({"tokenizer": ready.model_dump(mode="json")}, tree)
    experiment = parse_experiment(apply_init_from(tree)) if complete else apply_first_preset(apply_init_from(tree))
    if not isinstance(experiment, TranslationConfig):
        raise ConfigError(f"task = {experiment.task}: dragoman data prepare is for pairs to translate; leave task out")
    data = experiment.data
    if data.prepared_folder is not None:
        raise ConfigError(f"data.train.folder = {data.prepared_folder}: is prepared already; name the texts themselves")
    if any(getattr(corpus, "source_features", None) is not None for corpus in data.train_corpora):
        raise ConfigError("data.train.source_features cannot be prepared. Train on the texts themselves.")
    if ready is not None and without_dropout(experiment.tokenizer) != without_dropout(ready):
        raise ConfigError(f"tokenizer: is that of {tokenizer}; leave it out, or leave out --tokenizer")
    learns = isinstance(experiment.tokenizer, BpeConfig | UnigramConfig) and experiment.init_from is None
    return experiment, learns and not complete and not is_set(tree, "tokenizer.vocab_size")


@final
@dataclass(frozen=True)
class PreparationConfig:
    """How a corpus is to be prepared."""

    experiment: TranslationConfig
    """Of which `data`, `tokenizer`, `init_from` and the seed are obeyed."""
    engine: TaskRunner
    choose_vocabulary: bool = False
    """Whether the number of entries follows from that of the pairs."""
    tokenizer: Path | None = None
    """One that is there already."""
    size: int = BLOCK_SIZE
    """Pairs of the corpus that make a block."""


def prepare_corpus(asked: PreparationConfig, out: Path, *, tell: Callable[[str], None]) -> PreparedSummary:
    """Write what trainings of a corpus begin with; the same whatever the engine.

    What a killed command has done is not done again. Raises RunError where something is at `out` already, DataError
    where a corpus or a tokenizer cannot be used.
    """
    _check_new(out)
    ready = None if asked.tokenizer is None else Tokenizer.load(asked.tokenizer)  # before the work of hours
    tell("looking at the files")
    data, seed = asked.experiment.data, asked.experiment.training.seed
    corpora = {str(path): file_fingerprint(path) for path in corpus_files(data)}
    facts = [FORMAT_VERSION, cache_key_fields(data), corpora, seed, asked.size]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]
    parent = out.absolute().parent
    work, lock = parent / f".{out.name}.{key}.tmp", parent / f".{out.name}.lock"
    made = not parent.exists()
    try:
        with in_turn(lock):
            _check_new(out)
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


def _check_new(out: Path) -> None:
    if out.exists():
        raise RunError(f"{out}: exists already and is never overwritten; choose another place by --out")


def _prepare(
    asked: PreparationConfig,
    ready: Tokenizer | None,
    work: Path,
    out: Path,
    corpora: dict[str, str],
    tell: Callable[[str], None],
) -> PreparedSummary:
    experiment, data = asked.experiment, asked.experiment.data
    of_another_key = re.compile(rf"\.{re.escape(out.name)}\.[0-9a-f]{{{KEY_LENGTH}}}\.tmp")
    for other in work.parent.iterdir():
        if other != work and of_another_key.fullmatch(other.name):
            shutil.rmtree(other, ignore_errors=True)
    (work / "blocks").mkdir(parents=True, exist_ok=True)
    tell("reading and cleaning the corpus")
    cleaned = clean_in_blocks(data, work, seed=experiment.training.seed, engine=asked.engine, size=asked.size)
    tell("preparing the tokenizer")
    made = _train_tokenizer(asked, cleaned) if ready is None else ready
    made.save(work / TOKENIZER_FILE)
    tell("turning texts into tokens")
    ids = tokenize_shards(cleaned, work / TOKENIZER_FILE, data, work, asked.engine)
    if not len(ids):
        raise DataError(
            f"every one of the {len(cleaned.texts):,} training pairs is longer than data.max_source_length = "
            f"{data.max_source_length} or data.max_target_length = {data.max_target_length} tokens; "
            "raise them, or split the text into sentences"
        )
    write_atomically(
        work / INDEX_FILE, json.dumps(_build_index(experiment, cleaned, ids, made, corpora), indent=1) + "\n"
    )
    work.rename(out)
    remove_intermediate_files(out)
    return PreparedSummary(
        cleaned.report,
        cleaned.notes,
        len(ids),
        len(cleaned.texts) - len(ids),
        len(cleaned.valid),
        None if cleaned.test is None else len(cleaned.test),
        len(cleaned.shards),
        len(made.source),
    )


def _train_tokenizer(asked: PreparationConfig, cleaned: CleanedCorpus) -> Tokenizer:
    experiment = asked.experiment
    if asked.choose_vocabulary:
        settings = experiment.tokenizer.model_copy(update={"vocab_size": vocab_size_for(len(cleaned.texts))})
        experiment = experiment.model_copy(update={"tokenizer": settings})
    sample = cleaned.texts.sample(experiment.data.tokenizer_sample_size, seed=experiment.training.seed)
    return initial_tokenizer(experiment, sample, RunFolder)


def _build_index(
    experiment: TranslationConfig,
    cleaned: CleanedCorpus,
    ids: TokenStore,
    tokenizer: Tokenizer,
    corpora: dict[str, str],
) -> Tree:
    """What the folder says of itself."""
    data = experiment.data
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "pairs": len(ids),
        "max_source_length": data.max_source_length,
        "max_target_length": data.max_target_length,
        "tokenizer": {"config": tokenizer.config.model_dump(mode="json"), "fingerprint": tokenizer.fingerprint},
        "weights": [1.0, *(one.weight for one in data.extra_corpora)],
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
