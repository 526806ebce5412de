"""Where the tensors live."""

import pytest
import torch

from dragoman.device import choose_device, describe_device
from dragoman.errors import ConfigError


def test_one_is_chosen_where_none_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device() == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device() == torch.device("cuda")


@pytest.mark.parametrize("name", ["cuda:99", "gpu", "", "meta", "cpu:x"])
def test_what_is_not_there_is_refused(name):
    with pytest.raises(ConfigError, match=f"--device {name}: not .*leave it out"):
        choose_device(name)


def test_the_cpu_is_named_with_its_threads():
    assert choose_device("cpu") == torch.device("cpu")
    assert describe_device(torch.device("cpu")) == f"cpu ({torch.get_num_threads()} threads)"
