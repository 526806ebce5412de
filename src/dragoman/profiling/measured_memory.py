"""Memory that is available, and memory that a process or a device uses."""

import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import torch

from dragoman.errors import ConfigError

UNITS: Final = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
PROCESS_STATUS: Final = Path("/proc/self/status")
"""Memory counters of this process, which exclude the parent process, unlike those of `getrusage`."""
CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
CGROUP_USAGE: Final = Path("/sys/fs/cgroup/memory.current")
CGROUP_STATISTICS: Final = Path("/sys/fs/cgroup/memory.stat")


def peak_bytes(device: torch.device) -> int:
    """Return the peak memory of tensors on a GPU, or the peak resident memory of this process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = _read_bytes(PROCESS_STATUS, "VmHWM")
    if peak is None:
        maximum = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return maximum if sys.platform == "darwin" else 1024 * maximum
    return peak


def resident_bytes(device: torch.device) -> int:
    """Return the memory in use now, or its peak on systems that report nothing else."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    resident = _read_bytes(PROCESS_STATUS, "VmRSS")
    return peak_bytes(device) if resident is None else resident


def available_bytes(device: torch.device) -> int:
    """Return the memory that another process could use on a GPU, or on this machine within the container's limit."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    if (available := _read_bytes(Path("/proc/meminfo"), "MemAvailable")) is not None:
        limits.append(available)
    with suppress(OSError, ValueError):  # a container without a limit has no number here
        limits.append(int(CGROUP_LIMIT.read_text()) - int(CGROUP_USAGE.read_text()) + _page_cache_bytes())
    return max(0, min(limits))


def _page_cache_bytes() -> int:
    """Return the container's page cache, which counts as used although the kernel frees it on demand."""
    counts = dict(line.split() for line in CGROUP_STATISTICS.read_text().splitlines())
    return int(counts.get("active_file", 0)) + int(counts.get("inactive_file", 0))


def parse_bytes(text: str) -> int:
    """Parse a size such as `16GiB` or `800 MB`. Raises ConfigError if the text is not a size."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text, re.IGNORECASE)
    unit = UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or not float(match[1]):
        raise ConfigError(f"--memory {text}: is not a memory size. Write it as 16GiB or 800MB.")
    return int(float(match[1]) * unit)


def format_bytes(size: float) -> str:
    if abs(size) >= 2**30:
        return f"{size / 2**30:.2f} GiB"
    return f"{size / 2**20:,.0f} MiB" if abs(size) >= 2**20 else f"{size / 2**10:,.0f} KiB"


def _read_bytes(file: Path, name: str) -> int | None:
    """Return a memory counter of Linux in bytes, or None on other systems."""
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return 1024 * int(value.split()[0])
    return None
