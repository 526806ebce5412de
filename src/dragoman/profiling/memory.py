"""How much memory there is, and how much a process or a device has taken at most."""

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
MAXIMUM: Final = Path("/sys/fs/cgroup/memory.max")
USED: Final = Path("/sys/fs/cgroup/memory.current")
STATISTICS: Final = Path("/sys/fs/cgroup/memory.stat")


def peak_bytes(device: torch.device) -> int:
    """The most that tensors took of a GPU so far, or that this process took of the machine's memory."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    own = _of_this_process("VmHWM")
    if own is not None:
        return own
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def resident_bytes(device: torch.device) -> int:
    """What is taken now, or where the system does not tell, the most that was."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    own = _of_this_process("VmRSS")
    return peak_bytes(device) if own is None else own


def available_bytes(device: torch.device) -> int:
    """What another process could take: of a GPU, or of the machine as far as it, or a container, lets it."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError):
        limits.append(_kibibytes(Path("/proc/meminfo"), "MemAvailable"))
    with suppress(OSError, ValueError):  # there is no number where a container has no limit
        limits.append(int(MAXIMUM.read_text()) - int(USED.read_text()) + _files_in_memory())
    return max(0, min(limits))


def _files_in_memory() -> int:
    """What a container is said to use and would let go of at once: files that were read."""
    counts = dict(line.split() for line in STATISTICS.read_text().splitlines())
    return int(counts.get("active_file", 0)) + int(counts.get("inactive_file", 0))


def size_of(text: str) -> int:
    """The bytes of a size such as `16GiB` or `800 MB`. Raises ConfigError where it is none."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text, re.IGNORECASE)
    unit = UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or not float(match[1]):
        raise ConfigError(f"{text!r} is no size of a memory; write it as 16GiB or 800MB")
    return int(float(match[1]) * unit)


def shown(size: float) -> str:
    """Bytes as a person reads them."""
    return f"{size / 2**30:.2f} GiB" if abs(size) >= 2**30 else f"{size / 2**20:,.0f} MiB"


def _of_this_process(name: str) -> int | None:
    """A number that Linux keeps of each process; unlike that of `getrusage` it does not begin with its parent's."""
    try:
        return _kibibytes(Path("/proc/self/status"), name)
    except (OSError, ValueError):
        return None


def _kibibytes(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return 1024 * int(value.split()[0])
    raise ValueError(f"{file} says nothing of {name}")
