"""Messages from the main worker to all others: JSON, signed with the secret of the training.

Nothing that arrives from another process is unpickled, because a pickle runs code. The signature tells a message of
the main worker from one that another program sent to the port of a worker, or recorded and repeated.
"""

import hashlib
import hmac
import json
from typing import Any, Final

import torch
import torch.distributed as dist

from dragoman.errors import TrainingError
from dragoman.training.launch import SECRET_VARIABLE

MAX_BYTES: Final = 2**26
_SIGNATURE_BYTES: Final = hashlib.sha256().digest_size


def send_to_all(value: Any, *, secret: bytes, number: int) -> None:
    """Send a JSON value, the message of this number, from the main worker to all others."""
    message = sign(value, secret=secret, number=number)
    dist.broadcast(torch.tensor([len(message)]), src=0)
    dist.broadcast(torch.frombuffer(bytearray(message), dtype=torch.uint8), src=0)


def receive(*, secret: bytes, number: int) -> Any:
    """Return the value of the message of this number. Raises TrainingError if the main worker did not send it."""
    size = torch.zeros(1, dtype=torch.int64)
    dist.broadcast(size, src=0)
    if not _SIGNATURE_BYTES < size <= MAX_BYTES:
        raise _not_signed()
    message = torch.empty(int(size), dtype=torch.uint8)
    dist.broadcast(message, src=0)
    return verify(message.numpy().tobytes(), secret=secret, number=number)


def sign(value: Any, *, secret: bytes, number: int) -> bytes:
    """Return the bytes of a message: a signature and a JSON value."""
    content = json.dumps(value).encode()
    return _signature(content, secret, number) + content


def verify(message: bytes, *, secret: bytes, number: int) -> Any:
    """Return the JSON value of a message. Raises TrainingError if its signature has another secret or number."""
    signature, content = message[:_SIGNATURE_BYTES], message[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(content, secret, number)):
        raise _not_signed()
    return json.loads(content)


def _signature(content: bytes, secret: bytes, number: int) -> bytes:
    return hmac.digest(secret, f"{number}:".encode() + content, "sha256")


def _not_signed() -> TrainingError:
    return TrainingError(
        "a message to a worker is not signed with the secret of this training. Another program may use its port. "
        f"Choose another port, and set {SECRET_VARIABLE} to the same value on all machines."
    )
