"""Pruning: write a new run without the least important attention heads of another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dragoman.array_types import Float
from dragoman.atomic_files import write_atomically
from dragoman.checksums import to_checked_json
from dragoman.errors import ConfigError, RunError
from dragoman.inference.translator import Translator
from dragoman.interpret.attention_heads import (
    RemainingHeads,
    has_uniform_heads,
    head_importance,
    pruned_config,
    pruned_weights,
    select_heads,
)
from dragoman.interpret.attention_recorder import as_module, eval_mode, pad_sequences
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.special_symbols import BOS, EOS, PAD
from dragoman.models.weight_storage import save_tensors, set_weights
from dragoman.number_words import counted
from dragoman.profiling.memory_and_time_estimate import count_parameters
from dragoman.runs.folder import RunFolder
from dragoman.tasks.factory import build_task

_BATCH_SIZE = 32
"""Pairs per batch."""


@dataclass(frozen=True)
class PruneResult:
    """Numbers of heads and of parameters before and after pruning, and the remaining heads."""

    heads: tuple[int, int]
    parameters: tuple[int, int]
    remaining: RemainingHeads


def prune_run(
    path: Path, translator: Translator, out: Path, *, share: float, pairs: Sequence[tuple[str, str]]
) -> PruneResult:
    """Write to `out` the run at `path` without the `share` of its heads that the loss on the pairs depends on least.

    Raises RunError if `out` exists or the run is a pruned one, and ConfigError if its model has no attention heads.
    """
    folder, pruned_folder = RunFolder(path), RunFolder(out)
    experiment = folder.read_config()
    if not isinstance(experiment.model, EncoderDecoderConfig):
        raise ConfigError(f"{path}: has no attention heads. Give a run of an encoder-decoder Transformer.")
    model = as_module(translator.model)
    if not has_uniform_heads(model) or "pruned" in folder.read_environment():
        raise RunError(f"{path}: is a pruned run. Prune the run that it comes from, by a larger share.")
    pruned_folder.check_new()
    with eval_mode(model):
        tables = {kind: table.cpu() for kind, table in head_importance(model, _token_losses(translator, pairs)).items()}
    left = select_heads(tables, share=share, group=experiment.model.heads_per_group)
    config = experiment.model_copy(update={"model": pruned_config(experiment.model, left)})
    num_heads = sum(table.numel() for table in tables.values())
    num_left = sum(len(heads) for layers in left.values() for heads in layers)
    pruned_folder.create()
    with pruned_folder.remove_on_error():
        pruned_folder.write_config(config)
        folder.copy_files(pruned_folder, folder.tokenizer)
        pruned = build_task(config).build_model(pruned_folder, device=torch.device("cpu"))
        set_weights(pruned, pruned_weights(model, left), where=str(path))
        result = PruneResult((num_heads, num_left), (count_parameters(model), count_parameters(pruned)), left)
        _write_origin(folder, pruned_folder, result, share=share, pairs=len(pairs))
        save_tensors(pruned_folder.weights, dict(pruned.named_parameters()))
    return result


def _token_losses(translator: Translator, pairs: Sequence[tuple[str, str]]) -> Iterator[Float[Tensor, " rows"]]:
    """Yield the negative log-likelihood per token of each pair, batch by batch."""
    tokenizer = translator.tokenizer
    model: Any = translator.model
    for first in range(0, len(pairs), _BATCH_SIZE):
        some = pairs[first : first + _BATCH_SIZE]
        sources = [tokenizer.source.encode(source) for source, _ in some]
        targets = [tokenizer.target.encode(target) for _, target in some]
        source, lengths = pad_sequences([[*ids, EOS] for ids in sources], translator.device)
        given, _ = pad_sequences([[BOS, *ids] for ids in targets], translator.device)
        wanted, _ = pad_sequences([[*ids, EOS] for ids in targets], translator.device)
        logits = model.unembed(model.hidden(source, lengths, given))
        lost = cross_entropy(logits.transpose(1, 2), wanted, ignore_index=PAD, reduction="none")
        yield lost.sum(dim=1) / (wanted != PAD).sum(dim=1)


def _write_origin(
    folder: RunFolder, pruned_folder: RunFolder, result: PruneResult, *, share: float, pairs: int
) -> None:
    """Write the origin of the pruned run to its environment and its model card."""
    origin = {"run": folder.path.resolve().name, "share": share, "pairs": pairs, "heads": list(result.heads)}
    environment = folder.read_environment() | {"pruned": origin}
    write_atomically(pruned_folder.environment, to_checked_json(environment))
    name = pruned_folder.path.resolve().name
    write_atomically(
        pruned_folder.model_card,
        f"# {name}\n\n{origin['run']} without the {result.heads[0] - result.heads[1]} of its {result.heads[0]} "
        f"attention heads that matter least on {counted(pairs, 'pairs')}: {result.parameters[1]:,} parameters instead "
        f"of "
        f"{result.parameters[0]:,}. It was neither trained again nor scored.\n\n## Use\n\n"
        f"```\ndragoman translate {name} --input FILE\n```\n",
    )
