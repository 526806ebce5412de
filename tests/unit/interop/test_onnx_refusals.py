"""Models that no graph of ONNX computes."""

import pytest

from dragoman.errors import ConfigError
from dragoman.runs.export import export
from tests.untrained_runs import finished_run


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            {"attention": {"encoder": {"pattern": {"kind": "sliding_window", "window": 2}}}},
            r"model\.attention\.encoder\.pattern\.kind = sliding_window computes blocks",
        ),
        (
            {"attention": {"decoder": {"pattern": {"kind": "sliding_window", "window": 2}}}},
            r"model\.attention\.decoder\.pattern\.kind = sliding_window computes blocks",
        ),
        ({"attention": {"encoder": {"pattern": {"kind": "bigbird"}}}}, "bigbird computes blocks"),
    ],
)
def test_a_model_without_a_graph_is_refused(tmp_path, model, message):
    run = finished_run(tmp_path / "run", {"model": model})
    with pytest.raises(ConfigError, match=message):
        export(run.path, tmp_path / "graphs", format="onnx")
    assert not (tmp_path / "graphs").exists()


def test_int8_graphs_are_refused(tmp_path):
    run = finished_run(tmp_path / "run")
    with pytest.raises(ConfigError, match="graphs of ONNX have float32 weights"):
        export(run.path, tmp_path / "graphs", format="onnx", compute_type="int8")
