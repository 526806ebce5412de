"""What a training will take: memory by part, the token budget that fits, operations, time and cost.

Everything follows from a look at its start (`looking`): the time of an update is a line in what its batches weigh, its
memory one in the places of the heaviest batch; how often there is a validation, a checkpoint or a choice of weights
follows from the configuration.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from dragoman.errors import ConfigError
from dragoman.profiling.batch_cost import Line, fitted
from dragoman.profiling.memory import shown
from dragoman.profiling.profile import Measured
from dragoman.training.config import TrainingConfig

SPARE: Final = 0.1
"""Of memory, that is left to others and to what was not seen."""
ROUND: Final = 64
"""Tokens that budgets are multiples of."""
LONG: Final = 5
"""Validations of a training from which on the best is seldom the last."""


@final
@dataclass(frozen=True)
class Memory:
    """Bytes by part, of all processes of a machine together, or of a GPU; they add up to `total`, the peak."""

    program: int
    """Python, PyTorch and the code."""
    data: int
    """The corpus as far as it is read, and the tokenizer."""
    weights: int
    gradients: int
    optimiser: int
    moving_average: int
    activations: int
    """What an update or a search needs beside, and what the allocator keeps of it."""
    total: int


@final
@dataclass(frozen=True)
class Time:
    """Seconds by part."""

    start: float
    """Until the first update, for programs, corpus, tokenizer and network, and until the last process has ended."""
    updates: float
    validations: float
    checkpoints: float
    choice: float
    """Of the weights, in the end."""
    scores: float
    """Of the finished network."""

    @property
    def total(self) -> float:
        return self.start + self.updates + self.validations + self.checkpoints + self.choice + self.scores


@final
@dataclass(frozen=True)
class Plan:
    """What a training will take on so many devices."""

    parameters: int
    workers: int
    devices: int
    memory: Memory
    available: int
    """Bytes that there are for it."""
    budget: int
    """Tokens of a batch, as configured."""
    fitting: int
    """The most tokens of a batch that fit."""
    updates: int
    updates_per_epoch: float
    tokens: float
    """Predictions that are learnt from."""
    flops: float
    utilisation: float
    """The operations of an update, of those that large products would do in its time."""
    time: Time
    cost: float | None
    """Of all device hours."""
    sizes: str

    @property
    def fits(self) -> bool:
        """Whether it can be trained as configured."""
        return self.budget <= self.fitting


def plan_of(
    found: Measured, config: TrainingConfig, *, available: int, devices: int = 1, price: float | None = None
) -> Plan:
    """The plan of a training that was looked at. Raises ConfigError where not even its smallest batch fits."""
    shares = devices if devices > 1 else 1
    update = update_line(found).at((found.load / shares).features)
    time = time_of(found, config, update=update)
    memory = memory_of(found, config, devices=devices)
    budget = config.token_budget
    return Plan(
        parameters=found.parameters,
        workers=found.workers,
        devices=devices,
        memory=memory,
        available=available,
        budget=budget,
        fitting=budget_that_fits(found, config, available=available, devices=devices),
        updates=found.updates,
        updates_per_epoch=found.updates_per_epoch,
        tokens=found.load.predictions * found.updates,
        flops=found.flops * found.updates,
        utilisation=found.flops / update / (found.operations * devices),
        time=time,
        cost=None if price is None else price * devices * time.total / 3600,
        sizes=found.sizes,
    )


def update_line(found: Measured) -> Line:
    """The seconds of an update by what it weighs."""
    return fitted([causes for causes, _ in found.timed], [seconds for _, seconds in found.timed])


def time_of(found: Measured, config: TrainingConfig, *, update: float) -> Time:
    """The seconds of a whole training, where an update takes so many; with patience it may end earlier."""
    seconds, epochs = found.seconds, epochs_of(found.updates, found.updates_per_epoch, config)
    count = validations(found.updates, found.updates_per_epoch, config)
    start = sum(seconds.get(name, 0.0) for name in ("start", "gather", "team", "build", "waiting", "checkpoint", "end"))
    return Time(
        start=start + seconds["epoch"] * max(0.0, math.ceil(epochs) - 1),
        updates=update * found.updates,
        validations=count * seconds["validation"],
        checkpoints=count * seconds["checkpoint"],
        choice=candidates(count, config) * seconds["choice"],
        scores=sum(found.scores.values()) + seconds["specimen"],
    )


def validations(updates: int, updates_per_epoch: float, config: TrainingConfig) -> int:
    """How often a training is validated, the end included."""
    by_steps = 0 if config.validate_every is None else math.ceil(updates / config.validate_every)
    if config.validate_every_epochs is None:
        return by_steps
    epochs = epochs_of(updates, updates_per_epoch, config)
    return max(1, by_steps, math.ceil(epochs / config.validate_every_epochs - 1e-9))


def epochs_of(updates: int, updates_per_epoch: float, config: TrainingConfig) -> float:
    """How often a training reads its corpus; where it is said in epochs, the last update may hold less than others."""
    if config.max_steps is None and config.max_epochs is not None:
        return config.max_epochs
    return updates / updates_per_epoch


def candidates(validations: int, config: TrainingConfig) -> int:
    """How many weights are judged in the end: the last, the best, the mean of several, and the moving average."""
    return 1 + (validations > LONG) + (validations > 1 and config.keep_checkpoints > 1) + (config.ema_decay is not None)


def memory_of(found: Measured, config: TrainingConfig, *, devices: int = 1) -> Memory:
    """The peak of memory by part, of one of so many devices that share every batch."""
    held, processes = found.held, 1 + len(found.others)
    others = sum(found.others) + grown(found) * len(found.others)
    learning = found.peak + grown(found) + others
    if devices > 1:
        learning = round(need_of(found, config).at(config.token_budget // devices))
    total = max(learning, _at_the_end(found, config) + others)
    known = processes * (held.total + found.program + found.data)
    return Memory(
        program=processes * found.program,
        data=processes * found.data,
        weights=processes * held.weights,
        gradients=processes * held.gradients,
        optimiser=processes * held.optimiser,
        moving_average=processes * held.moving_average,
        activations=max(0, total - known),
        total=max(total, known),
    )


def grown(found: Measured) -> int:
    """The bytes that a process takes at the end of a training beyond what was seen of its start."""
    return round(found.growth * max(0.0, math.log(found.updates / max(1, found.seen))))


def _at_the_end(found: Measured, config: TrainingConfig) -> int:
    """What the process that leads needs to choose the weights, when it reads those of several checkpoints."""
    count = validations(found.updates, found.updates_per_epoch, config)
    read = candidates(count, config) + min(config.keep_checkpoints, count)
    return found.program + found.data + found.held.total - found.held.gradients + read * found.held.weights


@final
@dataclass(frozen=True)
class Need:
    """The bytes of all processes of a machine, or of a GPU, by the tokens of a batch."""

    leading: Line
    """Of the process that leads, while it learns."""
    judging: int
    """The most that it takes where it does not learn."""
    others: int
    """Of the others together, with batches of `seen` tokens."""
    workers: int
    seen: int

    def at(self, tokens: int) -> float:
        """The bytes for batches of so many tokens."""
        [slope] = self.leading.slopes
        others = self.others + (self.workers - 1) * slope * (tokens - self.seen)
        return max(self.leading.at([tokens]), self.judging) + others

    def most(self, available: float, *, useful: int) -> int:
        """The most tokens, at most the useful ones, whose need is within what is available; 0 where there are none."""
        least, beyond = 0, useful // ROUND + 1
        while beyond - least > 1:
            middle = (least + beyond) // 2
            least, beyond = (middle, beyond) if self.at(middle * ROUND) <= available else (least, middle)
        return least * ROUND


def need_of(found: Measured, config: TrainingConfig) -> Need:
    """Memory is a line through what was seen of each share of the heaviest batch."""
    heaviest = found.levels[-1]
    seen = [[level.places / heaviest.places * config.token_budget] for level in found.levels]
    line, more = fitted(seen, [float(level.bytes) for level in found.levels]), grown(found)
    judging = found.peak + more if found.peak > heaviest.bytes else 0
    others = sum(found.others) + more * len(found.others)
    workers, budget = 1 + len(found.others), round(heaviest.share * config.token_budget)
    return Need(Line(line.constant + more, line.slopes), judging, others, workers, budget)


def budget_that_fits(found: Measured, config: TrainingConfig, *, available: int, devices: int = 1) -> int:
    """The most tokens of a batch whose training stays within memory; raises ConfigError where none does.

    Devices that share every batch have that memory each.

    Nobody can use a batch that is larger than the corpus, so that beyond what is asked for none such is looked for.
    """
    need = need_of(found, config)
    corpus = round(max(found.load.source_places, found.load.target_places) * found.updates_per_epoch)
    useful = math.ceil(max(corpus, config.token_budget) / ROUND) * ROUND
    tokens = devices * need.most((1 - SPARE) * available, useful=math.ceil(useful / devices / ROUND) * ROUND)
    if not tokens:
        needed = shown(need.at(ROUND) / (1 - SPARE))
        raise ConfigError(
            f"a memory of {shown(available)} is too small for any batch: about {needed} are needed; take a smaller "
            "model, fewer workers (training.num_workers), or a larger machine"
        )
    return tokens


def to_tree(plan: Plan) -> dict[str, Any]:
    """The plan for JSON."""
    tree: dict[str, Any] = asdict(plan)
    tree["fits"] = plan.fits
    tree["time"]["total"] = plan.time.total
    return tree
