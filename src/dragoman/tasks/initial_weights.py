"""Initial tokenizer and weights of a training: new, or those of another run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from dragoman.data.document_context import ContextForm, last_sentences
from dragoman.data.preprocessing.pipeline import TOKENIZER_FILE
from dragoman.data.tokenizers import BpeConfig, LanguageTokenizer, SubwordTokenizer, Tokenizer, TokenizerConfig
from dragoman.data.tokenizers.language_tags import add_language_tags
from dragoman.data.tokenizers.reserved_symbols import add_reserved_symbols, has_reserved_symbols, is_reserved_symbol
from dragoman.data.tokenizers.tokenizer_pair import Pairs
from dragoman.data.tokenizers.trainers import Texts
from dragoman.data.tokenizers.vocabulary_extension import extend_vocab
from dragoman.errors import ConfigError, RunError
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.factory import build_encoder_decoder
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.recurrent.factory import build_recurrent_model
from dragoman.models.weight_storage import set_weights
from dragoman.nn.lora import apply_lora, merge_lora
from dragoman.tasks.config import LanguageModelingConfig, MaskedLMConfig, ModelConfig, TranslationConfig, max_positions
from dragoman.tasks.task import RunFiles, load_model, read_weights
from dragoman.training.config import TrainingConfig
from dragoman.training.distillation import DistillationConfig
from dragoman.training.step import seeded_rng

LORA_SEED = 0xADA
"""Combined with the seed of a run, seeds the initial adapter weights."""
SYMBOL_SEED = 0x5B
"""Seed of the rows of reserved symbols that are new to a vocabulary."""
FREE_KEYS = ("dropout", "mlm_transform", "num_segments")
"""Model settings that may differ from the initial run, because no weight that is kept depends on them."""
SEGMENT_WEIGHT = "embedding.segments.weight"
"""Weight that is new if the initial model reads single texts."""

PRETRAINING_TASKS = ("translation", "language_modeling", "masked_lm")
"""Tasks whose runs start from a run of the same task; those with a head start from a language model."""
InitialExperiment = LanguageModelingConfig | MaskedLMConfig | TranslationConfig
OpenRun = Callable[[Path], RunFiles]


def build_translation_model(experiment: TranslationConfig, tokenizer: Tokenizer, *, device: torch.device) -> nn.Module:
    """Build the model with new weights, which are the same on every device for one seed."""
    vocabularies = {"source_vocabulary": len(tokenizer.source), "target_vocabulary": len(tokenizer.target)}
    with seeded_rng(experiment.training.seed, device=torch.device("cpu")):
        match experiment.model:
            case EncoderDecoderConfig() as config:
                model: nn.Module = build_encoder_decoder(config, **vocabularies)
            case RecurrentConfig() as config:
                model = build_recurrent_model(config, **vocabularies)
            case _:
                assert_never(experiment.model)
    return model.to(device)


def build_initial_model(
    experiment: TranslationConfig, tokenizer: Tokenizer, weights: Mapping[str, Tensor] | None, *, device: torch.device
) -> nn.Module:
    """Build the model that training starts from: with new or given weights, and with adapters under LoRA."""
    model = build_translation_model(experiment, tokenizer, device=device)
    initialize_model(model, weights, experiment.training, where=str(experiment.init_from))
    return model.to(device)


def initialize_model(
    model: nn.Module, weights: Mapping[str, Tensor] | None, training: TrainingConfig, *, where: str
) -> None:
    """Set the weights of the initial run, if any, and add adapters under LoRA, which freezes all weights."""
    if weights is not None:
        set_initial_weights(model, weights, where=where)
    if training.lora is not None:
        with seeded_rng(training.seed, LORA_SEED, device=torch.device("cpu")):
            apply_lora(model, training.lora)


def export_weights(training: TrainingConfig) -> Callable[[Mapping[str, Tensor]], dict[str, Tensor]]:
    """Return the function from trained weights to those for inference, which merges adapters."""
    return dict if training.lora is None else partial(merge_lora, config=training.lora)


def initial_tokenizer(experiment: TranslationConfig, pairs: Pairs, open_run: OpenRun) -> Tokenizer:
    """Return the extended tokenizer of the initial run or of the teacher, that of the prepared corpus, or a new one.

    Raises ConfigError if the tokenizer settings differ from those of that run, or its vocabulary lacks the reserved
    symbols of the augmentation or of the context.
    """
    parts = {"augmentation": experiment.data.augmentation, "context": experiment.data.context}
    needed = {name: part.symbols for name, part in parts.items() if part is not None}
    symbols = tuple(symbol for own in needed.values() for symbol in own)
    single = pairs if experiment.data.context is None else partial(_single_sentences, pairs)
    tokenizer = _initial_tokenizer(experiment, single, open_run, symbols)
    for name, own in needed.items():
        if not all(has_reserved_symbols(side, own) for side in (tokenizer.source, tokenizer.target)):
            raise ConfigError(
                f"data.{name} needs symbols that the vocabulary of the teacher, the prepared corpus, or the run under "
                f"training.lora lacks. Leave {name} out, or use one that was made with it."
            )
    form, context = ContextForm.of(tokenizer), experiment.data.context
    if context is not None and form is not None and form.symbols != context.symbols:
        raise ConfigError(
            f"data.context = {context!r}: the vocabulary of the run or corpus to start from has symbols for "
            f"{len(form.symbols)} sentences with target = {str(form.target).lower()}. Set the same."
        )
    return tokenizer


def _single_sentences(pairs: Pairs) -> Iterator[tuple[str, str]]:
    """Yield the pairs without the context of documents, whose sentences are pairs of their own."""
    return map(last_sentences, pairs())


def _initial_tokenizer(
    experiment: TranslationConfig, pairs: Pairs, open_run: OpenRun, symbols: Sequence[str]
) -> Tokenizer:
    loss = experiment.training.loss
    start = experiment.init_from or (loss.teacher if isinstance(loss, DistillationConfig) else None)
    if start is None:
        prepared = experiment.data.prepared_folder
        if prepared is None:
            tokenizer = add_reserved_symbols(Tokenizer.train(pairs, experiment.tokenizer), symbols)
            corpora = experiment.data.train_corpora
            return add_language_tags(tokenizer, ((one.source_language, one.target_language) for one in corpora))
        tokenizer = Tokenizer.load(prepared / TOKENIZER_FILE)
        if without_dropout(experiment.tokenizer) != without_dropout(tokenizer.config):
            raise ConfigError(
                f"tokenizer: differs from the tokenizer of {prepared}, which tokenized the corpus. Leave it out."
            )
        return tokenizer
    run = open_run(start)
    tokenizer = read_initial_tokenizer(run, experiment.tokenizer, task="translation")
    tokenizer = extend_vocab(tokenizer, pairs, num_tokens=experiment.extend_vocabulary)
    is_fixed = experiment.init_from is None or experiment.training.lora is not None
    return tokenizer if is_fixed else add_reserved_symbols(tokenizer, symbols)


def read_initial_tokenizer(run: RunFiles, config: TokenizerConfig, *, task: str = "classification") -> Tokenizer:
    """Return the tokenizer of an initial run. Raises ConfigError if its settings differ, BPE dropout aside."""
    if without_dropout(config) != without_dropout(read_initial_experiment(run, task=task).tokenizer):
        raise ConfigError(
            f"tokenizer: differs from the tokenizer of {run.path}, which the model was trained with. Leave it out."
        )
    return run.read_tokenizer()


def initial_text_tokenizer(
    experiment: LanguageModelingConfig | MaskedLMConfig, texts: Texts, open_run: OpenRun
) -> Tokenizer:
    """Return the tokenizer of the initial run, or a new one. Raises ConfigError if the settings differ."""
    if experiment.init_from is None:
        return Tokenizer.train_on_texts(texts, experiment.tokenizer)
    return read_initial_tokenizer(open_run(experiment.init_from), experiment.tokenizer, task=experiment.task)


def origin_notes(start: Path | None) -> tuple[str, ...]:
    """Return the note that names the initial run, if any."""
    return () if start is None else (f"initialized from {start.resolve().name}, weights and tokenizer",)


def initial_weights(experiment: TranslationConfig, tokenizer: Tokenizer, folder: RunFiles) -> dict[str, Tensor] | None:
    """Return the weights of the initial run, with rows for new vocabulary entries; None without an initial run."""
    start = experiment.init_from
    weights = read_initial_weights(start, experiment.model, folder, task="translation")
    if weights is None or start is None:
        return weights
    before = folder.open(start).read_tokenizer()
    for name, table in weights.items():
        if name.endswith("embedding.tokens.weight") or name.startswith("unembedding."):
            side = "source" if name.startswith("source") else "target"
            weights[name] = _extend_rows(table, getattr(before, side), getattr(tokenizer, side))
    return weights


def load_teachers(
    experiment: TranslationConfig, tokenizer: Tokenizer, open_run: OpenRun, *, device: torch.device
) -> list[Any]:
    """Load the teachers of distillation in evaluation mode; an empty list without distillation.

    Raises ConfigError if a teacher has another tokenizer, too few positions, or needs source features.
    """
    loss = experiment.training.loss
    if not isinstance(loss, DistillationConfig):
        return []
    return [_load_teacher(open_run(run), experiment, tokenizer, device=device) for run in loss.all_teachers]


def _load_teacher(run: RunFiles, student: TranslationConfig, tokenizer: Tokenizer, *, device: torch.device) -> Any:
    experiment, own_tokenizer = read_initial_experiment(run, task="translation"), run.read_tokenizer()
    assert isinstance(experiment, TranslationConfig)
    if own_tokenizer.fingerprint != tokenizer.fingerprint:
        raise ConfigError(
            f"training.loss: the teacher {run.path} has another tokenizer than this run. Leave the tokenizer out, and "
            "the tokenizer of the first teacher is used."
        )
    if experiment.needs_source_features and not student.needs_source_features:
        raise ConfigError(
            f"training.loss: the teacher {run.path} needs the dependency tree of each source. Set "
            "model.positions.kind=tree, or choose another teacher."
        )
    longest = max(student.data.max_source_length, student.data.max_target_length) + 1
    limit = max_positions(experiment.model)
    if limit is not None and limit[0] < longest:
        raise ConfigError(
            f"training.loss: the teacher {run.path} has {limit[0]} positions ({limit[1]}), and the longest example has "
            f"{longest} tokens, special symbols included. Lower data.max_source_length and data.max_target_length."
        )
    build = partial(build_translation_model, experiment, own_tokenizer)
    return load_model(build, run, device=device).requires_grad_(False)


def _extend_rows(table: Tensor, before: LanguageTokenizer, now: LanguageTokenizer) -> Tensor:
    """Append a row for each new entry: the mean of the rows of the tokens that spelled it before.

    Nothing spelled reserved symbols before: their rows are random, so that the model can tell one from another.
    """
    if len(now) == len(before):
        return table
    assert isinstance(before, SubwordTokenizer), "only vocabularies trained here are extended"
    generator = torch.Generator().manual_seed(SYMBOL_SEED)

    def row(entry: str) -> Tensor:
        if is_reserved_symbol(entry):
            return torch.randn(table.shape[1:], generator=generator).to(table) * table.std()
        return table[before.encode_word(entry)].mean(dim=0)

    return torch.cat([table, torch.stack([row(entry) for entry in now.tokens[len(before) :]])])


def without_dropout(config: TokenizerConfig) -> TokenizerConfig:
    """Return the settings without BPE dropout, which belongs to a training and not to the tokenizer."""
    return config.model_copy(update={"dropout": 0.0}) if isinstance(config, BpeConfig) else config


def read_initial_experiment(run: RunFiles, *, task: str = "classification") -> InitialExperiment:
    """Return the experiment of a run that a run of `task` may be initialized from.

    Raises RunError if the run is of an unsuitable task or unfinished.
    """
    experiment = run.read_config()
    suitable = (task,) if task in PRETRAINING_TASKS else ("masked_lm", "language_modeling")
    if experiment.task not in suitable:
        raise RunError(
            f"{run.path}: is a run of task {experiment.task}. Initialize from a run of task {' or '.join(suitable)}."
        )
    run.check_finished()
    assert isinstance(experiment, InitialExperiment)
    return experiment


def read_initial_weights(
    start: Path | None, model: ModelConfig, folder: RunFiles, *, task: str = "classification"
) -> dict[str, Tensor] | None:
    """Return the weights of the initial run; None without one, or if the run in `folder` has checkpoints.

    Raises ConfigError if the models differ.
    """
    if start is None or any(folder.checkpoints.glob("[0-9]*")):
        return None
    run = folder.open(start)
    initial = read_initial_experiment(run, task=task).model
    own, other = (config.model_dump(mode="json", exclude=set(FREE_KEYS)) for config in (model, initial))
    for key in {**other, **own}:
        if own.get(key) != other.get(key):
            raise ConfigError(
                f"model.{key} = {own.get(key)!r}, but the run in {start} has {other.get(key)!r}. Leave `model` out to "
                "use the settings of that run."
            )
    return read_weights(run)


def set_initial_weights(model: nn.Module, tensors: Mapping[str, Tensor], *, where: str) -> None:
    """Set the weights of `model`; weights that only the initial model has, such as its head, are skipped."""
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    initial = {name: tensor for name, tensor in tensors.items() if name in own}
    if SEGMENT_WEIGHT in own and SEGMENT_WEIGHT not in initial:
        initial[SEGMENT_WEIGHT] = own[SEGMENT_WEIGHT]
    set_weights(model, initial, where=where)
