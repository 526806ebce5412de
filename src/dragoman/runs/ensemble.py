"""Several runs as one translator: what follows is as probable as they find it in the mean."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman.inference.backends.cpu_backend import Compiled
from dragoman.inference.backends.cpu_ensemble import CompiledTogether
from dragoman.inference.translator import Translator


def asked_together(runs: Sequence[str | Path], translators: Sequence[Translator]) -> Translator:
    """A translator that asks the networks of all, and searches as the first one does.

    The compiled core computes them all, or PyTorch does. Raises ConfigError where one does not know the symbols of the
    first, or has structural positions.
    """
    first = translators[0]
    for run, one in zip(runs, translators, strict=True):
        if one.tokenizer.fingerprint != first.tokenizer.fingerprint:
            raise ConfigError(
                f"{run}: has another tokenizer than {runs[0]}, so that their networks do not speak of the same "
                "symbols; ask runs together that share one"
            )
        if one.network.structural:
            raise ConfigError(
                f"{run}: has structural positions, with which it cannot be asked beside others; leave it out"
            )
    return Translator(
        _as_one([one.model for one in translators]),
        first.tokenizer,
        device=first.device,
        batch_tokens=first.batch_tokens,
        settings=first.settings,
    )


def _as_one(models: Sequence[Any]) -> Any:
    if all(isinstance(model, Compiled) for model in models):
        return CompiledTogether(models)
    from dragoman.models.ensemble import Ensemble

    return Ensemble(models).eval()
