"""Callbacks: the metrics file, which a resumed run rewinds, and TensorBoard."""

import json
import sys

import pytest

from dragoman.errors import MissingExtraError, RunError
from dragoman.training.callbacks import (
    EndEvent,
    JsonlCallback,
    LogEvent,
    RollbackEvent,
    SaveEvent,
    SelectionEvent,
    StartEvent,
    TensorBoardCallback,
    ValidationEvent,
    combine_callbacks,
)


def start_event(update: int) -> StartEvent:
    return StartEvent(update, total_steps=100, num_parameters=7, device="cpu")


def log_event(update: int, loss: float = 1 / 3) -> LogEvent:
    return LogEvent(update, 0, loss, 0.25, 1.0, 0.001, 1234.5678, 2.0)


def validation_event(update: int, bleu: float = 20.0) -> ValidationEvent:
    return ValidationEvent(update, 1, {"loss": 2.0, "bleu": bleu}, improved=True, seconds=3.0)


@pytest.fixture
def metrics(tmp_path) -> JsonlCallback:
    return JsonlCallback(tmp_path / "metrics.jsonl")


def send(metrics: JsonlCallback, *events) -> None:
    for event in events:
        metrics(event)


def told(metrics: JsonlCallback) -> list[tuple[str, int]]:
    rows = [json.loads(line) for line in metrics.path.read_text(encoding="utf-8").splitlines()]
    return [(row["event"], row["step"]) for row in rows]


def test_every_event_but_saving_is_one_line(metrics):
    rolled_back = RollbackEvent(9, (3, 1), "lines 3, 1", 5, 0.5)
    chosen = SelectionEvent(10, "last", {"last": {"loss": 0.123456789}})
    send(metrics, start_event(0), log_event(2), validation_event(5), SaveEvent(5), rolled_back, chosen)
    rows = [json.loads(line) for line in metrics.path.read_text(encoding="utf-8").splitlines()]
    assert [row["event"] for row in rows] == ["start", "log", "validation", "rollback", "selection"]
    assert rows[0] == {"event": "start", "step": 0, "total_steps": 100, "num_parameters": 7, "device": "cpu"}
    assert rows[1]["loss"] == 0.333333
    assert rows[2]["scores"] == {"loss": 2.0, "bleu": 20.0}
    assert rows[3]["rows"] == [3, 1]
    assert rows[4]["candidates"] == {"last": {"loss": 0.123457}}


def test_resuming_drops_lines_after_the_checkpoint(metrics):
    send(
        metrics,
        start_event(0),
        log_event(2),
        validation_event(5),
        log_event(6),
        validation_event(10),
        log_event(12),
        start_event(5),
    )
    assert told(metrics) == [("start", 0), ("log", 2), ("validation", 5)]
    send(metrics, log_event(6))
    assert told(metrics)[3:] == [("log", 6)]


def test_resuming_drops_the_weight_selection(metrics):
    send(metrics, start_event(0), validation_event(5), EndEvent(5), SelectionEvent(5, "last", {}), start_event(5))
    assert told(metrics) == [("start", 0), ("validation", 5)]


def test_resuming_drops_a_later_rollback(metrics):
    """The repeated step fails again, because training is deterministic."""
    story = [
        start_event(0),
        validation_event(5),
        log_event(8),
        RollbackEvent(9, (1,), "", 5, 0.5),
        log_event(8),
        validation_event(10),
    ]
    send(metrics, *story, start_event(5))
    assert told(metrics) == [("start", 0), ("validation", 5)]
    send(metrics, *story[2:], log_event(12), start_event(10))
    assert told(metrics) == [
        ("start", 0),
        ("validation", 5),
        ("log", 8),
        ("rollback", 5),
        ("log", 8),
        ("validation", 10),
    ]


@pytest.mark.parametrize("torn", ['{"event": "upd', '{"event": "log"}\n', "[1, 2]\n", "\udcff\n"])
def test_resuming_drops_an_incomplete_line(metrics, torn):
    send(metrics, start_event(0), log_event(2))
    with metrics.path.open("ab") as file:
        file.write(torn.encode("utf-8", "surrogateescape"))
    send(metrics, start_event(2), log_event(4))
    assert told(metrics) == [("start", 0), ("log", 2), ("log", 4)]


def test_full_disk_is_an_error_with_a_remedy(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(RunError, match=r"metrics\.jsonl: cannot be written"):
        JsonlCallback(tmp_path / "metrics.jsonl")(log_event(1))


def test_callbacks_are_called_in_order():
    said = []
    combine_callbacks([lambda event: said.append((1, event)), lambda event: said.append((2, event))])(SaveEvent(3))
    assert said == [(1, SaveEvent(3)), (2, SaveEvent(3))]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of tensorboard and its protocol buffers
def test_tensorboard_hides_values_after_the_checkpoint(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    first = TensorBoardCallback(tmp_path)
    call_all(
        first, start_event(0), log_event(2), validation_event(5), SaveEvent(5), log_event(7, loss=99.0), SaveEvent(7)
    )
    second = TensorBoardCallback(tmp_path)
    call_all(
        second, start_event(5), log_event(7, loss=0.75), validation_event(10, bleu=30.0), SaveEvent(10), EndEvent(10)
    )
    second(SelectionEvent(10, "last", {}))
    read = accumulators.EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("validation/bleu")] == [(5, 20.0), (10, 30.0)]
    losses = [(event.step, event.value) for event in read.Scalars("training/loss")]
    assert losses == [(2, pytest.approx(1 / 3)), (7, 0.75)]
    assert set(read.Tags()["scalars"]) >= {"training/learning_rate", "training/speed", "validation/loss"}


def call_all(observer: TensorBoardCallback, *events) -> None:
    for event in events:
        observer(event)


def test_missing_tensorboard_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dragoman\[tensorboard\]'"):
        TensorBoardCallback(tmp_path)
