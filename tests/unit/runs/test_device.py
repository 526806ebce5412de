"""Choice of the device."""

import pytest
import torch

from dragoman.device import choose_device, describe_device
from dragoman.errors import ConfigError
from dragoman.number_words import counted


def test_best_available_device_is_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device() == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device() == torch.device("cuda")


@pytest.mark.parametrize("name", ["cuda:99", "gpu", "", "meta", "cpu:x"])
def test_unavailable_device_is_refused(name):
    with pytest.raises(ConfigError, match=f"device = {name}: is not .*Leave it out"):
        choose_device(name)


def test_cpu_is_described_with_its_threads():
    assert choose_device("cpu") == torch.device("cpu")
    assert describe_device(torch.device("cpu")) == f"cpu ({counted(torch.get_num_threads(), 'threads')})"
