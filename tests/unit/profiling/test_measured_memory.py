"""Available and used memory, and sizes as text."""

import pytest
import torch

from dragoman.errors import ConfigError
from dragoman.profiling import measured_memory
from dragoman.profiling.measured_memory import available_bytes, format_bytes, parse_bytes, peak_bytes, resident_bytes

CPU = torch.device("cpu")


def test_peak_grows_with_allocated_memory():
    before = peak_bytes(CPU)
    assert 0 < resident_bytes(CPU) <= peak_bytes(CPU)
    held = torch.ones(2 * before // 4)
    assert peak_bytes(CPU) >= before + held.numel() * 3
    assert available_bytes(CPU) > 0


@pytest.mark.parametrize(
    ("text", "expected"), [("16GiB", 2**34), ("1.5 gib", 3 * 2**29), ("800MB", 800_000_000), ("7 B", 7)]
)
def test_parse_bytes(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["16", "GiB", "-1GiB", "0GiB", "16 apples", ""])
def test_parse_bytes_refuses_other_texts(text):
    with pytest.raises(ConfigError, match="Write it as 16GiB"):
        parse_bytes(text)


def test_format_bytes_uses_binary_units():
    assert (format_bytes(3 * 2**20), format_bytes(3 * 2**29)) == ("3 MiB", "1.50 GiB")


def test_page_cache_of_a_container_is_available(tmp_path, monkeypatch):
    numbers = {
        "CGROUP_LIMIT": "1000000",
        "CGROUP_USAGE": "900000",
        "CGROUP_STATISTICS": "anon 100000\nactive_file 300000\ninactive_file 1000",
    }
    for name, text in numbers.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.setattr(measured_memory, name, tmp_path / name)
    assert available_bytes(CPU) == 100_000 + 301_000
    (tmp_path / "CGROUP_LIMIT").write_text("max", encoding="utf-8")
    assert available_bytes(CPU) > 1_000_000, "a container without a limit"
