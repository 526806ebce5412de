"""The training operations of the CPU library equal PyTorch's operations, gradients included."""

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.cpu_library import INSTRUCTION_SET
from dragoman.models.config import DropoutConfig, EncoderDecoderConfig, RotaryConfig
from dragoman.nn import cpu_training_ops as cpu_ops
from dragoman.nn.attention_functions import MAX_CPU_OPS_LENGTH, fused_attention
from dragoman.nn.cpu_training_ops import cpu_ops_for, without_cpu_ops
from dragoman.nn.dropout import dropout
from dragoman.nn.positions.rotary import apply_rotary
from dragoman.training.chunked_loss import SoftTargets, fused_linear_cross_entropy
from dragoman.training.distillation import distillation_loss
from dragoman.training.losses import cross_entropy_loss
from dragoman.training.precision import Bfloat16Linear, Precision, pad_rows
from dragoman.training.step import compute_gradients, seeded_rng
from tests.property_settings import examples
from tests.random_models import random_transformer
from tests.tiny_training import batch_of

pytest.importorskip(
    "dragoman_cpu", reason="the CPU library is not installed; `make test` builds it where a C++17 compiler is"
)
sizes = st.sampled_from([1, 2, 3, 5, 7, 13, 17, 31, 37])
seeds = st.integers(0, 2**32)
PAIRS = [([5, 7, 4], [11, 5, 7]), ([4], [4]), ([9, 9, 8, 6, 5], [12]), ([], [5, 6, 7, 8, 9])]
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert cpu_ops_for(torch.zeros(1)) is not None
    yield
    torch.set_num_threads(before)


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def by_both(compute: Callable[..., Tensor], *given: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Return values and gradients by the CPU library and by PyTorch, for a random output gradient."""

    def found() -> Sequence[Tensor]:
        leaves = [one.clone().requires_grad_() for one in given]
        with seeded_rng(3, device=CPU):
            value = compute(*leaves)
        towards = drawn(5, *value.shape)
        return [value.detach(), *torch.autograd.grad((value * towards).sum(), leaves)]

    by_core = found()
    with without_cpu_ops():
        return zip(by_core, found(), strict=True)


@examples(50)
@given(rows=sizes, places=sizes, width=sizes, share=st.floats(0.01, 0.99), turned=st.booleans(), seed=seeds)
def test_dropout_drops_the_same_elements(
    rows: int, places: int, width: int, share: float, turned: bool, seed: int
) -> None:
    x = drawn(seed, rows, width, places).transpose(1, 2) if turned else drawn(seed, rows, places, width)
    for one, other in by_both(lambda x: dropout(x, share), x):
        assert torch.equal(one, other)


@examples(50)
@given(rows=sizes, heads=st.integers(1, 3), places=sizes, half=sizes, alike=st.booleans(), seed=seeds)
def test_rotary_positions_equal_pytorch(rows: int, heads: int, places: int, half: int, alike: bool, seed: int) -> None:
    where = torch.arange(places) + (0 if alike else torch.arange(rows)[:, None])
    x = drawn(seed, rows, heads, places, 2 * half)
    for one, other in by_both(lambda x: apply_rotary(x, where.expand(1 if alike else rows, -1), base=100.0), x):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@examples(50)
@given(rows=sizes, queries=sizes, keys=sizes, size=sizes, mask=st.sampled_from(["none", "keys", "all"]), seed=seeds)
def test_attention_equals_pytorch(rows: int, queries: int, keys: int, size: int, mask: str, seed: int) -> None:
    shape = (rows, 1, 1, keys) if mask == "keys" else (rows, 2, queries, keys)
    allowed = None if mask == "none" else drawn(seed, *shape) > 0
    if allowed is not None:
        allowed[..., 0] = True
    query, key, value = (
        drawn(seed + 1, rows, 2, queries, size),
        drawn(seed, rows, 2, keys, size),
        drawn(7, rows, 2, keys, size),
    )
    for one, other in by_both(lambda *some: fused_attention(*some, mask=allowed, scale=0.3), query, key, value):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@examples(50)
@given(rows=sizes, places=sizes, size=sizes, seed=seeds)
def test_causal_attention_equals_pytorch(rows: int, places: int, size: int, seed: int) -> None:
    given = (drawn(seed + number, rows, 2, places, size) for number in range(3))
    for one, other in by_both(lambda *some: fused_attention(*some, causal=True), *given):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("places", "by_core"), [(MAX_CPU_OPS_LENGTH, True), (MAX_CPU_OPS_LENGTH + 1, False)])
def test_pytorch_computes_long_texts(places: int, by_core: bool) -> None:
    few, many = drawn(1, 1, 2, 3, 5).requires_grad_(), drawn(2, 1, 2, places, 5).requires_grad_()
    for query, key in ((few, many), (many, few)):
        attended = fused_attention(query, key, key)
        assert (attended.grad_fn.name() == "CpuAttentionBackward") == by_core


@examples(50)
@given(rows=sizes, inputs=sizes, outputs=sizes, bias=st.booleans(), seed=seeds)
def test_bfloat16_linear_equals_pytorch(rows: int, inputs: int, outputs: int, bias: bool, seed: int) -> None:
    """Both use PyTorch's products; the gradient of the bias is a sum in another order."""
    given = [drawn(seed, 2, rows, inputs), drawn(seed + 1, outputs, inputs), drawn(seed + 2, outputs)]
    found = by_both(lambda *some: Bfloat16Linear.apply(*some, *([] if bias else [None])), *given[: 2 + bias])
    for number, (one, other) in enumerate(found):
        if number == 3:
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
        else:
            assert torch.equal(one, other)


@examples(50)
@given(
    tokens=sizes,
    size=sizes,
    words=sizes,
    smoothing=st.sampled_from([0.0, 0.1]),
    share=st.sampled_from([None, 0.6, 1.0]),
    bias=st.booleans(),
    products=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=seeds,
)
def test_loss_is_close_to_pytorch(
    tokens: int,
    size: int,
    words: int,
    smoothing: float,
    share: float | None,
    bias: bool,
    products: torch.dtype,
    seed: int,
) -> None:
    """Both compute logits in the format of the products; sums over logits are not rounded."""
    expected = torch.randint(words, (tokens,), generator=torch.Generator().manual_seed(seed))
    told = (2 * drawn(seed + 3, tokens, words)).softmax(dim=-1)
    taught = None if share is None else SoftTargets(share, lambda chunk: told[chunk])

    def loss(hidden: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
        found = fused_linear_cross_entropy(
            hidden,
            weight,
            shift if bias else None,
            expected,
            smoothing=smoothing,
            soft_targets=taught,
            matmul_dtype=products,
        )
        return torch.stack([found.value + 0 * shift.sum(), found.negative_log_likelihood])

    given = drawn(seed, tokens, size), drawn(seed + 1, words, size), drawn(seed + 2, words)
    within = 1e-4 if products == torch.float32 else 2e-2
    for one, other in by_both(loss, *given):
        torch.testing.assert_close(one, other, atol=within, rtol=within)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("teachers", [0, 2])
def test_a_training_step_equals_pytorch(precision: Precision, teachers: int) -> None:
    """A whole model with rotary positions and dropout everywhere except on attention weights."""
    config = EncoderDecoderConfig(
        d_model=66,
        num_heads=3,
        encoder_layers=2,
        decoder_layers=2,
        d_ff=71,
        positions=RotaryConfig(),
        dropout=DropoutConfig(embedding=0.2, residual=0.2, feed_forward=0.1, attention=0.0),
        tie_embeddings="all",
    )
    model, *known = (
        random_transformer(config, source_vocabulary=13, target_vocabulary=13, seed=seed).eval()
        for seed in range(1 + teachers)
    )
    model.train()
    objective = cross_entropy_loss(0.1, precision=precision)
    if known:
        objective = distillation_loss(0.1, known, weight=0.6, temperature=1.0, precision=precision)

    def update() -> tuple[tuple[float, ...], dict[str, Tensor]]:
        model.zero_grad(set_to_none=True)
        sums = compute_gradients(model, [batch_of(PAIRS)], objective, seeds=(1, 1), precision=precision)
        return sums, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    sums, gradients = update()
    with without_cpu_ops():
        expected, wanted = update()
    exact = precision == "float32"
    assert sums == pytest.approx(expected, rel=1e-5 if exact else 1e-3)
    for name, gradient in gradients.items():
        apart = float((gradient - wanted[name]).norm())
        assert apart < (1e-4 if exact else 2e-2) * max(1e-2, float(wanted[name].norm())), name


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_results(threads: int) -> None:
    """Tensors are large enough for several threads; the gradient of the bias is a sum over rows."""
    query, key, towards = drawn(1, 17, 4, 37, 32), drawn(2, 17, 4, 37, 32), drawn(3, 17, 4, 37, 32)
    scores, labels = drawn(4, 331, 1009), torch.arange(331)
    operations = cpu_ops_for(torch.zeros(1))
    assert operations is not None

    def results() -> list[Tensor]:
        leaves = [one.clone().requires_grad_() for one in (query, key)]
        attended = fused_attention(leaves[0], leaves[1], leaves[1], scale=0.2)
        logits, gradient = scores.clone(), torch.zeros(1009)
        loss = operations.cross_entropy(logits, labels, 0.9, None, 0.0, gradient)
        return [attended, *torch.autograd.grad(attended, leaves, towards), logits, gradient, torch.tensor(loss)]

    expected = results()
    torch.set_num_threads(threads)
    for found, wanted in zip(results(), expected, strict=True):
        assert torch.equal(found, wanted)


def test_cpu_ops_need_dense_cpu_tensors() -> None:
    x = torch.zeros(3, 5)
    assert cpu_ops_for(x) is not None
    assert cpu_ops_for(x.double()) is None
    assert cpu_ops_for(x.bfloat16()) is None
    assert cpu_ops_for(torch.zeros(3, 5, device="meta")) is None
    assert cpu_ops_for(torch.nn.Parameter(x)) is None
    with without_cpu_ops():
        assert cpu_ops_for(x) is None


def test_unavailable_instruction_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSTRUCTION_SET, "abacus")
    with pytest.raises(cpu_ops.ConfigError, match="abacus is not supported by this processor; choose one of"):
        cpu_ops_for(torch.zeros(1))
    monkeypatch.delenv(INSTRUCTION_SET)
    assert pad_rows(torch.ones(1, 3), torch.bfloat16)[0].tolist() == [1, 1, 1]
