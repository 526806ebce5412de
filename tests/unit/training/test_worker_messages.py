"""Signed messages between workers."""

import pickle

import pytest

from dragoman.errors import TrainingError
from dragoman.training.worker_messages import sign, verify

VALUE = {"folder": "runs/en-de", "scores": [0.1, 1e-17, float("inf")], "step": -1, "none": None}


def test_signed_message_is_the_same_value():
    assert verify(sign(VALUE, secret=b"secret", number=7), secret=b"secret", number=7) == VALUE


@pytest.mark.parametrize("number", [8, 70])
@pytest.mark.parametrize("secret", [b"other", b""])
def test_message_of_another_secret_or_number_is_refused(secret, number):
    message = sign(VALUE, secret=b"secret", number=7)
    for wrong in ({"secret": b"secret", "number": number}, {"secret": secret, "number": 7}):
        with pytest.raises(TrainingError, match="is not signed with the secret of this training"):
            verify(message, **wrong)


def test_changed_message_is_refused():
    message = sign(VALUE, secret=b"secret", number=0)
    for place in range(0, len(message), 5):
        changed = bytearray(message)
        changed[place] ^= 1
        with pytest.raises(TrainingError):
            verify(bytes(changed), secret=b"secret", number=0)
    for other in (b"", message[:31], message[:-1], pickle.dumps(VALUE)):
        with pytest.raises(TrainingError):
            verify(other, secret=b"secret", number=0)
