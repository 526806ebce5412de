"""Tables of tensor names."""

import numpy as np
import pytest

from dragoman.errors import ConfigError, DataError
from dragoman.interop.tensor_names import SINGLE_ROW, TRANSPOSE, LeftOver, TensorPair, TensorTable
from dragoman.interop.vocabulary_order import NEVER, VocabularyOrder

PARTS = ("query", "key", "value")
TABLE = TensorTable(
    [
        TensorPair("tokens.weight", "embed", rows="target", aliases=("head",)),
        TensorPair("unembedding.bias", (), rows="output_bias", default=0.0),
        TensorPair(tuple(f"{{layer}}.{part}.weight" for part in PARTS), "l{number}_qkv", TRANSPOSE),
        TensorPair("{layer}.norm.weight", "l{number}_scale", SINGLE_ROW),
        TensorPair("{layer}.gates", ("g{layer}.a", "g{layer}.b")),
        TensorPair("{layer}.adapter", "adapter{layer}"),
    ],
    [LeftOver("mask.{layer}", "computed")],
)
ORDER = VocabularyOrder(5, pad=3, unk=4, bos=0, eos=0)
SHAPES = {
    "tokens.weight": (6, 4),
    "unembedding.bias": (6,),
    **{f"{layer}.query.weight": (4, 4) for layer in range(2)},
    **{f"{layer}.{part}.weight": (2, 4) for layer in range(2) for part in ("key", "value")},
    **{f"{layer}.norm.weight": (4,) for layer in range(2)},
    "1.gates": (6, 3),
}


def random_tensors() -> dict[str, np.ndarray]:
    shapes = {"embed": (5, 4), "l1_qkv": (4, 8), "l2_qkv": (4, 8), "l1_scale": (1, 4), "l2_scale": (1, 4)}
    shapes |= {"g1.a": (3, 3), "g1.b": (3, 3)}
    generator = np.random.default_rng(0)
    return {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_weights_are_converted_in_both_directions() -> None:
    foreign = random_tensors()
    weights, account = TABLE.read(foreign, SHAPES, where="file", orders={"target": ORDER})
    assert {name: array.shape for name, array in weights.items()} == SHAPES
    assert np.array_equal(weights["1.key.weight"], foreign["l2_qkv"].T[4:6])
    assert np.array_equal(weights["1.gates"][3:], foreign["g1.b"])
    assert weights["unembedding.bias"].tolist() == [0, 0, NEVER, 0, 0, 0]
    assert set(account.used) == set(foreign)
    assert account.filled == {"unembedding.bias": 0.0}
    back = TABLE.write(weights, orders={"target": ORDER})
    assert back.keys() == foreign.keys()
    assert all(np.array_equal(back[name], foreign[name]) for name in foreign)


def test_alias_may_take_the_place_of_the_name() -> None:
    foreign = random_tensors()
    foreign["head"] = foreign["embed"]
    weights, account = TABLE.read(foreign, SHAPES, where="file", orders={"target": ORDER})
    assert "head" in account.used
    del foreign["embed"]
    again, _ = TABLE.read(foreign, SHAPES, where="file", orders={"target": ORDER})
    assert np.array_equal(weights["tokens.weight"], again["tokens.weight"])


def test_alias_of_other_values_is_refused() -> None:
    with pytest.raises(DataError, match="are one tensor"):
        TABLE.read(
            {**random_tensors(), "head": np.zeros((5, 4), np.float32)}, SHAPES, where="file", orders={"target": ORDER}
        )


def test_left_out_tensor_must_exist() -> None:
    with pytest.raises(ConfigError, match="file: has no tensor l9_scale, which --allow-unused names"):
        TABLE.read(random_tensors(), SHAPES, where="file", orders={"target": ORDER}, allow_unused=["l9_scale"])


def test_missing_tensors_are_named() -> None:
    foreign = random_tensors()
    del foreign["g1.b"], foreign["l2_scale"]
    with pytest.raises(DataError, match=r"file: 2 tensors of the model are missing \(g1.b, l2_scale\)"):
        TABLE.read(foreign, SHAPES, where="file", orders={"target": ORDER})


def test_unused_tensors_need_a_reason() -> None:
    foreign = {**random_tensors(), "mask.7": np.zeros(1), "l3_scale": np.zeros((1, 4))}
    with pytest.raises(DataError, match=r"file: 1 tensor would not be used \(l3_scale\)"):
        TABLE.read(foreign, SHAPES, where="file", orders={"target": ORDER})
    _, account = TABLE.read(foreign, SHAPES, where="file", orders={"target": ORDER}, allow_unused=["l3_scale"])
    assert account.left_over == {"l3_scale": "left out by the user", "mask.7": "computed"}


@pytest.mark.parametrize(
    ("name", "shape"),
    [("embed", (4, 4)), ("embed", (5, 3)), ("l1_qkv", (8, 4)), ("l1_scale", (1, 5)), ("g1.a", (4, 3)), ("g1.a", ())],
)
def test_other_shapes_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="file: "):
        TABLE.read({**random_tensors(), name: np.zeros(shape)}, SHAPES, where="file", orders={"target": ORDER})


def test_weights_that_the_format_lacks_are_refused() -> None:
    weights, _ = TABLE.read(random_tensors(), SHAPES, where="file", orders={"target": ORDER})
    with pytest.raises(ConfigError, match="the format has no such weights"):
        TABLE.write({**weights, "positions.weight": np.zeros((4, 4))}, orders={"target": ORDER})
    with pytest.raises(ConfigError, match="a training here has changed them"):
        TABLE.write({**weights, "unembedding.bias": np.ones(6)}, orders={"target": ORDER})
