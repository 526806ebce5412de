"""Settings of other programs as plain values."""

import json

import pytest
import torch

from dragoman.interop.plain_settings import plain_tree, plain_value
from dragoman.untrusted_files import parse_json


@pytest.mark.parametrize("value", [None, True, 3, -1.5, "text", "é"])
def test_plain_values_stay_as_they_are(value: object) -> None:
    assert plain_value(value) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, "\ud800", [], {}])
def test_values_without_a_json_form_are_null(value: object) -> None:
    assert plain_value(value) is None


def test_other_values_are_named() -> None:
    assert plain_value(torch.ones(2)) == "Tensor"
    assert plain_value([1]) == "list"


def test_every_tree_is_valid_json() -> None:
    tree: dict[object, object] = {1: [float("nan"), {"a": torch.ones(1)}], "b": {"c": b"bytes"}}
    tree["deep"] = inner = {}
    for _ in range(100):
        inner["x"] = inner = {}
    found = parse_json(json.dumps(plain_tree(tree)))
    assert found["1"] == [None, {"a": "Tensor"}]
    assert found["b"] == {"c": "bytes"}
