"""What a person sees of a training: choices, corpus, a live line, validations, the end. All on standard error."""

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

from dragoman.training.events import Chosen, Event, Learnt, RolledBack, Saved, Started, Updated, Validated

if TYPE_CHECKING:
    from dragoman.data.cleaning import Report
    from dragoman.runs.choices import Choice
    from dragoman.runs.train import Outcome
    from dragoman.tasks.base import Materials

console = Console(stderr=True, highlight=False)


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """A spinner with a changing sentence, or plain lines where nobody watches."""
    if not console.is_terminal:
        yield lambda sentence: console.print(f"{sentence} …")
        return
    with console.status("") as spinner:
        yield lambda sentence: spinner.update(f"{sentence} …")


def show_choices(choices: list[Choice], *, device: str) -> None:
    """What was chosen and why; nothing was where a configuration was given."""
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
    """In what the machine differs from where the run began."""
    if changes:
        console.print(
            f"note: {'; '.join(changes)}: the results may differ in their last digits", markup=False, soft_wrap=True
        )


def show_workers(workers: int) -> None:
    """How many processes learn, where they are several."""
    if workers > 1:
        console.print(f"workers: {workers}, each of which learns from its part of every batch")


def show_budget(sentence: str) -> None:
    """The token budget that was found."""
    console.print(sentence, markup=False, soft_wrap=True)


def show_estimate(seconds: float) -> None:
    """How long it should take."""
    console.print(f"estimated time: {minutes(seconds)} at most")


def show_materials(materials: Materials) -> None:
    """What cleaning removed, with specimens, and what is left."""
    if materials.report is not None:
        show_cleaning(materials.report)
    for remark in materials.remarks:
        console.print(f"note: {remark}", markup=False, soft_wrap=True)
    sides = f"{len(materials.tokenizer.source):,}"
    if not materials.tokenizer.shared:
        sides += f" and {len(materials.tokenizer.target):,}"
    console.print(f"{materials.sizes}; vocabulary {sides}")


def show_cleaning(report: Report) -> None:
    """What cleaning removed, with specimens."""
    if rows := report.rows():
        table = Table(title="cleaning", title_justify="left", box=None, header_style="dim", pad_edge=False)
        for column in ("rule", "pairs", "number", "for example"):
            table.add_column(column, overflow="ellipsis", no_wrap=column != "for example")
        for row in rows:
            table.add_row(*[Text(cell) for cell in row])
        console.print(table)


def show_outcome(outcome: Outcome, *, folder: Path, command: str) -> None:
    """The scores and what to type next."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("set", "metric", "score", "signature"):
        table.add_column(column, justify="right" if column == "score" else "left", overflow="fold")
    for name, scores in outcome.scores.items():
        for score in scores:
            table.add_row(name, score.metric, f"{score.value:.2f}", Text(score.signature, style="dim"))
    console.print(table)
    console.print(
        f"done in {minutes(outcome.seconds)}; weights: {outcome.chosen}. Use it with:\n"
        f"  {command.replace('RUN', str(folder))}",
        markup=False,
        soft_wrap=True,
    )


class TrainingDisplay:
    """An observer: a progress bar on a terminal, a line a report elsewhere."""

    def __init__(self, *, unit: str = "tokens") -> None:
        """`unit` is what a speed is told in."""
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
            case Started():
                self._begin(event)
            case Updated():
                self._report(event)
            case Validated():
                star = " *" if event.improved else ""
                self._say(f"epoch {event.epoch}, update {event.update:,}: {_scores(event.scores)}{star}")
            case RolledBack():
                self._since = (event.update, time.monotonic())
                self._say(
                    f"update {event.failed_update:,}: the loss is not finite ({event.examples}); back to update "
                    f"{event.update:,} with {event.rate_scale:g} of the learning rate"
                )
            case Learnt():
                self._go_on_to("choosing the weights")
            case Chosen():
                self._choose(event)
            case Saved():
                pass
            case _:
                assert_never(event)

    def _begin(self, event: Started) -> None:
        self._total, self._since = event.total, (event.update, time.monotonic())
        place = f"going on after update {event.update:,}" if event.update else "starting"
        self._say(f"{place}: {event.parameters:,} parameters, {event.total:,} updates")
        self._task = self._bar.add_task("training", total=event.total, completed=event.update, facts="")

    def _report(self, event: Updated) -> None:
        update, moment = self._since
        pace = (time.monotonic() - moment) / (event.update - update)
        left = f", {minutes(pace * (self._total - event.update))} left" if event.update < self._total else ""
        facts = f"loss {event.loss:.3f}, {event.tokens_per_second:,.0f} {self._unit}/s{left}"
        self._bar.update(self._task, completed=event.update, facts=facts, description=f"epoch {event.epoch + 1}")
        if not console.is_terminal:
            self._say(f"update {event.update:,}/{self._total:,}: {facts}")

    def _choose(self, event: Chosen) -> None:
        if len(event.candidates) > 1:
            self._say("which weights to keep, by the validation set:")
            for name, scores in event.candidates.items():
                self._say(f"{'→' if name == event.name else ' '} {name}: {_scores(scores)}")
        self._go_on_to("scoring")

    def _go_on_to(self, work: str) -> None:
        """What is done now, after the last update."""
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
    """A time as a person reads it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
