"""What the training of a translator begins with: a tokenizer and a network, new or those of another run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from dragoman.data.preprocessing.prepare import TOKENIZER
from dragoman.data.tokenizers import Side, Tokenizer
from dragoman.data.tokenizers.extension import extended
from dragoman.data.tokenizers.tokenizer import Pairs
from dragoman.errors import ConfigError
from dragoman.models.config import TransformerConfig
from dragoman.models.factory import build_seq2seq
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.recurrent.factory import build_recurrent
from dragoman.nn.lora import adapt
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import begin_with, begun_with, lasting, weights_to_begin_with
from dragoman.tasks.base import with_weights
from dragoman.tasks.compatibility import longest_places
from dragoman.tasks.config import Translation
from dragoman.training.distillation import WordDistillation
from dragoman.training.seeding import seeded

ADAPTERS = 0xADA
"""Beside the seed of a run, for the first weights of its adapters, which are drawn after those of its network."""


def translation_network(experiment: Translation, tokenizer: Tokenizer, *, device: torch.device) -> nn.Module:
    """The network with its first weights, the same on every device for one seed."""
    vocabularies = {"source_vocabulary": len(tokenizer.source), "target_vocabulary": len(tokenizer.target)}
    with seeded(experiment.training.seed, device=torch.device("cpu")):
        match experiment.model:
            case TransformerConfig() as config:
                model: nn.Module = build_seq2seq(config, **vocabularies)
            case RecurrentConfig() as config:
                model = build_recurrent(config, **vocabularies)
            case _:
                assert_never(experiment.model)
    return model.to(device)


def begin_network(
    experiment: Translation, tokenizer: Tokenizer, weights: Mapping[str, Tensor] | None, *, device: torch.device
) -> nn.Module:
    """The network as training finds it: new, or with the given weights, and with its adapters if it has any."""
    model = translation_network(experiment, tokenizer, device=device)
    if weights is not None:
        begin_with(model, weights, where=str(experiment.start))
    adapters = experiment.training.adapters
    if adapters is not None:
        with seeded(experiment.training.seed, ADAPTERS, device=torch.device("cpu")):
            adapt(model, adapters)
    return model.to(device)


def first_tokenizer(experiment: Translation, pairs: Pairs) -> Tokenizer:
    """Learnt from the pairs; or of a prepared corpus, or of the run to begin with or to learn from, and extended.

    Raises ConfigError where the settings are not those of that run.
    """
    begun = _whose_tokenizer(experiment)
    if begun is None:
        prepared = experiment.data.prepared
        return Tokenizer.train(pairs, experiment.tokenizer) if prepared is None else _of_prepared(prepared, experiment)
    if lasting(experiment.tokenizer) != lasting(begun_with(begun, task="translation").tokenizer):
        raise ConfigError(f"tokenizer: is that of the run in {begun}, whose words the network knows; leave it out")
    tokenizer = RunFolder(begun).read_tokenizer()
    return extended(tokenizer, pairs, entries=experiment.extend_vocabulary)


def _of_prepared(folder: Path, experiment: Translation) -> Tokenizer:
    """The tokenizer of a prepared corpus. Raises ConfigError where the settings are not those it was learnt with."""
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    if lasting(experiment.tokenizer) != lasting(tokenizer.settings):
        raise ConfigError(f"tokenizer: is that of {folder}, which the corpus was turned into ids with; leave it out")
    return tokenizer


def first_weights(experiment: Translation, tokenizer: Tokenizer, folder: RunFolder) -> dict[str, Tensor] | None:
    """The weights of the run to begin with, with rows for what the vocabulary was extended by; None from zero."""
    start = experiment.start
    weights = weights_to_begin_with(start, experiment.model, folder, task="translation")
    if weights is None or start is None or not experiment.extend_vocabulary:
        return weights
    before = RunFolder(start).read_tokenizer()
    return {
        name: _with_rows(tensor, *((before.source, tokenizer.source) if name.startswith("source") else targets))
        if name in tables_of_words(weights)
        else tensor
        for targets in [(before.target, tokenizer.target)]
        for name, tensor in weights.items()
    }


def tables_of_words(weights: Mapping[str, Tensor]) -> set[str]:
    """The names of the weights that have a row for each entry of a vocabulary."""
    return {name for name in weights if name.endswith("embedding.tokens.weight") or name.startswith("unembedding.")}


def teachers_of(experiment: Translation, tokenizer: Tokenizer, *, device: torch.device) -> list[Any]:
    """The networks that are learnt from, in evaluation mode; none where there is no teacher.

    Raises ConfigError where one knows other words or not the places of the longest example, or needs trees that there
    are none of.
    """
    objective, data = experiment.training.objective, experiment.data
    if not isinstance(objective, WordDistillation):
        return []
    longest = max(data.longest_source, data.longest_target) + 1
    trees = experiment.reads_trees
    return [_teacher(run, tokenizer, longest, trees=trees, device=device) for run in objective.teachers]


def _teacher(run: Path, tokenizer: Tokenizer, longest: int, *, trees: bool, device: torch.device) -> Any:
    folder = RunFolder(run)
    taught = begun_with(run, task="translation")
    assert isinstance(taught, Translation)
    theirs = folder.read_tokenizer()
    if theirs.fingerprint != tokenizer.fingerprint:
        raise ConfigError(
            f"training.objective: the teacher {run} has another tokenizer than this run, so that what it predicts "
            "means nothing here; leave the tokenizer out, and it is taken from the first teacher"
        )
    if taught.reads_trees and not trees:
        raise ConfigError(
            f"training.objective: the teacher {run} reads the dependency tree of each source, and this run has none; "
            "take model.positions.kind=structural here too, or another teacher"
        )
    places = longest_places(taught.model)
    if places is not None and places[0] < longest:
        raise ConfigError(
            f"training.objective: the teacher {run} knows {places[0]} places ({places[1]}), fewer than the longest "
            f"example of {longest} tokens, symbols included; lower data.longest_source and data.longest_target"
        )
    model = with_weights(translation_network(taught, theirs, device=device), folder)
    return model.requires_grad_(False)


def _whose_tokenizer(experiment: Translation) -> Path | None:
    objective = experiment.training.objective
    teacher = objective.teacher if isinstance(objective, WordDistillation) else None
    return experiment.start or teacher


def _with_rows(table: Tensor, before: Side, now: Side) -> Tensor:
    """The table with a row for each new entry: the mean of those of the entries that spelt it so far."""
    pieces = now.segmentation.pieces[len(before) :]
    rows = [table[before.spell(piece)].mean(dim=0) for piece in pieces]
    return torch.cat([table, torch.stack(rows)]) if rows else table
