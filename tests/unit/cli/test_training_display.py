"""What a person sees of a training, where nobody watches (lines) and on a terminal (a bar)."""

import io

import pytest
from rich.console import Console

from dragoman.cli import training_display
from dragoman.cli.training_display import TrainingDisplay, show_changes, show_choices
from dragoman.runs.auto_config import Choice
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

EVENTS: list[Event] = [
    StartEvent(0, total_steps=40, num_parameters=12345, device="cpu"),
    LogEvent(10, 0, 2.5, 2.0, 1.0, 0.001, 4321.0, 1.0),
    ValidationEvent(15, 1, {"loss": 2.0, "bleu": 33.333}, improved=True, seconds=2.0),
    SaveEvent(15),
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
    """A console of 100 columns, and what it shows."""

    def use(*, terminal: bool) -> io.StringIO:
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=terminal, width=100, color_system=None, highlight=False)
        monkeypatch.setattr(training_display, "console", console)
        return stream

    return use


def watch(events: list[Event]) -> None:
    with TrainingDisplay() as display:
        for event in events:
            display(event)


def test_a_line_a_report_where_nobody_watches(shown):
    stream = shown(terminal=False)
    watch(EVENTS)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "starting: 12,345 parameters, 40 updates"
    assert lines[1].startswith("update 10/40: loss 2.500, 4,321 tokens/s, ")
    assert lines[1].endswith(" left")
    assert lines[2] == "epoch 1, update 15: loss 2.000, bleu 33.33 *"
    assert lines[4] == (
        "update 23: the loss is not finite (lines 6, 8 of the training corpus); back to update 15 with 0.5 of the "
        "learning rate"
    )
    assert lines[6] == "epoch 2, update 30: loss 2.500, bleu 30.00"
    assert lines[7] == "update 40/40: loss 2.000, 4,000 tokens/s"
    assert lines[8:] == [
        "choosing the weights …",
        "which weights to keep, by the validation set:",
        "  last: loss 2.500, bleu 30.00",
        "→ best: loss 2.000, bleu 33.50",
        "scoring …",
    ]


def test_a_bar_on_a_terminal(shown):
    stream = shown(terminal=True)
    watch(EVENTS[:5])
    text = stream.getvalue()
    assert "20/40 loss 2.250, 4,000 tokens/s, 0 s left" in text
    assert "epoch 1, update 15: loss 2.000, bleu 33.33 *" in text
    assert "epoch 2" in text


def test_a_bar_says_what_comes_after_the_last_update(shown):
    stream = shown(terminal=True)
    with TrainingDisplay() as display:
        for event in EVENTS[:-1]:
            display(event)
        assert "choosing the weights" in _now(display)
        display(EVENTS[-1])
        assert "scoring" in _now(display)
    assert "→ best: loss 2.000, bleu 33.50" in stream.getvalue()


def _now(display: TrainingDisplay) -> str:
    [task] = display._bar.tasks
    return task.description


def test_the_only_candidate_is_not_worth_a_word(shown):
    stream = shown(terminal=False)
    watch([EVENTS[0], SelectionEvent(40, "last", {"last": {"loss": 2.5}})])
    assert "which weights" not in stream.getvalue()


def test_going_on_says_from_where(shown):
    stream = shown(terminal=False)
    watch([StartEvent(1500, total_steps=4000, num_parameters=7, device="cpu")])
    assert stream.getvalue() == "going on after update 1,500: 7 parameters, 4,000 updates\n"


def test_choices_stand_with_their_reasons(shown):
    stream = shown(terminal=False)
    choices = [
        Choice("tokenizer.vocab_size", 9600, "a third"),
        Choice("training.length", {"count": 30, "kind": "epochs"}, "it is small"),
        Choice("preset", "tiny", "29,000 pairs"),
    ]
    show_choices(choices, device="cpu (2 threads)")
    rows = [line.split() for line in stream.getvalue().splitlines()]
    assert rows[0] == ["device:", "cpu", "(2", "threads)"]
    assert rows[3:] == [
        ["tokenizer.vocab_size", "9,600", "a", "third"],
        ["training.length", "30", "epochs", "it", "is", "small"],
        ["preset", "tiny", "29,000", "pairs"],
    ]


def test_another_machine_is_noted(shown):
    stream = shown(terminal=False)
    show_changes([])
    assert stream.getvalue() == ""
    show_changes(["threads 2 then, 4 now", "device cuda then, cpu now"])
    assert stream.getvalue().startswith("note: threads 2 then, 4 now; device cuda then, cpu now: the results may")
