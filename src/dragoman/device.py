"""Choice of the device that computes."""

import torch

from dragoman.errors import ConfigError
from dragoman.number_words import counted

DEVICES = ("cpu", "cuda", "mps")


def choose_device(name: str | None = None) -> torch.device:
    """Return the device of that name, regardless of case, or the first available of CUDA, Apple's MPS and the CPU.

    Raises ConfigError if the named device is not available.
    """
    if name is None:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    name = str(name).lower()
    if name.partition(":")[0] not in DEVICES:
        raise ConfigError(f"device = {name}: is not one of {', '.join(DEVICES)}. Leave it out to choose automatically.")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(f"device = {name}: is not available here. Leave it out to choose automatically.") from error
    return device


def describe_device(device: torch.device) -> str:
    """Return the device in words, such as `cpu (2 threads)`."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device} ({counted(torch.get_num_threads(), 'threads')})" if device.type == "cpu" else str(device)
