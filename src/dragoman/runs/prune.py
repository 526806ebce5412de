"""A run made smaller: the heads of its network that matter least are taken out, and the rest is a run of its own."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dragoman.atomic import write_atomically
from dragoman.errors import ConfigError, RunError
from dragoman.inference.translator import Translator
from dragoman.interpret.attention_heads import alike_in_heads, sensitivity
from dragoman.interpret.forward_pass import module_of, padded, without_dropout
from dragoman.interpret.head_pruning import Left, best_heads, pruned_config, pruned_weights
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.special_symbols import SpecialSymbols
from dragoman.models.weights import save_tensors, set_weights
from dragoman.profiling.estimate import count_parameters
from dragoman.runs.folder import RunFolder
from dragoman.tasks.factory import build_task
from dragoman.typing import Float

BATCH_SIZE = 32
"""Pairs that go through the network at once."""


@dataclass(frozen=True)
class PruneResult:
    """What became of a run."""

    heads: tuple[int, int]
    """Before and after."""
    parameters: tuple[int, int]
    left: Left


def prune_run(
    path: Path, translator: Translator, out: Path, *, share: float, pairs: Sequence[tuple[str, str]]
) -> PruneResult:
    """Write to `out` the run at `path` without the `share` of its heads that matter least to the given pairs.

    Raises RunError where `out` exists or the run was pruned already, and ConfigError where its heads cannot be taken
    apart, or are none.
    """
    folder, smaller = RunFolder(path), RunFolder(out)
    experiment = folder.read_config()
    if not isinstance(experiment.model, EncoderDecoderConfig):
        raise ConfigError(f"{path}: has no attention heads that could be taken out; give a Transformer")
    model = module_of(translator.model)
    if not alike_in_heads(model) or "pruned" in folder.read_environment():
        raise RunError(f"{path}: was pruned already; prune the run that it was made from, by a greater share")
    smaller.check_new()
    with without_dropout(model):
        worth = sensitivity(model, _token_losses(translator, pairs))
    tables = {kind: table.cpu() for kind, table in worth.items()}
    left = best_heads(tables, share=share, group=experiment.model.heads_per_group)
    config = experiment.model_copy(update={"model": pruned_config(experiment.model, left)})
    smaller.create()
    with smaller.remove_on_error():
        smaller.write_config(config)
        write_atomically(smaller.tokenizer, folder.tokenizer.read_bytes())
        pruned = build_task(config).build_model(smaller, device=torch.device("cpu"))
        set_weights(pruned, pruned_weights(model, left), where=str(path))
        found = PruneResult(
            heads=(sum(table.numel() for table in worth.values()), _count_heads(left)),
            parameters=(count_parameters(model), count_parameters(pruned)),
            left=left,
        )
        _write_origin(folder, smaller, found, share=share, pairs=len(pairs))
        save_tensors(smaller.weights, dict(pruned.named_parameters()))
    return found


def _token_losses(translator: Translator, pairs: Sequence[tuple[str, str]]) -> Iterator[Float[Tensor, " rows"]]:
    """The negative log-likelihood of each pair, by token, batch by batch."""
    symbols, tokenizer = SpecialSymbols(), translator.tokenizer
    model: Any = translator.model
    for first in range(0, len(pairs), BATCH_SIZE):
        some = pairs[first : first + BATCH_SIZE]
        sources = [tokenizer.source.encode(source) for source, _ in some]
        targets = [tokenizer.target.encode(target) for _, target in some]
        source, lengths = padded([[*ids, symbols.eos] for ids in sources], symbols, translator.device)
        given, _ = padded([[symbols.bos, *ids] for ids in targets], symbols, translator.device)
        wanted, _ = padded([[*ids, symbols.eos] for ids in targets], symbols, translator.device)
        logits = model.unembed(model.hidden(source, lengths, given))
        lost = cross_entropy(logits.transpose(1, 2), wanted, ignore_index=symbols.pad, reduction="none")
        yield lost.sum(dim=1) / (wanted != symbols.pad).sum(dim=1)


def _count_heads(left: Left) -> int:
    return sum(len(heads) for layers in left.values() for heads in layers)


def _write_origin(folder: RunFolder, smaller: RunFolder, found: PruneResult, *, share: float, pairs: int) -> None:
    """Where the smaller run came from, for programs and for people."""
    origin = {"run": folder.path.resolve().name, "share": share, "pairs": pairs, "heads": list(found.heads)}
    environment = folder.read_environment() | {"pruned": origin}
    write_atomically(smaller.environment, json.dumps(environment, ensure_ascii=False, indent=2) + "\n")
    name = smaller.path.resolve().name
    write_atomically(
        smaller.model_card,
        f"# {name}\n\n{origin['run']} without the {found.heads[0] - found.heads[1]} of its {found.heads[0]} attention "
        f"heads that mattered least to {pairs:,} pairs: {found.parameters[1]:,} parameters in place of "
        f"{found.parameters[0]:,}. It was not trained again, and its scores are to be measured.\n\n## Use\n\n"
        f"```\ndragoman translate {name} --input FILE\n```\n",
    )
