"""Number formats of training: bfloat16 linear layers are close to float32 and need setting and processor."""

import pytest
import torch
import torch.nn.functional as F

from dragoman.training import precision
from dragoman.training.precision import (
    MIN_WEIGHTS,
    ROW_MULTIPLE,
    Bfloat16Linear,
    autocast,
    bfloat16_linear_layers,
    output_matmul_dtype,
    pad_rows,
)

CPU = torch.device("cpu")


def leaves(*shape: int, rows: tuple[int, ...] = (5, 7)) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = [(*rows, shape[0]), (shape[1], shape[0]), (shape[1],)]
    return [torch.randn(one, generator=generator).requires_grad_() for one in shapes]


@pytest.fixture
def has_bfloat16(monkeypatch, request):
    """Pretend to have a CPU with or without bfloat16 instructions."""
    has = getattr(request, "param", True)
    monkeypatch.setattr(precision, "_cpu_has_bfloat16", lambda device: has and device.type == "cpu")


@pytest.mark.parametrize("rows", [(11,), (5, 7), (2, 3, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_bfloat16_linear_layer_is_close(rows, bias):
    r"""Rounding changes both factors and the result by at most $2^{-9}$ each; the tolerance is 1 % of the norm."""
    x, weight, offset = leaves(71, 67, rows=rows)
    given = (x, weight, offset) if bias else (x, weight)
    exact = F.linear(*given)
    rounded = Bfloat16Linear.apply(x, weight, offset if bias else None)
    towards = torch.randn(exact.shape, generator=torch.Generator().manual_seed(5))
    found, wanted = (torch.autograd.grad((y * towards).sum(), given) for y in (rounded, exact))
    for one, other in zip((rounded.detach(), *found), (exact.detach(), *wanted), strict=True):
        assert one.dtype == torch.float32
        assert one.shape == other.shape
        assert float((one - other).norm()) < 0.01 * float(other.norm())
    assert not torch.equal(rounded, exact)


def test_only_large_layers_in_training_are_rounded(has_bfloat16):
    x, weight, bias = leaves(64, 67)
    exact = F.linear(x, weight, bias)
    with bfloat16_linear_layers("bfloat16", CPU):
        assert F.linear(x, weight, bias).grad_fn.name() == "Bfloat16LinearBackward"
        rounded = F.linear(x, weight, bias)
        with torch.no_grad():  # as teachers compute
            assert torch.equal(F.linear(x, weight, bias), rounded)
        assert not torch.equal(rounded, exact)
        assert F.linear(x.double(), weight.double()).dtype == torch.float64
        small = leaves(61, 67)
        assert small[1].numel() < MIN_WEIGHTS
        assert F.linear(*small).grad_fn.name() != "Bfloat16LinearBackward"
    assert torch.equal(F.linear(x, weight, bias), exact)


@pytest.mark.parametrize(
    ("name", "has_bfloat16"),
    [("float32", True), ("auto", True), ("auto", False), ("bfloat16", False)],
    indirect=["has_bfloat16"],
)
def test_bfloat16_layers_need_setting_and_processor(has_bfloat16, name):
    x, weight, bias = leaves(64, 67)
    exact = F.linear(x, weight, bias)
    with bfloat16_linear_layers(name, CPU), autocast(name, CPU):
        assert torch.equal(F.linear(x, weight, bias), exact)


def test_other_operations_stay_in_float32_on_a_cpu(has_bfloat16):
    x, weight, bias = leaves(64, 67)
    with bfloat16_linear_layers("bfloat16", CPU), autocast("bfloat16", CPU):
        mapped = F.linear(x, weight, bias)
        assert mapped.grad_fn.name() == "Bfloat16LinearBackward"
        assert (mapped @ mapped.mT).dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "has_bfloat16", "expected"),
    [
        ("float32", True, torch.float32),
        ("auto", True, torch.bfloat16),
        ("auto", False, torch.float32),
        ("bfloat16", True, torch.bfloat16),
        ("bfloat16", False, torch.float32),
    ],
    indirect=["has_bfloat16"],
)
def test_number_format_of_the_output_layer(has_bfloat16, name, expected):
    assert output_matmul_dtype(name, CPU) == expected


@pytest.mark.parametrize("count", [1, ROW_MULTIPLE - 1, ROW_MULTIPLE, ROW_MULTIPLE + 1])
def test_rows_are_padded_with_zeros(count):
    """Few numbers of rows need few kernels."""
    rows = torch.full((count, 7), 1.5)
    filled = pad_rows(rows, torch.bfloat16)
    assert filled.shape == (ROW_MULTIPLE if count <= ROW_MULTIPLE else 2 * ROW_MULTIPLE, 7)
    assert filled.dtype == torch.bfloat16
    assert torch.equal(filled[:count].float(), rows)
    assert not filled[count:].any()
