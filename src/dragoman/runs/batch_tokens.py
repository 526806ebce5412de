"""The token budget of a training, where it is `auto`: as many as fit into memory, and at most what suits the device."""

from collections.abc import Callable
from typing import Final, assert_never

import torch

from dragoman.errors import ConfigError
from dragoman.profiling.memory import available_bytes, resident_bytes, shown
from dragoman.profiling.plan import SPARE, Plan, budget_that_fits, plan_of
from dragoman.profiling.profile import Asked, measure, now
from dragoman.runs.auto_config import CPU_BATCH_TOKENS
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import (
    ClassificationConfig,
    Experiment,
    LanguageModelingConfig,
    MaskedLMConfig,
    QuestionAnsweringConfig,
    TaggingConfig,
    TranslationConfig,
)

GPU_BATCH_TOKENS: Final = 32_768
"""What a GPU learns from at a time; Vaswani et al. (2017) took about 25,000."""
PROFILE_SECONDS, PLANNING = 1.0, 6.0
"""For how long updates are timed, to find a budget, and to plan."""


def suitable_batch_tokens(experiment: Experiment, device: torch.device) -> int:
    """Tokens of a batch that suit a device, and hold the longest example that the settings allow."""
    return max(CPU_BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS, max_example_tokens(experiment))


def max_example_tokens(experiment: Experiment) -> int:
    """Tokens of the longest example that the settings allow, symbols included."""
    match experiment:
        case TranslationConfig():
            return max(experiment.data.max_source_length, experiment.data.max_target_length) + 1
        case LanguageModelingConfig() | MaskedLMConfig():
            return experiment.data.context_length
        case ClassificationConfig() | TaggingConfig():
            return experiment.data.max_length
        case QuestionAnsweringConfig():
            return experiment.data.windows.max_length
        case _:
            assert_never(experiment)


def with_batch_tokens(experiment: Experiment, tokens: int) -> Experiment:
    """The same with a token budget."""
    training = experiment.training.model_copy(update={"batch_tokens": tokens})
    return experiment.model_copy(update={"training": training})


def is_same_experiment(found: Experiment, asked: Experiment) -> bool:
    """Whether a run has the settings that are asked for, but for a budget that was found for it."""
    if asked.training.batch_tokens == "auto" != found.training.batch_tokens:
        asked = with_batch_tokens(asked, found.training.token_budget)
    return found == asked


def resolve_batch_tokens(
    experiment: Experiment,
    *,
    device: torch.device,
    report: Callable[[str], None],
    folder: RunFolder | None = None,
    available: int | None = None,
    devices: int = 1,
) -> tuple[Experiment, str]:
    """The experiment with a number for `training.batch_tokens: auto`, and a sentence about it.

    So many `devices` like this one share every batch. `available` is the memory of each that may be taken, in bytes;
    without it, what is free and what this process has already. Raises ConfigError where not even the longest example
    fits.
    """
    report("looking for the token budget that fits")
    if available is None:
        available = available_bytes(device) + (resident_bytes(device) if device.type == "cpu" else 0)
    most = suitable_batch_tokens(experiment, device)
    tried = with_batch_tokens(experiment, most)
    limit = int((1 - SPARE) * available)
    asked = Asked(str(device), now(), PROFILE_SECONDS, limit=limit, judging=False)
    found = measure(tried, asked, tell=report, tokenizer_of=folder)
    fitting = budget_that_fits(found, tried.training, available=available, devices=devices)
    alone = fitting // devices  # an example is never divided
    if alone < max_example_tokens(experiment):
        raise ConfigError(
            f"training.batch_tokens = auto: {alone:,} tokens fit into {shown(available)}, and an example may have "
            f"{max_example_tokens(experiment):,}; allow only shorter ones, or take a smaller model"
        )
    tokens = min(most, fitting)
    reason = (
        f"as many as fit into {shown(available)} of memory"
        if tokens < most
        else f"what suits {'a CPU' if device.type == 'cpu' else 'a GPU'}; {fitting:,} would fit into {shown(available)}"
    )
    return with_batch_tokens(experiment, tokens), f"training.batch_tokens: {tokens:,}, {reason}"


def plan_training(
    experiment: Experiment,
    *,
    device: torch.device,
    devices: int = 1,
    available: int | None = None,
    price: float | None = None,
    report: Callable[[str], None],
) -> Plan:
    """What the training of an experiment will take on so many devices like this one.

    `available` is the memory of each in bytes, by default what is free; `price` is that of an hour of one. Raises
    DragomanError as the training would, and ConfigError where no batch fits.
    """
    there = available_bytes(device) if available is None else available
    if experiment.training.batch_tokens == "auto":
        experiment, _ = resolve_batch_tokens(experiment, device=device, report=report, available=there, devices=devices)
    found = measure(experiment, Asked(str(device), now(), PLANNING), tell=report)
    return plan_of(found, experiment.training, available=there, devices=devices, price=price)
