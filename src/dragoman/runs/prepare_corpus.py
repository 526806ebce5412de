"""Prepare a corpus for many trainings: clean and tokenize it, and write it to a folder."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from dragoman.atomic_files import (
    WriteError,
    file_lock,
    make_folder,
    rename_folder,
    write_atomically,
)
from dragoman.checksums import to_checked_json
from dragoman.config_trees import Tree, is_set, merge
from dragoman.data.cleaning_rules import CleaningReport
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.fingerprints import file_fingerprint
from dragoman.data.preprocessing.cleaning_tasks import BLOCK_SIZE
from dragoman.data.preprocessing.pipeline import (
    FORMAT,
    FORMAT_VERSION,
    INDEX_FILE,
    TOKENIZER_FILE,
    ShardedTexts,
    TaskRunner,
    cache_key_fields,
    clean_in_blocks,
    corpus_files,
    remove_intermediate_files,
    tokenize_shards,
)
from dragoman.data.tokenizers import BpeConfig, Tokenizer, UnigramConfig
from dragoman.errors import ConfigError, DataError, DragomanError, RunError
from dragoman.runs.auto_config import apply_first_preset, vocab_size_for
from dragoman.runs.config import parse_experiment
from dragoman.runs.finetune import apply_init_from
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import TranslationConfig
from dragoman.tasks.initial_weights import initial_tokenizer, without_dropout

KEY_LENGTH = 16
"""Characters of the hash that distinguishes the intermediate files of one preparation from those of another."""


@final
@dataclass(frozen=True)
class PreparedSummary:
    """Sizes of a prepared corpus, and the report of its cleaning."""

    report: CleaningReport
    notes: tuple[str, ...]
    pairs: int
    """Training pairs."""
    left_out: int
    """Training pairs that exceed the length limits."""
    valid: int
    test: int | None
    shards: int
    vocabulary: int


def resolve_preparation(tree: Tree, *, complete: bool, tokenizer: Path | None = None) -> tuple[TranslationConfig, bool]:
    """Return the experiment with data and tokenizer settings, and whether the vocabulary size is chosen automatically.

    The size is chosen if the tree is no `complete` configuration and does not give it. `tokenizer` is a file that is
    used instead of a new tokenizer. Raises ConfigError if the settings are those of another task, of a prepared corpus
    or of another tokenizer.
    """
    config = None if tokenizer is None else Tokenizer.load(tokenizer).config
    if config is not None:
        tree = merge({"tokenizer": config.model_dump(mode="json")}, tree)
    tree = apply_init_from(tree)
    experiment = parse_experiment(tree) if complete else apply_first_preset(tree)
    if not isinstance(experiment, TranslationConfig):
        raise ConfigError(f"task = {experiment.task}: only pairs of translation are prepared. Leave task out.")
    data = experiment.data
    if data.prepared_folder is not None:
        raise ConfigError(
            f"data.train.folder = {data.prepared_folder}: is already prepared. Name the texts themselves."
        )
    if any(getattr(corpus, "source_features", None) is not None for corpus in data.train_corpora):
        raise ConfigError("data.train.source_features: trees cannot be prepared. Train on the texts themselves.")
    if config is not None and without_dropout(experiment.tokenizer) != without_dropout(config):
        raise ConfigError(f"tokenizer: differs from {tokenizer}. Leave it out, or leave out --tokenizer.")
    if experiment.data.names_languages:
        raise ConfigError(
            "data names languages of corpora, which dragoman data prepare does not support. Train from the text files, "
            "or leave source_language and target_language out."
        )
    is_trained = isinstance(experiment.tokenizer, BpeConfig | UnigramConfig) and experiment.init_from is None
    return experiment, is_trained and not complete and not is_set(tree, "tokenizer.vocab_size")


@final
@dataclass(frozen=True)
class PreparationConfig:
    """Settings of a preparation."""

    experiment: TranslationConfig
    """Experiment whose `data`, `tokenizer`, `init_from` and seed are used."""
    engine: TaskRunner
    choose_vocab_size: bool = False
    """Whether the vocabulary size follows from the number of pairs."""
    tokenizer: Path | None = None
    """Existing tokenizer."""
    block_size: int = BLOCK_SIZE
    """Pairs per block."""


def prepare_corpus(config: PreparationConfig, out: Path, *, report: Callable[[str], None]) -> PreparedSummary:
    """Prepare a corpus in a new folder; the result does not depend on the engine.

    A command that was killed, or whose disk was full, continues where it stopped. Raises RunError if `out` exists, and
    DataError if the corpus or the tokenizer is unusable.
    """
    _check_new(out)
    tokenizer = None if config.tokenizer is None else Tokenizer.load(config.tokenizer)  # an error before hours of work
    report("hashing the files")
    data, seed = config.experiment.data, config.experiment.training.seed
    corpora = {str(path): file_fingerprint(path) for path in corpus_files(data)}
    facts = [FORMAT_VERSION, cache_key_fields(data), corpora, seed, config.block_size]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]
    parent = out.absolute().parent
    work, lock = parent / f".{out.name}.{key}.tmp", parent / f".{out.name}.lock"
    created = not parent.exists()
    try:
        with file_lock(lock):
            _check_new(out)
            return _prepare(config, tokenizer, work, out, corpora, report)
    except WriteError:
        raise  # the completed work is used again
    except DragomanError:
        shutil.rmtree(work, ignore_errors=True)
        raise
    except OSError as error:
        raise WriteError(out, error) from error
    finally:
        lock.unlink(missing_ok=True)
        if created:
            with suppress(OSError):  # unless the folder contains files
                parent.rmdir()


def _check_new(out: Path) -> None:
    if out.exists():
        raise RunError(f"{out}: exists, and corpora are never overwritten. Choose another --output-dir.")


def _prepare(
    config: PreparationConfig,
    tokenizer: Tokenizer | None,
    work: Path,
    out: Path,
    corpora: dict[str, str],
    report: Callable[[str], None],
) -> PreparedSummary:
    experiment, data = config.experiment, config.experiment.data
    _remove_other_work(work, out)
    if not work.is_dir():
        make_folder(work)
    report("reading and cleaning the corpus")
    cleaned = clean_in_blocks(
        data,
        work,
        fingerprints=corpora,
        seed=experiment.training.seed,
        runner=config.engine,
        size=config.block_size,
        report_progress=report,
    )
    report("preparing the tokenizer")
    if tokenizer is None:
        tokenizer = _create_tokenizer(config, cleaned)
    tokenizer.save(work / TOKENIZER_FILE)
    report("tokenizing")
    ids = tokenize_shards(cleaned, work / TOKENIZER_FILE, data, work, config.engine)
    if not len(ids):
        raise DataError(
            f"All {len(cleaned.train):,} training pairs are longer than data.max_source_length = "
            f"{data.max_source_length} or data.max_target_length = {data.max_target_length} tokens. Raise the limits, "
            "or split the text into sentences."
        )
    index = _build_index(experiment, cleaned, ids, tokenizer, corpora)
    remove_intermediate_files(work)
    write_atomically(work / INDEX_FILE, to_checked_json(index))
    rename_folder(work, out)
    return PreparedSummary(
        cleaned.report,
        cleaned.notes,
        len(ids),
        len(cleaned.train) - len(ids),
        len(cleaned.valid),
        None if cleaned.test is None else len(cleaned.test),
        len(cleaned.shards),
        len(tokenizer.source),
    )


def _remove_other_work(work: Path, out: Path) -> None:
    """Remove the intermediate files of preparations of the same folder from other texts or settings."""
    pattern = re.compile(rf"\.{re.escape(out.name)}\.[0-9a-f]{{{KEY_LENGTH}}}\.tmp")
    for path in work.parent.iterdir():
        if path != work and pattern.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def _create_tokenizer(config: PreparationConfig, cleaned: ShardedTexts) -> Tokenizer:
    experiment = config.experiment
    if config.choose_vocab_size:
        settings = experiment.tokenizer.model_copy(update={"vocab_size": vocab_size_for(len(cleaned.train))})
        experiment = experiment.model_copy(update={"tokenizer": settings})
    sample = cleaned.train.sample(experiment.data.tokenizer_sample_size, seed=experiment.training.seed)
    return initial_tokenizer(experiment, sample, RunFolder)


def _build_index(
    experiment: TranslationConfig,
    cleaned: ShardedTexts,
    ids: TokenStore,
    tokenizer: Tokenizer,
    corpora: dict[str, str],
) -> Tree:
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
        "augmentation": None if data.augmentation is None else data.augmentation.model_dump(mode="json"),
        **({} if data.context is None else {"context": data.context.model_dump(mode="json")}),
        "ends": list(cleaned.ends),
        "seed": experiment.training.seed,
        "corpora": [{"file": Path(path).name, "sha256": digest} for path, digest in corpora.items()],
        "stores": {
            "texts": cleaned.train.fingerprint,
            "ids": ids.fingerprint,
            "valid": cleaned.valid.fingerprint,
            "shards": [shard.name for shard in cleaned.shards],
        },
        "report": cleaned.report.to_json(),
        "notes": list(cleaned.notes),
    }
