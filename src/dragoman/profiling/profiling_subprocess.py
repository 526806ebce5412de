"""Process that profiles a training: start, some steps and a validation, as `dragoman train` would do them.

Three things differ: batches are selected, the learning rate is almost zero, so that an untrained model stays untrained,
and validation stops near the mean length of the targets, because an untrained model never predicts the end.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dragoman.array_types import Rows
from dragoman.config import parse
from dragoman.data.batching.batch_streams import BatchStream
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.errors import DragomanError
from dragoman.profiling.measured_memory import peak_bytes, resident_bytes
from dragoman.profiling.memory_and_time_estimate import build_meta_model, count_flops, count_parameters, passes_per_step
from dragoman.profiling.peak_performance import peak_flops
from dragoman.profiling.time_and_memory_per_batch import (
    PARTS,
    BatchCost,
    BatchPart,
    mean_cost,
    select_batches,
    survey_batches,
    use_batches,
)
from dragoman.profiling.training_profile import (
    PROFILE_FILE,
    REQUEST_FILE,
    USER_ERROR,
    MemoryLevel,
    Profile,
    ProfileRequest,
    TensorBytes,
)
from dragoman.profiling.workers_and_threads import Arrangement, choose_arrangement, peak_memory_of_workers
from dragoman.tasks.build_training import TrainingSetup, prepare_state
from dragoman.tasks.config import Experiment, TranslationConfig
from dragoman.tasks.factory import build_task
from dragoman.tasks.parallel_data import ParallelData
from dragoman.tasks.task import RunFiles
from dragoman.training.callbacks import Event, LogEvent, SaveEvent, StepEvent
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import lead_workers, use_threads, worker_message
from dragoman.training.optimizers import optimizer_tensors
from dragoman.training.trainer import InterruptionError, TrainingState, total_steps, train

MIN_WHOLE_STEPS, MAX_WHOLE_STEPS = 6, 120
UNLIMITED: Final = 10**9
LEARNING_RATE: Final = 1e-12
LENGTH_OFFSET: Final = 6
"""Tokens beyond the mean target length at which outputs are cut off. With 6, validating an untrained model takes as
long as validating a model trained for 807 steps (Multi30k)."""
SHORTEST_TOKENS, LONGEST_TOKENS = 4096, 2048
"""Tokens of the shortest validation examples, as many as are translated together, and of the longest ones."""
_CHARACTERS_PER_TOKEN: Final = 4
_CPU: Final = torch.device("cpu")


def write_profile(folder: RunFiles) -> None:
    """Profile the training in a folder that `run_profiler` has prepared, and write the profile there."""
    request = ProfileRequest(**json.loads((folder.path / REQUEST_FILE).read_text(encoding="utf-8")))
    try:
        profile = profile_training(folder, request, report=lambda message: print(message, flush=True))
    except DragomanError as error:
        print(error, file=sys.stderr)
        sys.exit(USER_ERROR)
    (folder.path / PROFILE_FILE).write_text(json.dumps(asdict(profile)), encoding="utf-8")


def profile_training(folder: RunFiles, request: ProfileRequest, *, report: Callable[[str], None]) -> Profile:
    """Profile the training of a folder, whose configuration and validation sets change."""
    start, device, experiment = time.time() - request.started, torch.device(request.device), folder.read_config()
    program_bytes = resident_bytes(_CPU)
    data, data_seconds = _prepare_data(experiment, folder, report=report)
    data_bytes = max(0, resident_bytes(_CPU) - program_bytes)
    model = build_meta_model(experiment, folder)
    arrangement = choose_arrangement(experiment.training, model, tokens=data.tokens_per_epoch, device=device)
    profiled, (sampled, ratios) = profiling_config(experiment, data), sample_validation(data, folder.path)
    recorder = StepRecorder(request, device, profiled.training, {"start": start, "data": data_seconds})
    report("measuring training steps")
    setup, state, worker_peaks = _train(folder, profiled, sampled, recorder, device=device, arrangement=arrangement)
    recorder.lap("steps")
    stream = setup.stream
    recorder.seconds["epoch"] = _measure(lambda: stream.seek({"epoch": 1, "batch": 0}))
    score_seconds = {}
    if request.validate:
        with use_threads(min(torch.get_num_threads(), arrangement.total_threads)):
            score_seconds = _time_validation(setup, state.model, recorder.seconds, ratios, report)
    grad_accumulation = profiled.training.grad_accumulation
    step_cost = mean_cost(list(recorder.costs.values()), per=1 / grad_accumulation)
    stream.seek({"epoch": 0, "batch": 0})
    return Profile(
        num_workers=arrangement.num_workers,
        parameters=count_parameters(state.model),
        tensors=tensor_bytes(state),
        program_bytes=program_bytes,
        data_bytes=data_bytes,
        peak_bytes=peak_bytes(device),
        worker_peaks=worker_peaks,
        memory_levels=recorder.memory_levels(),
        memory_growth=recorder.memory_growth(),
        whole_steps=len(recorder.whole_steps()),
        timed_steps=recorder.timed_steps(),
        seconds=recorder.seconds,
        step_cost=step_cost,
        steps=total_steps(experiment.training, stream),
        steps_per_epoch=max(1, stream.batches_per_epoch()) / grad_accumulation,
        step_flops=passes_per_step(experiment) * step_flops(model, step_cost),
        peak_flops=peak_flops(device) if request.validate else 0.0,
        score_seconds=score_seconds,
        data_summary=data.summary,
        data_notes=data.notes,
    )


def tensor_bytes(state: TrainingState[Any]) -> TensorBytes:
    """Return the bytes of the tensors that a worker keeps between steps."""

    def size(tensors: Any) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    parameters: list[Tensor] = list(state.model.parameters())
    return TensorBytes(
        weights=size(parameters),
        gradients=size(one for one in parameters if one.requires_grad),
        optimizer=size(optimizer_tensors(state.optimizer, state.model).values()),
        ema=size(() if state.ema is None else state.ema.values()),
    )


def step_flops(model: nn.Module, cost: BatchCost) -> float:
    """Return the operations of a step with one pass: the forward pass, and twice as many for the backward pass."""
    flops = count_flops(model)
    decoded = cost.target_tokens if "encode" in flops else cost.source_tokens
    return 3.0 * (flops.get("encode", 0) * cost.source_tokens + flops.get("decode", 0) * decoded)


def profiling_config(experiment: Experiment, data: Any) -> Experiment:
    """Return the experiment without end and without learning, with outputs as long as the targets of the corpus."""
    training: dict[str, Any] = {
        "max_steps": UNLIMITED,
        "max_epochs": None,
        "validate_every": UNLIMITED,
        "validate_every_epochs": None,
        "patience": None,
        "log_every": 1,
        "optimizer": {**experiment.training.optimizer.model_dump(), "learning_rate": LEARNING_RATE},
    }
    tree = experiment.model_dump(mode="json")
    tree["training"] |= training
    if isinstance(experiment, TranslationConfig) and isinstance(data, ParallelData):
        ratio = float(data.train.target.lengths.mean() / max(1.0, data.train.source.lengths.mean()))
        tree["decoding"]["max_length_ratio"] = min(experiment.decoding.max_length_ratio, ratio)
        tree["decoding"]["max_length_offset"] = min(experiment.decoding.max_length_offset, LENGTH_OFFSET)
    return parse(type(experiment), tree)


@final
class StepRecorder:
    """Training callback that selects batches, records time and memory of each step, and says when to stop."""

    def __init__(
        self, request: ProfileRequest, device: torch.device, config: TrainingConfig, seconds: dict[str, float]
    ) -> None:
        self.seconds = seconds
        """Seconds of everything but the steps, by name."""
        self.costs: Mapping[int, BatchCost] = {}
        self._request, self._device, self._config = request, device, config
        self._steps: list[list[BatchPart]] = []
        self._step_seconds: list[float] = []
        self._peaks: list[int] = []
        self._last_event = self._last_lap = time.perf_counter()

    def lap(self, name: str) -> None:
        """Record the seconds since the last lap under a name."""
        now = time.perf_counter()
        self.seconds[name] = now - self._last_lap
        self._last_lap = now

    def select_batches(self, stream: BatchStream[Any]) -> list[list[BatchPart]]:
        """Select the batches of each step."""
        config = self._config
        self.costs = survey_batches(stream)
        self._steps = select_batches(
            self.costs, grad_accumulation=config.grad_accumulation, steps=MAX_WHOLE_STEPS, seed=config.seed
        )
        return self._steps

    def __call__(self, event: Event) -> None:
        now = time.perf_counter()
        match event:
            case StepEvent():
                return
            case LogEvent():
                self._step_seconds.append(now - self._last_event)
                self._peaks.append(peak_bytes(self._device))
            case SaveEvent():
                self.seconds["checkpoint"] = now - self._last_event
            case _:
                pass
        self._last_event = time.perf_counter()

    def is_done(self) -> bool:
        """Return whether enough steps were recorded, or the next one may exceed the memory limit."""
        if len(self._step_seconds) >= len(self._steps) or self._exceeds_limit():
            return True
        whole = self.whole_steps()
        spent = sum(self._step_seconds[number] for number in whole)
        return len(whole) >= MIN_WHOLE_STEPS and spent >= self._request.seconds

    def _exceeds_limit(self) -> bool:
        """Extrapolate the peak to the larger batch parts of the next step."""
        done, limit = len(self._step_seconds), self._request.memory_limit
        if limit is None or not done:
            return False
        growth = self._peaks[-1] - self._peaks[0] if done > 1 else 0
        ratio = self._steps[done - 1][0].parts / self._steps[done][0].parts
        return self._peaks[-1] + growth * max(0.0, ratio - 1) > limit

    def whole_steps(self) -> list[int]:
        """Return the numbers of the steps with whole batches."""
        done = self._steps[: len(self._step_seconds)]
        return [number for number, step in enumerate(done) if step[0].parts == 1]

    def memory_growth(self) -> float:
        """Return the growth of the peak while the steps become e times as many, over the last two thirds of them."""
        whole = self.whole_steps()
        if len(whole) < 2:
            return 0.0
        first = len(whole) // 3
        return (self._peaks[whole[-1]] - self._peaks[whole[first]]) / math.log(len(whole) / (first + 1))

    def memory_levels(self) -> list[MemoryLevel]:
        """Return the peak memory for each fraction of a batch, the smallest fraction first."""
        levels: dict[int, MemoryLevel] = {}
        for step, peak in zip(self._steps, self._peaks, strict=False):
            parts = step[0].parts
            positions = max(self.costs[part.batch].positions / parts for part in step)
            known = levels.get(parts)
            levels[parts] = MemoryLevel(max(positions, known.positions if known else 0.0), 1 / parts, peak)
        return [levels[parts] for parts in PARTS if parts in levels]

    def timed_steps(self) -> list[tuple[list[float], float]]:
        """Return features and seconds of the steps, except the first of each fraction, which allocates memory."""
        timed = []
        for number, (step, seconds) in enumerate(zip(self._steps, self._step_seconds, strict=False)):
            parts = step[0].parts
            if number and self._steps[number - 1][0].parts == parts:
                cost = mean_cost([self.costs[part.batch] for part in step], per=parts / len(step))
                timed.append((list(cost.features), seconds))
        return timed


def _prepare_data(experiment: Experiment, folder: RunFiles, *, report: Callable[[str], None]) -> tuple[Any, float]:
    """Prepare the data twice; return the seconds to open cached data and to train the tokenizer."""
    messages: list[tuple[str, float]] = []

    def report_and_note(message: str) -> None:
        messages.append((message, time.perf_counter()))
        report(message)

    task = build_task(experiment)
    task.prepare_data(folder, report=report_and_note)
    messages.append(("", time.perf_counter()))
    tokenizer_seconds = sum(end - begin for (name, begin), (_, end) in pairwise(messages) if "tokenizer" in name)
    began = time.perf_counter()
    data = task.prepare_data(folder, report=lambda _: None)
    return data, time.perf_counter() - began + tokenizer_seconds


def _train(
    folder: RunFiles,
    experiment: Experiment,
    data: Any,
    recorder: StepRecorder,
    *,
    device: torch.device,
    arrangement: Arrangement,
) -> tuple[TrainingSetup[Any], TrainingState[Any], list[int]]:
    """Train like `dragoman train` on the batches of the recorder until it is done.

    Returns the setup, the state afterwards, and the peak memory of the other workers.
    """
    folder.write_config(experiment)
    config, message = experiment.training, worker_message(folder.path, device) | {"profile": "yes"}
    with lead_workers(arrangement.num_workers, threads=arrangement.num_threads, message=message) as workers:
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
        return setup, state, peak_memory_of_workers(workers)


def _time_validation(
    setup: TrainingSetup[Any],
    model: nn.Module,
    seconds: dict[str, float],
    ratios: Mapping[str, float],
    report: Callable[[str], None],
) -> dict[str, float]:
    """Measure validation, selection and sample, and return the seconds of scoring each set, scaled to its full size."""
    report("measuring validation")
    model.eval()
    with torch.inference_mode():
        ratio = ratios.get("valid", 1.0)
        seconds["validation"] = ratio * _measure(lambda: setup.validator.validate(model))
        seconds["selection"] = seconds["validation"]
        if setup.final_validator is not setup.validator:
            seconds["selection"] = ratio * _measure(lambda: setup.final_validator.validate(model))
        scores = {name: ratios.get(name, 1.0) * _measure(score) for name, score in setup.scorers.items()}
        seconds["sample"] = 0.0 if setup.write_sample is None else _measure(setup.write_sample)
    return scores


def _measure(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def sample_validation(data: Any, folder: Path) -> tuple[Any, Mapping[str, float]]:
    """Replace the held-out sets by samples; return the data, and the ratio of full to sampled size by set.

    Only texts that are translated take long; other data, data with source features and small sets stay unchanged. The
    samples are written to `folder`.
    """
    if not isinstance(data, ParallelData) or data.decoder_only or data.source_features:
        return data, {}
    texts, ratios = data.texts, {}
    valid, ratios["valid"] = _sample_texts(texts.valid, folder / "valid")
    test, ratios["test"] = (None, 1.0) if texts.test is None else _sample_texts(texts.test, folder / "test")
    tokens = _sample_tokens(data.valid, folder / "valid_tokens")
    return replace(data, texts=replace(texts, valid=valid, test=test), valid=tokens), ratios


def shortest_and_longest(lengths: NDArray[Any]) -> Rows:
    """Select the shortest examples, which share the largest batches, and the longest, from their lengths in tokens."""
    order = np.argsort(lengths, kind="stable").astype(np.int64)
    up, down = np.cumsum(lengths[order]), np.cumsum(lengths[order[::-1]])
    short = int(np.searchsorted(up, SHORTEST_TOKENS)) + 1
    long = int(np.searchsorted(down, LONGEST_TOKENS)) + 1
    if short + long >= len(order):
        return order
    chosen: Rows = np.concatenate([order[:short], order[-long:]])
    return chosen


def _sample_texts(store: TextStore, folder: Path) -> tuple[TextStore, float]:
    lengths = np.array([1 + len(source) // _CHARACTERS_PER_TOKEN for source, _ in store])
    chosen = shortest_and_longest(lengths)
    examples = list(store.examples())
    ratio = float(max(1, lengths.sum()) / max(1, lengths[chosen].sum()))
    return TextStore.build(folder, (examples[row] for row in chosen)), ratio


def _sample_tokens(store: TokenStore, folder: Path) -> TokenStore:
    pairs = [store.pair(int(row)) for row in shortest_and_longest(store.source.lengths + 1)]
    return TokenStore.build(folder, [(source.tolist(), target.tolist()) for source, target in pairs])
