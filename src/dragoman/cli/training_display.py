"""Progress of a training on standard error: configuration, corpus, progress bar, validation scores, result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, assert_never

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from dragoman.cli.signals import on_signals
from dragoman.training.callbacks import (
    EndEvent,
    Event,
    LogEvent,
    RollbackEvent,
    SaveEvent,
    SelectionEvent,
    StartEvent,
    ValidationEvent,
)

if TYPE_CHECKING:
    from dragoman.data.cleaning import CleaningReport
    from dragoman.runs.auto_config import Choice
    from dragoman.runs.train import TrainingResult
    from dragoman.tasks.base import TaskData

console = Console(stderr=True, highlight=False)


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Show a spinner with a status message on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield lambda sentence: console.print(f"{sentence} …")
        return
    with console.status("") as spinner:
        yield lambda sentence: spinner.update(f"{sentence} …")


def show_choices(choices: list[Choice], *, device: str) -> None:
    """Print the automatic configuration with its reasons."""
    console.print(f"device: {device}")
    if not choices:
        return
    table = Table(title="chosen for you", title_justify="left", box=None, header_style="dim", pad_edge=False)
    for column in ("setting", "value", "because"):
        table.add_column(column)
    for choice in choices:
        table.add_row(choice.key, choice.shown, choice.reason)
    console.print(table)


def show_changes(changes: list[str]) -> None:
    """Print in what the machine differs from the machine that the run started on."""
    if changes:
        console.print(
            f"note: {'; '.join(changes)}: the results may differ in their last digits", markup=False, soft_wrap=True
        )


def show_workers(workers: int) -> None:
    """Print the number of workers where there are several."""
    if workers > 1:
        console.print(f"workers: {workers}, each of which learns from its part of every batch")


def show_budget(sentence: str) -> None:
    """Print the chosen token budget."""
    console.print(sentence, markup=False, soft_wrap=True)


def show_estimate(seconds: float) -> None:
    """Print the estimated time of the training."""
    console.print(f"estimated time: {minutes(seconds)} at most")


def show_materials(materials: TaskData) -> None:
    """Print what cleaning removed, with examples, and the size of the data."""
    if materials.cleaning_report is not None:
        show_cleaning(materials.cleaning_report)
    for remark in materials.notes:
        console.print(f"note: {remark}", markup=False, soft_wrap=True)
    sides = f"{len(materials.tokenizer.source):,}"
    if not materials.tokenizer.shared:
        sides += f" and {len(materials.tokenizer.target):,}"
    console.print(f"{materials.summary}; vocabulary {sides}")


def show_cleaning(report: CleaningReport) -> None:
    """Print what cleaning removed, with examples."""
    if rows := report.table_rows():
        table = Table(title="cleaning", title_justify="left", box=None, header_style="dim", pad_edge=False)
        for column in ("rule", "pairs", "number", "for example"):
            table.add_column(column, overflow="ellipsis", no_wrap=column != "for example")
        for row in rows:
            table.add_row(*[Text(cell) for cell in row])
        console.print(table)


def show_outcome(outcome: TrainingResult, *, folder: Path, command: str) -> None:
    """Print the scores and the next command."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("set", "metric", "score", "signature"):
        table.add_column(column, justify="right" if column == "score" else "left", overflow="fold")
    for name, scores in outcome.scores.items():
        for score in scores:
            table.add_row(name, score.metric, f"{score.value:.2f}", Text(score.signature, style="dim"))
    console.print(table)
    console.print(
        f"done in {minutes(outcome.seconds)}; weights: {outcome.selected}. Use it with:\n"
        f"  {command.replace('RUN', str(folder))}",
        markup=False,
        soft_wrap=True,
    )


class TrainingDisplay:
    """Training callback: a progress bar on a terminal, one line per report elsewhere."""

    def __init__(self, *, unit: str = "tokens") -> None:
        """Initialize the display; `unit` is the unit of the reported speed."""
        self._unit = unit
        self._total = 0
        self._since = (0, 0.0)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        match event:
            case StartEvent():
                self._begin(event)
            case LogEvent():
                self._report(event)
            case ValidationEvent():
                star = " *" if event.improved else ""
                self._say(f"epoch {event.epoch}, update {event.step:,}: {_scores(event.scores)}{star}")
            case RollbackEvent():
                self._since = (event.step, time.monotonic())
                self._say(
                    f"update {event.failed_step:,}: the loss is not finite ({event.examples}); back to update "
                    f"{event.step:,} with {event.learning_rate_scale:g} of the learning rate"
                )
            case EndEvent():
                self._go_on_to("choosing the weights")
            case SelectionEvent():
                self._choose(event)
            case SaveEvent():
                pass
            case _:
                assert_never(event)

    def _begin(self, event: StartEvent) -> None:
        self._total, self._since = event.total_steps, (event.step, time.monotonic())
        place = f"going on after update {event.step:,}" if event.step else "starting"
        self._say(f"{place}: {event.num_parameters:,} parameters, {event.total_steps:,} updates")
        self._task = self._bar.add_task("training", total=event.total_steps, completed=event.step, facts="")

    def _report(self, event: LogEvent) -> None:
        update, moment = self._since
        pace = (time.monotonic() - moment) / (event.step - update)
        left = f", {minutes(pace * (self._total - event.step))} left" if event.step < self._total else ""
        facts = f"loss {event.loss:.3f}, {event.tokens_per_second:,.0f} {self._unit}/s{left}"
        self._bar.update(self._task, completed=event.step, facts=facts, description=f"epoch {event.epoch + 1}")
        if not console.is_terminal:
            self._say(f"update {event.step:,}/{self._total:,}: {facts}")

    def _choose(self, event: SelectionEvent) -> None:
        if len(event.candidates) > 1:
            self._say("which weights to keep, by the validation set:")
            for name, scores in event.candidates.items():
                self._say(f"{'→' if name == event.selected else ' '} {name}: {_scores(scores)}")
        self._go_on_to("scoring")

    def _go_on_to(self, work: str) -> None:
        """Show the current work after the last step."""
        self._bar.update(self._task, description=work, facts="")
        if not console.is_terminal:
            self._say(f"{work} …")

    def _say(self, sentence: str) -> None:
        self._bar.console.print(sentence, markup=False, soft_wrap=True)


def _scores(scores: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.3f}" if name == "loss" else f"{name} {value:.2f}" for name, value in scores.items()
    )


def minutes(seconds: float) -> str:
    """Format a duration in seconds for reading."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class TerminalReporter:
    """Reporter of a training on standard error."""

    status = staticmethod(status)
    show_data = staticmethod(show_materials)
    show_batch_tokens = staticmethod(show_budget)
    show_estimate = staticmethod(show_estimate)
    show_num_workers = staticmethod(show_workers)
    show_environment_changes = staticmethod(show_changes)
    interruption = staticmethod(on_signals)

    def callback(self, unit: str) -> TrainingDisplay:
        """Return the display of training events."""
        return TrainingDisplay(unit=unit)
