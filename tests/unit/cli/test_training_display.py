"""Display of a training: lines, or a progress bar on a terminal."""

import io
from pathlib import Path

import pytest

from dragoman.cli import messages, training_display
from dragoman.cli.table_output import PlainConsole
from dragoman.cli.training_display import TerminalReporter, TrainingDisplay, show_choices, show_result
from dragoman.evaluation import Score
from dragoman.runs.auto_config import Choice
from dragoman.runs.model_card import TrainingResult
from dragoman.training.callbacks import (
    EndEvent,
    Event,
    LogEvent,
    RollbackEvent,
    SaveEvent,
    SelectionEvent,
    StartEvent,
    StepEvent,
    ValidationEvent,
)

EVENTS: list[Event] = [
    StartEvent(0, total_steps=40, num_parameters=12345, device="cpu"),
    LogEvent(10, 0, 2.5, 2.0, 1.0, 0.001, 4321.0, 1.0),
    ValidationEvent(15, 1, {"loss": 2.0, "bleu": 33.333}, improved=True, seconds=2.0),
    SaveEvent(15),
    StepEvent(20),
    LogEvent(20, 1, 2.25, 2.0, 1.0, 0.001, 4000.0, 3.0),
    RollbackEvent(23, (5, 7), "lines 6, 8 of the training corpus", 15, 0.5),
    LogEvent(20, 1, 2.125, 2.0, 1.0, 0.001, 4000.0, 4.0),
    ValidationEvent(30, 2, {"loss": 2.5, "bleu": 30.0}, improved=False, seconds=5.0),
    LogEvent(40, 2, 2.0, 2.0, 1.0, 0.001, 4000.0, 6.0),
    EndEvent(40),
    SelectionEvent(40, "best", {"last": {"loss": 2.5, "bleu": 30.0}, "best": {"loss": 2.0, "bleu": 33.5}}),
]


@pytest.fixture
def shown(monkeypatch):
    """Console of 100 columns whose output the test reads."""

    def use(*, terminal: bool) -> io.StringIO:
        stream = io.StringIO()
        console = PlainConsole(file=stream, force_terminal=terminal, width=100, color_system=None)
        monkeypatch.setattr(training_display, "console", console)
        return stream

    return use


