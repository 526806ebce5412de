"""Training as the profiler runs it, and the entry point of the profiling process."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

from dragoman.profiling.batch_cost import use_batches
from dragoman.profiling.profile_worker import RecordedTraining, StepRecorder, write_profile
from dragoman.profiling.workers import choose_num_workers, peak_memory_of_workers
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import Experiment
from dragoman.tasks.factory import build_task
from dragoman.tasks.setup import prepare_state
from dragoman.training.distributed import lead_workers, worker_message
from dragoman.training.trainer import InterruptionError, train


@final
class ProfiledTraining:
    """Implements `TrainingRunner` with the functions of `dragoman train`."""

    def choose_num_workers(self, experiment: Experiment, model: nn.Module, *, tokens: int, device: torch.device) -> int:
        return choose_num_workers(experiment.training, model, tokens=tokens, device=device)

    def train(
        self,
        folder: RunFolder,
        experiment: Experiment,
        data: Any,
        recorder: StepRecorder,
        *,
        device: torch.device,
        num_workers: int,
    ) -> RecordedTraining:
        folder.write_config(experiment)
        config, message = experiment.training, worker_message(folder.path, device) | {"profile": "yes"}
        with lead_workers(num_workers, message=message) as workers:
            recorder.lap("workers")
            setup = build_task(experiment).setup_training(data, device=device)
            recorder.lap("setup")
            selected = recorder.select_batches(setup.stream)
            recorder.lap("survey")
            selected = workers.broadcast(selected)
            recorder.lap("broadcast")
            state = prepare_state(use_batches(setup, selected), config, folder.checkpoints, workers, device=device)
            with suppress(InterruptionError):
                train(
                    state,
                    config,
                    loss_function=setup.loss_function,
                    validator=setup.validator,
                    callback=recorder,
                    device=device,
                    interrupted=recorder.is_done,
                    workers=workers,
                )
            return RecordedTraining(setup, state, peak_memory_of_workers(workers))


def main() -> None:
    """Profile the training in the run folder that the first argument names."""
    write_profile(RunFolder(Path(sys.argv[1])), ProfiledTraining())
