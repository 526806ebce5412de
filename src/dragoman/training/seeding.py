"""Update `n` of a run draws from a generator made of `(seed, n)`, so that going on needs no stored random state."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(*numbers: int) -> int:
    """A 63-bit seed from a tuple of numbers, the same on every machine."""
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@contextmanager
def seeded(*numbers: int, device: torch.device) -> Iterator[None]:
    """Inside, PyTorch draws from `derive(*numbers)`; outside, its generators are as they were."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(derive(*numbers))
        yield