class Clock:
    """Seconds that a test sets."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_time_is_estimated_from_steps_after_the_first_seconds(shown, monkeypatch):
    stream, clock = shown(terminal=False), Clock()
    monkeypatch.setattr(training_display, "time", clock)
    with TrainingDisplay() as display:
        display(StartEvent(0, total_steps=1000, num_parameters=7, device="cpu"))
        clock.now += 30  # the first step takes long
        for step in range(1, 20):
            clock.now += 1
            display(StepEvent(step))
            if step == 5:
                clock.now += 40
                display(ValidationEvent(5, 1, {"loss": 2.0}, improved=True, seconds=9.0))
    [line] = [line for line in stream.getvalue().splitlines() if "estimated time" in line]
    assert line.startswith("estimated time: about 18 min")  # 1,070 seconds


def display_events(events: list[Event]) -> None:
    with TrainingDisplay() as display:
        for event in events:
            display(event)


def test_prints_one_line_per_report(shown):
    stream = shown(terminal=False)
    display_events(EVENTS)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "starting: 12,345 parameters, 40 steps"
    assert lines[1].startswith("step 10/40: train loss 2.500, 4,321 tokens/s, ")
    assert lines[1].endswith(" left")
    assert lines[2] == "epoch 1, step 15: valid loss 2.000, bleu 33.33 *"
    assert lines[4] == (
        "step 23: the loss is not finite (lines 6, 8 of the training corpus); back to step 15 with 0.5 of the "
        "learning rate"
    )
    assert lines[6] == "epoch 2, step 30: valid loss 2.500, bleu 30.00"
    assert lines[7] == "step 40/40: train loss 2.000, 4,000 tokens/s"
    assert lines[8:] == [
        "selecting the weights …",
        "candidates for the weights, scored on the validation set:",
        "  last: loss 2.500, bleu 30.00",
        "→ best: loss 2.000, bleu 33.50",
        "scoring …",
    ]


def test_shows_a_bar_on_a_terminal(shown):
    stream = shown(terminal=True)
    display_events(EVENTS[:6])
    text = stream.getvalue()
    assert "20/40 train loss 2.250, 4,000 tokens/s, 0.0 s left" in text
    assert "epoch 1, step 15: valid loss 2.000, bleu 33.33 *" in text
    assert "epoch 2" in text


def test_bar_moves_with_the_first_step(shown):
    shown(terminal=True)
    with TrainingDisplay() as display:
        display(EVENTS[0])
        display(StepEvent(1))
        [task] = display._bar.tasks
        assert task.completed == 1
        assert task.fields["facts"].endswith(" left")


def test_slow_steps_are_shown_before_the_first_report(shown, monkeypatch):
    stream = shown(terminal=False)
    clock = iter(range(0, 10**6, 20))
    monkeypatch.setattr(training_display.time, "monotonic", lambda: float(next(clock)))
    display_events([EVENTS[0], StepEvent(1), StepEvent(2)])
    lines = [line.partition(":")[0] for line in stream.getvalue().splitlines()]
    assert [line for line in lines if line != "estimated time"] == ["starting", "step 1/40", "step 2/40"]


def test_old_values_are_not_repeated(shown, monkeypatch):
    """Without a terminal, a line after a long silence has the remaining time alone; a validation ends the silence."""
    stream = shown(terminal=False)
    clock = [0.0]
    monkeypatch.setattr(training_display.time, "monotonic", lambda: clock[0])
    with TrainingDisplay() as display:
        for clock[0], event in [
            (0, EVENTS[0]),
            (1, EVENTS[1]),
            (60, EVENTS[2]),
            (61, StepEvent(16)),
            (99, StepEvent(20)),
        ]:
            display(event)
    assert stream.getvalue().splitlines()[1:] == [
        "step 10/40: train loss 2.500, 4,321 tokens/s, 3.0 s left",
        "epoch 1, step 15: valid loss 2.000, bleu 33.33 *",
        "estimated time: about 4 min, without validations and final scores",
        "step 20/40: 3 min left",
    ]


def test_bar_shows_the_work_after_the_last_step(shown):
    stream = shown(terminal=True)
    with TrainingDisplay() as display:
        for event in EVENTS[:-1]:
            display(event)
        assert "selecting the weights" in _now(display)
        display(EVENTS[-1])
        assert "scoring" in _now(display)
    assert "→ best: loss 2.000, bleu 33.50" in stream.getvalue()


def _now(display: TrainingDisplay) -> str:
    [task] = display._bar.tasks
    return task.description


def test_single_candidate_is_not_shown(shown):
    stream = shown(terminal=False)
    display_events([EVENTS[0], SelectionEvent(40, "last", {"last": {"loss": 2.5}})])
    assert "candidates" not in stream.getvalue()


def test_resumed_training_shows_its_first_step(shown):
    stream = shown(terminal=False)
    display_events([StartEvent(1500, total_steps=4000, num_parameters=7, device="cpu")])
    assert stream.getvalue() == "continuing after step 1,500: 7 parameters, 4,000 steps\n"


def test_choices_are_shown_with_reasons(shown):
    stream = shown(terminal=False)
    choices = [
        Choice("tokenizer.vocab_size", 9600, "a third"),
        Choice("model.positions", {"kind": "rotary", "base": 30}, "a reason"),
        Choice("preset", "tiny", "29,000 pairs"),
    ]
    show_choices(choices, device="cpu (2 threads)")
    rows = [line.split() for line in stream.getvalue().splitlines()]
    assert rows[0] == ["device:", "cpu", "(2", "threads)"]
    assert rows[3:] == [
        ["tokenizer.vocab_size", "9,600", "a", "third"],
        ["model.positions", "rotary", "30", "a", "reason"],
        ["preset", "tiny", "29,000", "pairs"],
    ]


def test_environment_changes_are_shown(shown):
    stream = shown(terminal=False)
    TerminalReporter().show_environment_changes([])
    assert stream.getvalue() == ""
    TerminalReporter().show_environment_changes(["threads 2 then, 4 now", "device cuda then, cpu now"])
    assert stream.getvalue().startswith("note: threads 2 then, 4 now; device cuda then, cpu now: the results may")


def test_time_of_a_resumed_training_and_of_the_whole(shown):
    stream, golden = shown(terminal=False), Path(__file__).parents[2] / "golden" / "run-1"
    facts = {"seconds": 42.0, "steps": 3, "tokens": 9}
    show_result(TrainingResult(golden, "last", {}, **facts))
    show_result(TrainingResult(golden, "last", {}, **facts, resumed_step=1, resumed_seconds=37.5))
    first, second = [line for line in stream.getvalue().splitlines() if line.startswith("finished")]
    assert first.startswith("finished in 42 s; weights: last.")
    assert second.startswith("finished in 4.5 s, or 42 s with the first 1 step; weights: last.")


def test_quiet_training_prints_scores_and_the_note_on_low_scores(capsys):
    golden = Path(__file__).parents[2] / "golden" / "run-1"
    scores = {"valid": [Score("BLEU", 1.25, "nrefs:1", "", higher_is_better=True)]}
    messages.start("quiet")
    show_result(TrainingResult(golden, "last", scores, seconds=1.0, steps=3, tokens=9))
    messages.start()
    err = capsys.readouterr().err
    assert "1.25" in err
    assert "not good enough for a useful" in err
    assert "finished in" not in err
