"""Where the tensors live: chosen by itself, and named."""

import torch

from dragoman.errors import ConfigError

DEVICES = ("cpu", "cuda", "mps")


def choose_device(name: str | None = None) -> torch.device:
    """The device a person named, or CUDA, Apple's MPS and the CPU in this order; raises ConfigError if not there."""
    if name is None:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(f"--device {name}: not available here; leave it out to have one chosen") from error
    if device.type not in DEVICES:
        raise ConfigError(f"--device {name}: not one of {', '.join(DEVICES)}; leave it out to have one chosen")
    return device


def describe(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device} ({torch.get_num_threads()} threads)" if device.type == "cpu" else str(device)
