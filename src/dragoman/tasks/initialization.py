"""What the training of a translator begins with: a tokenizer and a network, new or those of another run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from dragoman.data.preprocessing.prepare import TOKENIZER_FILE
from dragoman.data.tokenizers import LanguageTokenizer, Tokenizer
from dragoman.data.tokenizers.extension import extend_vocab
from dragoman.data.tokenizers.tokenizer import Pairs
from dragoman.errors import ConfigError
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.factory import build_encoder_decoder
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.recurrent.factory import build_recurrent_model
from dragoman.nn.lora import apply_lora
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import set_initial_weights, read_initial_experiment, without_dropout, read_initial_weights
from dragoman.tasks.base import load_weights
from dragoman.tasks.compatibility import max_positions
from dragoman.tasks.config import TranslationConfig
from dragoman.training.distillation import DistillationConfig
from dragoman.training.step import seeded_rng

ADAPTERS = 0xADA
"""Beside the seed of a run, for the first weights of its adapters, which are drawn after those of its network."""


def build_translation_model(experiment: TranslationConfig, tokenizer: Tokenizer, *, device: torch.device) -> nn.Module:
    """The network with its first weights, the same on every device for one seed."""
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
    """The network as training finds it: new, or with the given weights, and with its adapters if it has any."""
    model = build_translation_model(experiment, tokenizer, device=device)
    if weights is not None:
        set_initial_weights(model, weights, where=str(experiment.init_from))
    adapters = experiment.training.lora
    if adapters is not None:
        with seeded_rng(experiment.training.seed, ADAPTERS, device=torch.device("cpu")):
            apply_lora(model, adapters)
    return model.to(device)


def initial_tokenizer(experiment: TranslationConfig, pairs: Pairs) -> Tokenizer:
    """Learnt from the pairs; or of a prepared corpus, or of the run to begin with or to learn from, and extended.

    Raises ConfigError where the settings are not those of that run.
    """
    begun = _tokenizer_run(experiment)
    if begun is None:
        prepared = experiment.data.prepared_folder
        return Tokenizer.train(pairs, experiment.tokenizer) if prepared is None else _prepared_tokenizer(prepared, experiment)
    if without_dropout(experiment.tokenizer) != without_dropout(read_initial_experiment(begun, task="translation").tokenizer):
        raise ConfigError(f"tokenizer: is that of the run in {begun}, whose words the network knows; leave it out")
    tokenizer = RunFolder(begun).read_tokenizer()
    return extend_vocab(tokenizer, pairs, num_tokens=experiment.extend_vocabulary)


def _prepared_tokenizer(folder: Path, experiment: TranslationConfig) -> Tokenizer:
    """The tokenizer of a prepared corpus. Raises ConfigError where the settings are not those it was learnt with."""
    tokenizer = Tokenizer.load(folder / TOKENIZER_FILE)
    if without_dropout(experiment.tokenizer) != without_dropout(tokenizer.config):
        raise ConfigError(f"tokenizer: is that of {folder}, which the corpus was turned into ids with; leave it out")
    return tokenizer


def initial_weights(experiment: TranslationConfig, tokenizer: Tokenizer, folder: RunFolder) -> dict[str, Tensor] | None:
    """The weights of the run to begin with, with rows for what the vocabulary was extended by; None from zero."""
    start = experiment.init_from
    weights = read_initial_weights(start, experiment.model, folder, task="translation")
    if weights is None or start is None or not experiment.extend_vocabulary:
        return weights
    before = RunFolder(start).read_tokenizer()
    return {
        name: _extend_rows(tensor, *((before.source, tokenizer.source) if name.startswith("source") else targets))
        if name in vocabulary_tables(weights)
        else tensor
        for targets in [(before.target, tokenizer.target)]
        for name, tensor in weights.items()
    }


def vocabulary_tables(weights: Mapping[str, Tensor]) -> set[str]:
    """The names of the weights that have a row for each entry of a vocabulary."""
    return {name for name in weights if name.endswith("embedding.tokens.weight") or name.startswith("unembedding.")}


def load_teachers(experiment: TranslationConfig, tokenizer: Tokenizer, *, device: torch.device) -> list[Any]:
    """The networks that are learnt from, in evaluation mode; none where there is no teacher.

    Raises ConfigError where one knows other words or not the places of the longest example, or needs trees that there
    are none of.
    """
    objective, data = experiment.training.loss, experiment.data
    if not isinstance(objective, DistillationConfig):
        return []
    longest = max(data.max_source_length, data.max_target_length) + 1
    trees = experiment.needs_trees
    return [_load_teacher(run, tokenizer, longest, trees=trees, device=device) for run in objective.all_teachers]


def _load_teacher(run: Path, tokenizer: Tokenizer, longest: int, *, trees: bool, device: torch.device) -> Any:
    folder = RunFolder(run)
    taught = read_initial_experiment(run, task="translation")
    assert isinstance(taught, TranslationConfig)
    theirs = folder.read_tokenizer()
    if theirs.fingerprint != tokenizer.fingerprint:
        raise ConfigError(
            f"training.objective: the teacher {run} has another tokenizer than this run, so that what it predicts "
            "means nothing here; leave the tokenizer out, and it is taken from the first teacher"
        )
    if taught.needs_trees and not trees:
        raise ConfigError(
            f"training.objective: the teacher {run} reads the dependency tree of each source, and this run has none; "
            "take model.positions.kind=structural here too, or another teacher"
        )
    places = max_positions(taught.model)
    if places is not None and places[0] < longest:
        raise ConfigError(
            f"training.objective: the teacher {run} knows {places[0]} places ({places[1]}), fewer than the longest "
            f"example of {longest} tokens, symbols included; lower data.max_source_length and data.max_target_length"
        )
    model = load_weights(build_translation_model(taught, theirs, device=device), folder)
    return model.requires_grad_(False)


def _tokenizer_run(experiment: TranslationConfig) -> Path | None:
    objective = experiment.training.loss
    teacher = objective.teacher if isinstance(objective, DistillationConfig) else None
    return experiment.init_from or teacher


def _extend_rows(table: Tensor, before: LanguageTokenizer, now: LanguageTokenizer) -> Tensor:
    """The table with a row for each new entry: the mean of those of the entries that spelt it so far."""
    pieces = now.model.vocab[len(before) :]
    rows = [table[before.encode_word(piece)].mean(dim=0) for piece in pieces]
    return torch.cat([table, torch.stack(rows)]) if rows else table
