"""Profile a training for `training.batch_tokens: auto` and for `dragoman plan`."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, assert_never

import torch

from dragoman.errors import ConfigError
from dragoman.profiling.memory import available_bytes, format_bytes, resident_bytes
from dragoman.profiling.plan import RESERVE, Plan, build_plan, max_batch_tokens
from dragoman.profiling.profile import Profile, ProfileRequest, run_profiler
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
"""Batch tokens that suit a GPU; Vaswani et al. (2017) used about 25,000."""
AUTO_SECONDS, PLAN_SECONDS = 1.0, 6.0
"""Time to spend on training steps, for `batch_tokens: auto` and for a plan."""
PROFILER: Final = """
import sys, pathlib
import dragoman.cli.main, dragoman.cli.training_display, dragoman.runs.train
from dragoman.profiling.profile_worker import write_profile
from dragoman.runs.folder import RunFolder
write_profile(RunFolder(pathlib.Path(sys.argv[1])))
"""
"""Program of the profiling process; it imports what the command imports, which counts as memory."""


def suitable_batch_tokens(experiment: Experiment, device: torch.device) -> int:
    """Return the batch tokens that suit a device and contain the longest example that the settings allow."""
    return max(CPU_BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS, max_example_tokens(experiment))


def max_example_tokens(experiment: Experiment) -> int:
    """Return the tokens of the longest example that the settings allow, special symbols included."""
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
    training = experiment.training.model_copy(update={"batch_tokens": tokens})
    return experiment.model_copy(update={"training": training})


def is_same_experiment(found: Experiment, asked: Experiment) -> bool:
    """Return whether a run has the requested settings, whatever was chosen for `batch_tokens: auto`."""
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
    """Choose a number for `training.batch_tokens: auto`; return the experiment and a sentence with the reason.

    `available` is the memory in bytes of each of the devices that share every batch, by default what is free and what
    this process uses. Raises ConfigError if the longest example does not fit.
    """
    report("choosing the batch tokens that fit into memory")
    if available is None:
        available = available_bytes(device) + (resident_bytes(device) if device.type == "cpu" else 0)
    suitable = suitable_batch_tokens(experiment, device)
    tried = with_batch_tokens(experiment, suitable)
    limit = int((1 - RESERVE) * available)
    request = ProfileRequest(str(device), time.time(), AUTO_SECONDS, memory_limit=limit, validate=False)
    profile = profile_experiment(tried, request, report=report, tokenizer_from=folder)
    fitting = max_batch_tokens(profile, tried.training, available=available, devices=devices)
    per_device, longest = fitting // devices, max_example_tokens(experiment)  # an example is never divided
    if per_device < longest:
        raise ConfigError(
            f"training.batch_tokens = auto: {per_device:,} tokens fit into {format_bytes(available)}, and an example may "
            f"have {longest:,}. Lower the maximum length, or choose a smaller model."
        )
    tokens = min(suitable, fitting)
    reason = (
        f"the most that fit into {format_bytes(available)} of memory"
        if tokens < suitable
        else f"suitable for a {'CPU' if device.type == 'cpu' else 'GPU'}; {fitting:,} would fit into "
        f"{format_bytes(available)}"
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
    """Plan the training of an experiment on a number of devices like this one.

    `available` is the memory of each device in bytes, by default what is free; `price` is per device hour. Raises
    DragomanError as the training would, and ConfigError if no batch fits.
    """
    memory = available_bytes(device) if available is None else available
    if experiment.training.batch_tokens == "auto":
        experiment, _ = resolve_batch_tokens(
            experiment, device=device, report=report, available=memory, devices=devices
        )
    profile = profile_experiment(experiment, ProfileRequest(str(device), time.time(), PLAN_SECONDS), report=report)
    return build_plan(profile, experiment.training, available=memory, devices=devices, price=price)


def profile_experiment(
    experiment: Experiment,
    request: ProfileRequest,
    *,
    report: Callable[[str], None],
    tokenizer_from: RunFolder | None = None,
) -> Profile:
    """Profile a training in a temporary run folder.

    The tokenizer and labels of the run `tokenizer_from` are used instead of new ones.
    """
    with tempfile.TemporaryDirectory(prefix="dragoman-plan-") as name:
        folder = RunFolder(Path(name))
        folder.write_config(experiment)
        for file in () if tokenizer_from is None else (tokenizer_from.tokenizer, tokenizer_from.labels):
            if file.exists():
                (folder.path / file.name).write_bytes(file.read_bytes())
        return run_profiler(folder.path, request, program=PROFILER, report=report)
