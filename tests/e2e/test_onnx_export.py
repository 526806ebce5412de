"""`dragoman export --format onnx` and the folder that it writes, by the commands as processes."""

import pytest

from tests.small_runs import dragoman
from tests.untrained_runs import finished_language_model, finished_run

pytest.importorskip("onnxscript", reason="the extra onnx writes graphs of ONNX")
pytest.importorskip("onnxruntime", reason="the extra onnx runs graphs of ONNX")
pytestmark = pytest.mark.slow


def without_scores(line: str) -> list[str]:
    """Return the columns of a line of an n-best list, or a line, without numbers, whose last digit may differ."""
    return line.split(" ||| ")[:2]


def test_translate_score_and_info_of_graphs(tmp_path):
    finished_run(tmp_path / "run")
    exported = dragoman("export", "run", "--format", "onnx", "--output-dir", "graphs", cwd=tmp_path, timeout=600)
    assert exported.returncode == 0, exported.stderr
    (tmp_path / "texts").write_text("two dogs play .\n\na cat sits by the sea\n", encoding="utf-8")
    for options in (["--beam", 1], ["--beam", 4, "--n-best", 2]):
        found, expected = (
            dragoman("translate", run, "--input", "texts", *options, "--device", "cpu", cwd=tmp_path)
            for run in ("graphs", "run")
        )
        assert (found.returncode, found.stderr) == (0, expected.stderr)
        assert list(map(without_scores, found.stdout.splitlines())) == list(
            map(without_scores, expected.stdout.splitlines())
        )
    assert "MiB in float32" in dragoman("info", "graphs", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--init-from", "graphs", "--pairs", "p.tsv", "--out", "new"], "holds graphs of ONNX"),
        (["translate", "graphs", "--compute-type", "int8", "--text", "a"], "graphs of ONNX have float32 weights"),
        (["translate", "graphs", "--device", "cuda", "--text", "a"], "graphs of ONNX run on the CPU"),
        (["import", "graphs", "--format", "onnx", "--out", "new"], "is only written"),
        (["export", "run", "--format", "onnx", "--compute-type", "int8", "--out", "new"], "float32 weights"),
    ],
)
def test_what_graphs_lack_is_refused(tmp_path, arguments, message):
    folder = finished_run(tmp_path / "run")
    finished_run(tmp_path / "graphs")
    (tmp_path / "graphs" / "decoder.onnx").write_bytes(b"")
    (tmp_path / "graphs" / folder.weights.name).unlink()
    (tmp_path / "p.tsv").write_text("a\tb\n" * 50, encoding="utf-8")
    refused = dragoman(*arguments, cwd=tmp_path)
    assert refused.returncode == 2
    assert message in refused.stderr


def test_generate_with_graphs(tmp_path):
    finished_language_model(tmp_path / "run")
    exported = dragoman("export", "run", "--format", "onnx", "--output-dir", "graphs", cwd=tmp_path, timeout=600)
    assert exported.returncode == 0, exported.stderr
    found, expected = (
        dragoman("generate", run, "--prompt", "two do", "--temperature", 0, "--max-new-tokens", 40, cwd=tmp_path)
        for run in ("graphs", "run")
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == expected.stdout
