"""The benchmark of attention against length: its fit, its memory, and that it runs from end to end."""

import json

import pytest

from benchmarks import attention_length
from benchmarks.attention_length import LABELS, PASSES, Setting, exponent, main, peak


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_the_exponent_of_a_power_is_its_power(power):
    lengths = [512, 1024, 2048, 4096]
    assert exponent(lengths, [3.0 * length**power for length in lengths]) == pytest.approx(power, abs=1e-9)


def test_only_the_greatest_lengths_make_the_exponent():
    lengths = [2, 4, 8, 16, 32, 64]
    assert exponent(lengths, [100.0, 100.0, 8.0, 16.0, 32.0, 64.0]) == pytest.approx(1.0)


def test_the_reference_holds_the_square_of_the_length():
    """Four bytes a weight, the logits and the weights at once, in a process of its own."""
    found = peak("full_reference", Setting(size=8, heads=1, threads=1), 2048, "forward")
    assert 1.9 * 4 * 2048**2 < found < 4 * 4 * 2048**2


def test_a_tiny_run_writes_figures_a_table_and_a_plot(tmp_path, monkeypatch):
    """Memory, which takes a process each, is told that it grows as it may: full attention stops at the limit."""

    def told(kind, setting, length, name):
        return length**2 if kind == "full_reference" else 3 * length

    monkeypatch.setattr(attention_length, "peak", told)
    small = ["--size", "16", "--reach", "8", "--block", "4", "--width", "8", "--threads", "1", "--rounds", "1"]
    asked = ["--folder", str(tmp_path), "--lengths", "64", "128", "256", "--memory", str(256**2 / 2**31)]
    monkeypatch.setattr("sys.argv", ["attention_length.py", *asked, *small])
    main()
    report = json.loads((tmp_path / "results.json").read_text())
    assert list(report["results"]) == list(LABELS)
    for kind, result in report["results"].items():
        assert result["lengths"] == ([64, 128] if kind == "full_reference" else [64, 128, 256])
        assert result["forward"]["exponent_of_bytes"] == (2 if kind == "full_reference" else 1)
        assert all(second > 0 for name in PASSES for second in result[name]["seconds"])
        assert all(len(result[name]["seconds"]) == len(result["lengths"]) for name in PASSES)
    page = (tmp_path / "README.md").read_text()
    assert all(f"| {label} |" in page for label in LABELS.values())
    assert (tmp_path / "length.png").read_bytes().startswith(b"\x89PNG")
