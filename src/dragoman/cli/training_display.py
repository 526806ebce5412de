"""Display of a training on standard error, from the configuration to the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, assert_never

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from dragoman.cli import messages
from dragoman.cli.signals import on_signals
from dragoman.cli.table_output import PlainConsole, build_table, print_whole
from dragoman.errors import quote
from dragoman.number_words import counted
from dragoman.training import callbacks

if TYPE_CHECKING:
    from dragoman.data.cleaning_rules import CleaningReport
    from dragoman.runs.auto_config import Choice
    from dragoman.runs.model_card import TrainingResult
    from dragoman.tasks.task import TaskData

WARM_UP, MEASURED = 3.0, 10.0
"""Seconds of the first steps, which take longer, and of the steps after them whose speed gives the estimated time."""
MAX_SILENCE = 30.0
"""Seconds after which a training prints a line before its next report."""


class _MessageConsole(PlainConsole):
    """Console on standard error that prints nothing in a quiet command."""

    @property
    def quiet(self) -> bool:
        return messages.is_quiet()

    @quiet.setter
    def quiet(self, quiet: bool) -> None: ...


console = _MessageConsole(stderr=True)


def show_line(text: str) -> None:
    """Print one line on standard error, as it is."""
    console.print(text, soft_wrap=True)


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Show a spinner with a status message on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield lambda message: console.print(f"{message} …")
        return
    with console.status("") as spinner:
        yield lambda message: spinner.update(Text(f"{message} …"))


def show_choices(choices: list[Choice], *, device: str) -> None:
    """Print the automatic configuration with its reasons."""
    console.print(f"device: {device}")
    if choices:
        rows = [(choice.key, str(choice), choice.reason) for choice in choices]
        console.print(build_table(("setting", "value", "reason"), rows, title="automatic configuration"))


def show_cleaning(report: CleaningReport) -> None:
    """Print what cleaning removed, with examples."""
    if rows := report.table_rows():
        table = build_table(("rule", "pairs", "number", "example"), rows, title="cleaning")
        for column in table.columns:
            column.overflow, column.no_wrap = "ellipsis", column is not table.columns[-1]
        console.print(table)


def show_result(result: TrainingResult) -> None:
    """Print the scores, and the command that uses the run."""
    rows = [
        (name, score.metric, f"{score.value:z.2f}", Text(score.signature, style="dim"))
        for name, scores in result.scores.items()
        for score in scores
    ]
    always = PlainConsole(stderr=True)  # a quiet command prints results and warnings too
    print_whole(always, build_table(("set", "metric", "score", "signature"), rows, right=("score",)))
    if decoding := result.decoding:
        show_line(f"decoding of these scores: {decoding}")
    if note := result.low_score_note:
        always.print(f"note: {note}", soft_wrap=True)
    took = format_seconds(result.seconds - result.resumed_seconds)
    if result.resumed_step:
        took += f", or {format_seconds(result.seconds)} with the first {counted(result.resumed_step, 'steps')}"
    show_line(f"finished in {took}; weights: {result.selected}. Use the run with:")
    show_line(f"  {result.task.command.replace('RUN', quote(result.path))}")


def format_seconds(seconds: float) -> str:
    """Format a duration for reading."""
    if seconds < 90:
        return f"{seconds:.{0 if seconds >= 10 else 1}f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class TrainingDisplay:
    """Training callback: a progress bar on a terminal, one line per report elsewhere."""

    def __init__(self, *, unit: str = "tokens") -> None:
        """Initialize the display; `unit` is the unit of the reported speed."""
        self._unit = unit
        self._total = 0
        self._since = (0, 0.0)
        self._started = 0.0
        self._is_warm, self._is_estimated = False, False
        self._report = ""
        self._last_line = 0.0
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}", markup=False),
            TextColumn("{task.fields[facts]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def __call__(self, event: callbacks.Event) -> None:
        match event:
            case callbacks.StartEvent():
                self._start(event)
            case callbacks.StepEvent():
                self._advance(event.step)
            case callbacks.LogEvent():
                self._log(event)
            case callbacks.ValidationEvent():
                star = " *" if event.improved else ""
                show_line(f"epoch {event.epoch}, step {event.step:,}: valid {_scores(event.scores)}{star}")
                self._last_line = time.monotonic()
                if not self._is_estimated:  # the estimated time is that of steps alone
                    self._is_warm, self._since = True, (event.step, self._last_line)
            case callbacks.RollbackEvent():
                self._since = (event.step, time.monotonic())
                show_line(
                    f"step {event.failed_step:,}: the loss is not finite ({event.examples}); back to step "
                    f"{event.step:,} with {event.learning_rate_scale:g} of the learning rate"
                )
            case callbacks.EndEvent() | callbacks.CandidateEvent():
                self._show_work(_selection_work(event))
            case callbacks.SelectionEvent():
                _show_candidates(event)
                self._show_work("scoring")
            case callbacks.SaveEvent():
                pass
            case _:
                assert_never(event)

    def _start(self, event: callbacks.StartEvent) -> None:
        self._total, self._last_line = event.total_steps, time.monotonic()
        self._since, self._started = (event.step, self._last_line), self._last_line
        beginning = f"continuing after step {event.step:,}" if event.step else "starting"
        show_line(f"{beginning}: {event.num_parameters:,} parameters, {counted(event.total_steps, 'steps')}")
        self._task = self._bar.add_task("training", total=event.total_steps, completed=event.step, facts="")

    def _advance(self, step: int) -> None:
        """Move the bar; elsewhere, print the remaining time if the last line is older than `MAX_SILENCE`."""
        self._estimate(step)
        left = self._time_left(step)
        self._bar.update(self._task, completed=step, facts=_join(self._report, left))
        if time.monotonic() - self._last_line > MAX_SILENCE:
            self._show_step(step, left)

    def _estimate(self, step: int) -> None:
        """Print the time of the whole training once, at the speed of the steps after the first few seconds."""
        now = time.monotonic()
        if not self._is_warm and now - self._since[1] >= WARM_UP:
            self._is_warm, self._since = True, (step, now)
        first_step, start = self._since
        if self._is_warm and not self._is_estimated and now - start >= MEASURED and step > first_step:
            self._is_estimated = True
            seconds = now - self._started + (now - start) / (step - first_step) * (self._total - step)
            show_line(f"estimated time: about {format_seconds(seconds)}, without validations and final scores")

    def _log(self, event: callbacks.LogEvent) -> None:
        self._report = f"train loss {event.loss:.3f}, {event.tokens_per_second:,.0f} {self._unit}/s"
        facts = _join(self._report, self._time_left(event.step))
        self._bar.update(self._task, facts=facts, description=f"epoch {event.epoch + 1}")
        self._show_step(event.step, facts)

    def _time_left(self, step: int) -> str:
        """Return the remaining time at the speed since the start or the last rollback."""
        first_step, start = self._since
        remaining = self._total - step
        if remaining <= 0 or step <= first_step:
            return ""
        return f"{format_seconds((time.monotonic() - start) / (step - first_step) * remaining)} left"

    def _show_step(self, step: int, facts: str) -> None:
        self._last_line = time.monotonic()
        if not console.is_terminal:
            show_line(f"step {step:,}/{self._total:,}: {facts}" if facts else f"step {step:,}/{self._total:,}")

    def _show_work(self, work: str) -> None:
        """Show the current work after the last step."""
        self._bar.update(self._task, description=work, facts="")
        if not console.is_terminal:
            show_line(f"{work} …")


def _join(*facts: str) -> str:
    return ", ".join(filter(None, facts))


def _selection_work(event: callbacks.EndEvent | callbacks.CandidateEvent) -> str:
    """Return a phrase about the selection of the weights, and the candidate that is being validated."""
    work = "selecting the weights"
    return work if isinstance(event, callbacks.EndEvent) else f"{work}: {event.name} ({event.number} of {event.count})"


def _show_candidates(event: callbacks.SelectionEvent) -> None:
    if len(event.candidates) > 1:
        show_line("candidates for the weights, scored on the validation set:")
        for name, scores in event.candidates.items():
            show_line(f"{'→' if name == event.selected else ' '} {name}: {_scores(scores)}")


def _scores(scores: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:.{3 if name == 'loss' else 2}f}" for name, value in scores.items())


class TerminalReporter:
    """Reporter of a training on standard error."""

    status = staticmethod(status)
    show_choices = staticmethod(show_choices)
    interruption = staticmethod(on_signals)
    show_line = staticmethod(show_line)

    def show_data(self, data: TaskData) -> None:
        """Print what cleaning removed, and the size of the data."""
        if data.cleaning_report is not None:
            show_cleaning(data.cleaning_report)
        for note in data.notes:
            show_line(f"note: {note}")
        sizes = f"{len(data.tokenizer.source):,}"
        if not data.tokenizer.shared:
            sizes += f" and {len(data.tokenizer.target):,}"
        console.print(f"{data.summary}; vocabulary {sizes}")

    def show_estimate(self, seconds: float) -> None:
        """Print the estimated time of the steps that are left, if there are any."""
        left = f"about {format_seconds(seconds)}, without preparation and final scores"
        console.print(f"estimated time: {left}" if seconds > 0 else "all steps are done; the final scores are left")

    def show_environment_changes(self, changes: list[str]) -> None:
        """Print how this machine differs from the machine that the run started on."""
        if changes:
            show_line(f"note: {'; '.join(changes)}: the results may differ in their last digits")

    def callback(self, unit: str) -> TrainingDisplay:
        """Return the display of training events."""
        return TrainingDisplay(unit=unit)
