"""What the process that looks at a training does: its start, some updates, a validation, as the training would.

It does what `dragoman train` does, workers included, but for three things: the batches are picked, the learning rate is
next to nothing, so that what a fresh network costs is seen to the end, and what it writes ends where translations of
this corpus mostly end.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, final

import torch
from torch import nn

from dragoman.errors import DragomanError
from dragoman.profiling.batch_cost import Load, mean_load
from dragoman.profiling.batch_selection import SHARES, Pick, picks_of, survey, with_picks
from dragoman.profiling.estimate import blueprint, passes_of
from dragoman.profiling.machine import operations_per_second
from dragoman.profiling.memory import peak_bytes, resident_bytes
from dragoman.profiling.model_cost import count_flops
from dragoman.profiling.profile import ANSWER, ASKED, MENDABLE, Asked, Held, Level, Measured
from dragoman.profiling.validation_sample import some_held_out
from dragoman.runs.config import parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.runs.train import prepare_state, worker_message
from dragoman.runs.workers import choose_num_workers, lead_workers, peak_memory_of_workers
from dragoman.tasks.base import TrainingSetup
from dragoman.tasks.config import Experiment, TranslationConfig
from dragoman.tasks.factory import build_task
from dragoman.tasks.parallel_data import ParallelData
from dragoman.training.callbacks import Event, LogEvent, SaveEvent
from dragoman.training.optimizers import optimizer_tensors
from dragoman.training.trainer import InterruptionError, TrainingState, total_steps, train

FEWEST, MOST = 6, 120
"""Whole updates that are timed, whatever time they take, and at most."""
ENDLESS: Final = 10**9
RATE: Final = 1e-12
"""Of learning, while it is looked at."""
BEYOND: Final = 6
"""Tokens that a search goes on beyond the mean length of targets, for outputs differ, and the best is not the last to
end: with so many, a fresh network took as long as one trained for 807 updates did with its own ends (Multi30k)."""
CPU: Final = torch.device("cpu")


def main() -> None:
    """The process that looks; its argument is the folder that `probing.measure` made."""
    folder = RunFolder(Path(sys.argv[1]))
    asked = Asked(**json.loads((folder.path / ASKED).read_text(encoding="utf-8")))
    try:
        found = look(folder, asked, tell=lambda sentence: print(sentence, flush=True))
    except DragomanError as error:
        print(error, file=sys.stderr)
        sys.exit(MENDABLE)
    (folder.path / ANSWER).write_text(json.dumps(asdict(found)), encoding="utf-8")


@dataclass
class _Clock:
    """The seconds of what was done, by name."""

    laps: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        """What was done since the last lap is called so."""
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now


def look(folder: RunFolder, asked: Asked, *, tell: Callable[[str], None]) -> Measured:
    """Look at the training whose configuration is in the folder, where a changed one lies from then on."""
    start = time.time() - asked.began
    device, experiment = torch.device(asked.device), folder.read_config()
    program = resident_bytes(CPU)
    materials, gather = _gathered(experiment, folder, tell=tell)
    data = max(0, resident_bytes(CPU) - program)
    size = choose_num_workers(
        experiment.training, blueprint(experiment, folder), tokens=materials.tokens, device=device
    )
    calm, sizes = calmed(experiment, materials), materials.sizes
    folder.write_config(calm)
    materials, times = some_held_out(materials, folder.path)
    clock = _Clock({"start": start, "gather": gather})
    tell("timing some updates")
    seen = _learn(calm, folder, materials, asked, clock, device=device, size=size)
    scores: dict[str, float] = {}
    if asked.judging:
        tell("timing a validation")
        scores = _judge(seen.work, seen.run.model, clock, times=times)
    accumulate, loads = calm.training.grad_accumulation, list(seen.watch.loads.values())
    load = mean_load(loads) / (1 / accumulate)
    stream = seen.work.stream
    stream.seek({"epoch": 0, "batch": 0})
    return Measured(
        workers=size,
        parameters=sum(one.numel() for one in seen.run.model.parameters()),
        held=held(seen.run),
        program=program,
        data=data,
        levels=seen.watch.levels(),
        growth=seen.watch.growth(),
        seen=len(seen.watch.whole()),
        peak=peak_bytes(device),
        others=seen.others,
        load=load,
        timed=seen.watch.timed(),
        updates=total_steps(experiment.training, stream),
        updates_per_epoch=max(1, stream.batches_per_epoch()) / accumulate,
        flops=passes_of(experiment) * flops_of(blueprint(experiment, folder), load),
        operations=operations_per_second(device) if asked.judging else 0.0,
        seconds=clock.laps,
        scores=scores,
        sizes=sizes,
    )


def held(run: TrainingState[Any]) -> Held:
    """The bytes of what a worker holds of a training."""
    parameters = list(run.model.parameters())
    learnt = [one for one in parameters if one.requires_grad]
    moments = optimizer_tensors(run.optimizer, run.model).values()
    average = [] if run.ema is None else run.ema.values()
    return Held(_bytes(parameters), _bytes(learnt), _bytes(moments), _bytes(average))


def flops_of(model: nn.Module, load: Load) -> float:
    """Of learning from a load in one pass, padding aside: the forward pass, and twice as many backward."""
    flops = count_flops(model)
    written = load.written if "encode" in flops else load.read
    return 3.0 * (flops.get("encode", 0) * load.read + flops.get("decode", 0) * written)


def calmed(experiment: Experiment, materials: Any) -> Experiment:
    """The same without end, without learning, and with outputs that are as long as the texts of the corpus."""
    training = experiment.training
    changes: dict[str, Any] = {
        "max_steps": ENDLESS,
        "max_epochs": None,
        "validate_every": ENDLESS,
        "validate_every_epochs": None,
        "patience": None,
        "log_every": 1,
        "optimizer": training.optimizer.model_copy(update={"learning_rate": RATE}),
    }
    calm = experiment.model_copy(update={"training": training.model_copy(update=changes)})
    if isinstance(experiment, TranslationConfig) and isinstance(materials, ParallelData):
        ratio = float(materials.train.target_lengths.mean() / max(1.0, materials.train.source_lengths.mean()))
        config = experiment.decoding
        limits = {
            "max_length_ratio": min(config.max_length_ratio, ratio),
            "max_length_offset": min(config.max_length_offset, BEYOND),
        }
        decoding = config.model_copy(update=limits)
        calm = calm.model_copy(update={"decoding": decoding})
    return parse_experiment(calm.model_dump(mode="json"))


@final
@dataclass
class _Watch:
    """Implements `training.callbacks.Callback`: the seconds and the memory beside each update, and when to stop."""

    asked: Asked
    device: torch.device
    picks: list[list[Pick]]
    loads: Mapping[int, Load]
    seconds: list[float] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    saving: float = 0.0
    _last: float = field(default_factory=time.perf_counter)

    def __call__(self, event: Event) -> None:
        now = time.perf_counter()
        match event:
            case LogEvent():
                self.seconds.append(now - self._last)
                self.peaks.append(peak_bytes(self.device))
            case SaveEvent():
                self.saving = now - self._last
            case _:
                pass
        self._last = time.perf_counter()

    def enough(self) -> bool:
        """Whether no more updates are wanted."""
        done = len(self.seconds)
        if done >= len(self.picks) or self._next_is_too_large():
            return True
        whole = self.whole()
        return len(whole) >= FEWEST and sum(self.seconds[number] for number in whole) >= self.asked.seconds

    def _next_is_too_large(self) -> bool:
        """Whether the limit seems too small for the batches that come next, which are larger than those before."""
        done = len(self.seconds)
        if self.asked.limit is None or not done:
            return False
        grown = self.peaks[-1] - self.peaks[0] if done > 1 else 0
        larger = self.picks[done - 1][0].parts / self.picks[done][0].parts
        return self.peaks[-1] + grown * max(0.0, larger - 1) > self.asked.limit

    def whole(self) -> list[int]:
        """The updates that learnt from whole batches, by their number from 0."""
        done = self.picks[: len(self.seconds)]
        return [number for number, update in enumerate(done) if update[0].parts == 1]

    def growth(self) -> float:
        """The bytes by which the peak grows while whole updates become 2.718 times as many, by the last two thirds."""
        whole = self.whole()
        if len(whole) < 2:
            return 0.0
        earlier = len(whole) // 3
        return (self.peaks[whole[-1]] - self.peaks[whole[earlier]]) / math.log(len(whole) / (earlier + 1))

    def levels(self) -> list[Level]:
        """The memory after each share, the smallest first."""
        found: dict[int, Level] = {}
        for update, peak in zip(self.picks, self.peaks, strict=False):
            parts = update[0].parts
            places = max(self.loads[pick.batch].places / parts for pick in update)
            known = found.get(parts)
            found[parts] = Level(max(places, known.places if known else 0.0), 1 / parts, peak)
        return [found[parts] for parts in SHARES if parts in found]

    def timed(self) -> list[tuple[list[float], float]]:
        """The updates, but for the first of each share, which asks for memory that there was not before."""
        found = []
        for number, (update, seconds) in enumerate(zip(self.picks, self.seconds, strict=False)):
            parts = update[0].parts
            if number and self.picks[number - 1][0].parts == parts:
                load = mean_load([self.loads[pick.batch] for pick in update]) / (parts / len(update))
                found.append((list(load.features), seconds))
        return found


@final
@dataclass(frozen=True)
class _Seen:
    work: TrainingSetup[Any]
    run: TrainingState[Any]
    watch: _Watch
    others: list[int]


def _gathered(experiment: Experiment, folder: RunFolder, *, tell: Callable[[str], None]) -> tuple[Any, float]:
    """The materials, and the seconds to have them where the stores are built, and the tokenizer is not."""
    moments: list[tuple[str, float]] = []

    def note(sentence: str) -> None:
        moments.append((sentence, time.perf_counter()))
        tell(sentence)

    task = build_task(experiment)
    task.prepare_data(folder, report=note)
    moments.append(("", time.perf_counter()))
    learning = sum(later - earlier for (name, earlier), (_, later) in pairwise(moments) if "tokenizer" in name)
    began = time.perf_counter()
    materials = task.prepare_data(folder, report=lambda _: None)
    return materials, time.perf_counter() - began + learning


def _learn(
    calm: Experiment,
    folder: RunFolder,
    materials: Any,
    asked: Asked,
    clock: _Clock,
    *,
    device: torch.device,
    size: int,
) -> _Seen:
    """Learn from the picked batches, with as many workers as the training would have."""
    config = calm.training
    told = worker_message(folder, device) | {"looked_at": "yes"}
    clock.lap("between")
    with lead_workers(size, message=told) as team:
        clock.lap("team")
        work = build_task(calm).setup_training(materials, device=device)
        clock.lap("build")
        loads = survey(work.stream)
        picks = picks_of(loads, accumulate=config.grad_accumulation, updates=MOST, seed=config.seed)
        clock.lap("survey")
        picks = team.broadcast(picks)
        clock.lap("waiting")
        run = prepare_state(with_picks(work, picks), config, folder, team, device=device)
        watch = _Watch(asked, device, picks, loads)
        try:
            train(
                run,
                config,
                loss_function=work.loss_function,
                validator=work.validator,
                callback=watch,
                device=device,
                interrupted=watch.enough,
                workers=team,
            )
        except InterruptionError:
            clock.laps["checkpoint"] = watch.saving
        others = peak_memory_of_workers(team)
    clock.lap("updates")
    clock.laps["epoch"] = _seconds(lambda: work.stream.seek({"epoch": 1, "batch": 0}))
    return _Seen(work, run, watch, others)


def _judge(
    work: TrainingSetup[Any], model: nn.Module, clock: _Clock, *, times: Mapping[str, float]
) -> dict[str, float]:
    """The seconds of scoring each set, which is so many times as large; those of judges and a specimen are noted."""
    model.eval()
    with torch.inference_mode():
        valid = times.get("valid", 1.0)
        clock.laps["validation"] = valid * _seconds(lambda: work.validator.validate(model))
        clock.laps["choice"] = clock.laps["validation"]
        if work.final_validator is not work.validator:
            clock.laps["choice"] = valid * _seconds(lambda: work.final_validator.validate(model))
        scores = {name: times.get(name, 1.0) * _seconds(score) for name, score in work.scorers.items()}
        clock.laps["specimen"] = 0.0 if work.write_sample is None else _seconds(work.write_sample)
    return scores


def _seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _bytes(tensors: Any) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)
