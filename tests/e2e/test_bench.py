"""`dragoman bench` on the command line: translators, generators and errors."""

import json

import pytest
import yaml

from dragoman.cpu_library import is_installed
from tests.small_runs import dragoman
from tests.small_tasks import config_of, write_texts
from tests.untrained_runs import finished_language_model, finished_run

pytestmark = pytest.mark.slow

ASKED = ["--batch", 1, "--batch", 3, "--beam", 1, "--beam", 2, "--rounds", 1, "--device", "cpu"]
ROW = {
    *("batch_size", "beam_size", "first_token_ms", "token_ms", "sentences_per_second", "tokens_per_second"),
    *(
        "megabytes_per_token",
        "megaoperations_per_token",
        "bandwidth_fraction",
        "compute_fraction",
        "roofline_fraction",
        "bound",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    finished_run(folder / "translator")
    finished_language_model(folder / "writer")
    (folder / "source.txt").write_text("two dogs play .\n\na cat sits\nthe sea\n", encoding="utf-8")
    write_texts(folder)
    (folder / "classifier.yaml").write_text(yaml.safe_dump(config_of("classification", folder)), encoding="utf-8")
    assert dragoman("train", "classifier.yaml", "--out", "classifier", cwd=folder).returncode == 0
    return folder


@pytest.mark.parametrize("run", ["translator", "writer"])
@pytest.mark.parametrize("given", [["--source-tokens", 7], ["--source", "source.txt"]], ids=["random", "texts"])
def test_bench_measures_every_batch_and_beam(folder, run, given):
    answer = dragoman("bench", run, *ASKED, "--tokens", 5, *given, "--json", cwd=folder)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert [(row["batch_size"], row["beam_size"]) for row in found["results"]] == [(1, 1), (3, 1), (1, 2), (3, 2)]
    for row in found["results"]:
        assert row.keys() == ROW
        assert all(value > 0 for key, value in row.items() if key != "bound")
        assert row["roofline_fraction"] == max(row["bandwidth_fraction"], row["compute_fraction"])
    assert found["process"]["seconds"] > found["load_seconds"] > 0
    assert found["process"]["peak_bytes"] > 2**20
    assert found["machine"]["bytes_per_second"] > 1e8
    assert found["machine"]["operations_per_second"] > 1e8
    assert found["backend"].startswith("CPU library, " if is_installed() else "PyTorch on cpu")


def test_smaller_compute_types_read_fewer_bytes(folder):
    if not is_installed():
        pytest.skip("the CPU library is not installed")
    moved = {}
    for compute in ("float32", "bfloat16", "int8"):
        asked = ["--batch", 1, "--beam", 1, "--rounds", 1, "--tokens", 3, "--device", "cpu", "--compute-type", compute]
        found = json.loads(dragoman("bench", "translator", *asked, "--json", cwd=folder).stdout)
        assert found["compute_type"] == compute
        moved[compute] = found["step_cost"]["weight_bytes"]
    assert moved["float32"] == 2 * moved["bfloat16"] == 4 * moved["int8"]


def test_bench_prints_a_table_and_the_roofline(folder):
    answer = dragoman("bench", "translator", *ASKED, "--tokens", 5, cwd=folder)
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert lines[0].startswith("translator, float32: ")
    assert lines[1].startswith("loaded in ")
    assert "peak memory" in lines[1]
    assert [name for name in ("batch", "first ms", "sentences/s", "MB/token") if name not in lines[2]] == []
    assert len(lines) == 2 + 1 + 4 + 1 + 4
    assert lines[7].startswith("roofline: memory ")
    assert lines[8].startswith("  batch 1, beam 1: ")
    assert "% of the bandwidth" in lines[8]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["bench", "translator", "--source", "source.txt", "--source-tokens", 3], "--source-tokens has no effect"),
        (["bench", "translator", "--source", "source.txt", "--batch", 4], "3 texts are too few for a batch of 4"),
        (["bench", "writer", "--tokens", 20, "--source-tokens", 4], "exceed the context of 23"),
        (["bench", "nothing"], "nothing: is not a run folder"),
        (["bench", "classifier"], "classifier: has a text classifier. Give the run of a translation or language model"),
    ],
)
def test_invalid_bench_is_refused(folder, asked, said):
    answer = dragoman(*asked, cwd=folder)
    assert answer.returncode == 2
    assert said in answer.stderr
    assert answer.stdout == ""
