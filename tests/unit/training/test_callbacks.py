"""Who watches a training: the file of metrics, which goes back when a run does, and TensorBoard."""

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


def started(update: int) -> StartEvent:
    return StartEvent(update, total_steps=100, num_parameters=7, device="cpu")


def updated(update: int, loss: float = 1 / 3) -> LogEvent:
    return LogEvent(update, 0, loss, 0.25, 1.0, 0.001, 1234.5678, 2.0)


def validated(update: int, bleu: float = 20.0) -> ValidationEvent:
    return ValidationEvent(update, 1, {"loss": 2.0, "bleu": bleu}, improved=True, seconds=3.0)


@pytest.fixture
def metrics(tmp_path) -> JsonlCallback:
    return JsonlCallback(tmp_path / "metrics.jsonl")


def tell(metrics: JsonlCallback, *events) -> None:
    for event in events:
        metrics(event)


def told(metrics: JsonlCallback) -> list[tuple[str, int]]:
    rows = [json.loads(line) for line in metrics.path.read_text(encoding="utf-8").splitlines()]
    return [(row["event"], row["step"]) for row in rows]


def test_every_event_but_saving_is_a_line_with_its_facts(metrics):
    rolled_back = RollbackEvent(9, (3, 1), "lines 3, 1", 5, 0.5)
    chosen = SelectionEvent(10, "last", {"last": {"loss": 0.123456789}})
    tell(metrics, started(0), updated(2), validated(5), SaveEvent(5), rolled_back, chosen)
    rows = [json.loads(line) for line in metrics.path.read_text(encoding="utf-8").splitlines()]
    assert [row["event"] for row in rows] == ["start", "log", "validation", "rollback", "selection"]
    assert rows[0] == {"event": "start", "step": 0, "total_steps": 100, "num_parameters": 7, "device": "cpu"}
    assert rows[1]["loss"] == 0.333333
    assert rows[2]["scores"] == {"loss": 2.0, "bleu": 20.0}
    assert rows[3]["rows"] == [3, 1]
    assert rows[4]["candidates"] == {"last": {"loss": 0.123457}}


def test_a_run_that_goes_on_drops_what_came_after_its_checkpoint(metrics):
    tell(metrics, started(0), updated(2), validated(5), updated(6), validated(10), updated(12), started(5))
    assert told(metrics) == [("start", 0), ("log", 2), ("validation", 5)]
    tell(metrics, updated(6))
    assert told(metrics)[3:] == [("log", 6)]


def test_the_choice_of_weights_is_made_again(metrics):
    tell(metrics, started(0), validated(5), EndEvent(5), SelectionEvent(5, "last", {}), started(5))
    assert told(metrics) == [("start", 0), ("validation", 5)]


def test_going_back_is_forgotten_where_the_checkpoint_is_from_before(metrics):
    """It will fail there again, for it does what it did."""
    story = [started(0), validated(5), updated(8), RollbackEvent(9, (1,), "", 5, 0.5), updated(8), validated(10)]
    tell(metrics, *story, started(5))
    assert told(metrics) == [("start", 0), ("validation", 5)]
    tell(metrics, *story[2:], updated(12), started(10))
    assert told(metrics) == [
        ("start", 0),
        ("validation", 5),
        ("log", 8),
        ("rollback", 5),
        ("log", 8),
        ("validation", 10),
    ]


@pytest.mark.parametrize("torn", ['{"event": "upd', '{"event": "log"}\n', "[1, 2]\n", "\udcff\n"])
def test_a_torn_line_is_dropped(metrics, torn):
    tell(metrics, started(0), updated(2))
    with metrics.path.open("ab") as file:
        file.write(torn.encode("utf-8", "surrogateescape"))
    tell(metrics, started(2), updated(4))
    assert told(metrics) == [("start", 0), ("log", 2), ("log", 4)]


def test_a_disk_that_refuses_is_an_error_with_a_remedy(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(RunError, match=r"metrics\.jsonl: cannot be written"):
        JsonlCallback(tmp_path / "metrics.jsonl")(updated(1))


def test_all_are_told_in_order():
    said = []
    combine_callbacks([lambda event: said.append((1, event)), lambda event: said.append((2, event))])(SaveEvent(3))
    assert said == [(1, SaveEvent(3)), (2, SaveEvent(3))]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of tensorboard and its protocol buffers
def test_tensorboard_reads_what_was_written_and_not_what_was_taken_back(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    first = TensorBoardCallback(tmp_path)
    tell_all(first, started(0), updated(2), validated(5), SaveEvent(5), updated(7, loss=99.0), SaveEvent(7))
    second = TensorBoardCallback(tmp_path)
    tell_all(second, started(5), updated(7, loss=0.75), validated(10, bleu=30.0), SaveEvent(10), EndEvent(10))
    second(SelectionEvent(10, "last", {}))
    read = accumulators.EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("validation/bleu")] == [(5, 20.0), (10, 30.0)]
    losses = [(event.step, event.value) for event in read.Scalars("training/loss")]
    assert losses == [(2, pytest.approx(1 / 3)), (7, 0.75)]
    assert set(read.Tags()["scalars"]) >= {"training/learning_rate", "training/speed", "validation/loss"}


def tell_all(observer: TensorBoardCallback, *events) -> None:
    for event in events:
        observer(event)


def test_without_tensorboard_its_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dragoman\[tensorboard\]'"):
        TensorBoardCallback(tmp_path)
