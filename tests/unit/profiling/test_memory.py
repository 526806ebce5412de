"""How much memory there is, and how sizes are written."""

import pytest
import torch

from dragoman.errors import ConfigError
from dragoman.profiling import memory
from dragoman.profiling.memory import available_bytes, peak_bytes, resident_bytes, shown, size_of

CPU = torch.device("cpu")


def test_a_process_has_taken_at_most_what_it_has_and_more_later():
    before = peak_bytes(CPU)
    assert 0 < resident_bytes(CPU) <= peak_bytes(CPU)
    held = torch.ones(2 * before // 4)
    assert peak_bytes(CPU) >= before + held.numel() * 3
    assert available_bytes(CPU) > 0


@pytest.mark.parametrize(
    ("text", "expected"), [("16GiB", 2**34), ("1.5 gib", 3 * 2**29), ("800MB", 800_000_000), ("7 B", 7)]
)
def test_a_size_is_read(text, expected):
    assert size_of(text) == expected


@pytest.mark.parametrize("text", ["16", "GiB", "-1GiB", "0GiB", "16 apples", ""])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ConfigError, match="write it as 16GiB"):
        size_of(text)


def test_sizes_are_shown_in_binary_units():
    assert (shown(3 * 2**20), shown(3 * 2**29)) == ("3 MiB", "1.50 GiB")


def test_of_what_a_container_uses_the_files_that_were_read_are_free(tmp_path, monkeypatch):
    numbers = {
        "MAXIMUM": "1000000",
        "USED": "900000",
        "STATISTICS": "anon 100000\nactive_file 300000\ninactive_file 1000",
    }
    for name, text in numbers.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.setattr(memory, name, tmp_path / name)
    assert available_bytes(CPU) == 100_000 + 301_000
    (tmp_path / "MAXIMUM").write_text("max", encoding="utf-8")
    assert available_bytes(CPU) > 1_000_000, "a container without a limit"
