"""SSRU compared with its equations, and the operations of its state."""

import pytest
import torch
from torch import Tensor

from dragoman.nn.kv_cache import LayerState
from dragoman.nn.recurrent.ssru import SSRU, SSRUState, scan_cells


def one_by_one(inputs: Tensor, forget: Tensor, initial: Tensor) -> Tensor:
    """Cells by the equation, with the gradients of PyTorch's operations."""
    cells, cell = [], initial
    for position in range(inputs.shape[1]):
        gate = forget[:, position]
        cell = gate * cell + (1 - gate) * inputs[:, position]
        cells.append(cell)
    return torch.stack(cells, dim=1)


def random_inputs(*, rows: int = 3, positions: int = 7, size: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs, gates = torch.randn(2, rows, positions, size, generator=generator, dtype=torch.double)
    return inputs, gates.mul(3).sigmoid(), torch.randn(rows, size, generator=generator, dtype=torch.double)


@pytest.mark.parametrize("positions", [1, 2, 7, 31])
def test_cells_and_gradients_equal_the_equation(positions):
    given = [one.requires_grad_() for one in random_inputs(positions=positions)]
    fast, slow = scan_cells(*given), one_by_one(*given)
    torch.testing.assert_close(fast, slow)
    weights = torch.randn(fast.shape, generator=torch.Generator().manual_seed(2), dtype=torch.double)
    gradients = [torch.autograd.grad((one * weights).sum(), given) for one in (fast, slow)]
    torch.testing.assert_close(*gradients)
    assert torch.autograd.gradcheck(scan_cells, [one[:1, :4, :2] if one.ndim == 3 else one[:1, :2] for one in given])


def test_inputs_may_be_views():
    inputs, forget, initial = random_inputs(rows=3, positions=7)
    views = [one.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_() for one in (inputs, forget)]
    fast, slow = (compute(*views, initial) for compute in (scan_cells, one_by_one))
    torch.testing.assert_close(fast, slow)
    gradients = [torch.autograd.grad(one.square().sum(), views) for one in (fast, slow)]
    torch.testing.assert_close(*gradients)


def test_cells_stay_between_their_inputs_for_any_gates():
    inputs, _, initial = (one.float() for one in random_inputs(positions=1009))
    for gates in (torch.zeros(()), torch.ones(()), torch.full((), 1e-30), torch.full((), 1 - 2**-24)):
        forget = gates.expand_as(inputs).clone().requires_grad_()
        cells = scan_cells(inputs, forget, initial)
        (gradient,) = torch.autograd.grad(cells.sum(), forget)
        assert gradient.isfinite().all()
        both = torch.cat([inputs, initial[:, None]], dim=1)
        assert (cells <= both.amax(dim=1, keepdim=True) + 1e-4).all()
        assert (cells >= both.amin(dim=1, keepdim=True) - 1e-4).all()


@pytest.fixture
def ssru() -> SSRU:
    torch.manual_seed(3)
    return SSRU(size=5)


def test_layer_equals_the_equations(ssru):
    x = random_inputs()[0].float()
    hidden, state = ssru(x)
    forget = torch.sigmoid(x @ ssru.forget_gate.weight.T + ssru.forget_gate.bias)
    cells = one_by_one(x @ ssru.input.weight.T, forget, torch.zeros(3, 5))
    torch.testing.assert_close(hidden, cells.relu())
    torch.testing.assert_close(state.cell, cells[:, -1])


def test_sequence_in_parts_equals_the_whole_bit_for_bit(ssru):
    x = random_inputs()[0].float()
    whole, last = ssru(x)
    state, parts = ssru.start(3), []
    for part in x.split([1, 4, 1, 1], dim=1):
        hidden, state = ssru(part, state)
        parts.append(hidden)
    # Products of one row may round otherwise than products of many, but the scan adds no difference of its own.
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    forget, inputs = ssru.gates(x), ssru.input(x)
    cell = torch.zeros(3, 5)
    for position in range(7):
        cell = scan_cells(inputs[:, [position]], forget[:, [position]], cell)[:, 0]
    assert torch.equal(cell, last.cell)


def test_half_precision_keeps_the_cell_in_float32(ssru):
    x = random_inputs()[0].float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden, state = ssru(x)
    assert state.cell.dtype == torch.float32
    torch.testing.assert_close(hidden, ssru(x)[0], atol=0.03, rtol=0.03)


def test_state_selects_and_concatenates_rows():
    state = SSRUState(torch.arange(3.0)[:, None])
    assert isinstance(state, LayerState)
    assert state.select(torch.tensor([2, 0, 2])).cell.tolist() == [[2], [0], [2]]
    assert state.concat(state.select(torch.tensor([1]))).cell.tolist() == [[0], [1], [2], [1]]
    assert state.pad(before=3).cell is state.cell
    assert state.length == 0
