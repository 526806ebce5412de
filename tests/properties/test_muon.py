"""Properties of Muon: Newton-Schulz iteration, update by the papers, and state in checkpoints."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.errors import RunError
from dragoman.models.config import EncoderOnlyConfig, SelfAttentionConfig
from dragoman.models.task_heads import (
    Head,
    ModelWithHead,
    SequenceHead,
    SequenceHeadConfig,
    SpanHeadConfig,
    TokenHeadConfig,
    build_head,
)
from dragoman.models.weight_storage import get_weights
from dragoman.nn.sparse.linformer import LinformerConfig
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import WorkerLostError
from dragoman.training.optimizers import (
    AdamWConfig,
    MuonConfig,
    MuonWithAdamW,
    build_optimizer,
    hidden_matrices,
    optimizer_tensors,
    orthogonalize,
    restore_optimizer,
    set_learning_rate,
)
from tests.property_settings import examples
from tests.random_models import random_encoder
from tests.tiny_training import SMALL, build_network, build_run, train_small

seeds = st.integers(0, 2**32)
sizes = st.sampled_from([1, 2, 3, 7, 13, 31])


def matrix(rows: int, columns: int, seed: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def by_singular_values(matrix: Tensor, steps: int) -> Tensor:
    """Apply the polynomial to each singular value in double precision, without the iteration's matrix products."""
    u, s, v = torch.linalg.svd(matrix.double(), full_matrices=False)
    s = s / (matrix.double().norm() + 1e-7)
    for _ in range(steps):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ torch.diag(s) @ v


@examples(50)
@given(sizes, sizes, seeds, st.integers(0, 7))
def test_iteration_is_a_polynomial_of_singular_values(rows: int, columns: int, seed: int, steps: int) -> None:
    given_ = matrix(rows, columns, seed)
    found = orthogonalize(given_, steps=steps)
    torch.testing.assert_close(found.double(), by_singular_values(given_, steps), atol=1e-3, rtol=1e-3)


@examples(50)
@given(sizes, seeds)
def test_five_iterations_are_nearly_orthogonal(size: int, seed: int) -> None:
    """For a matrix twice as wide as high, whose singular values are not close to 0."""
    wide = matrix(size, 2 * size, seed)
    values = torch.linalg.svdvals(wide)
    found = torch.linalg.svdvals(orthogonalize(wide))
    healthy = values / values.norm() > 0.01
    assert ((found[healthy] > 0.6) & (found[healthy] < 1.25)).all()
    tall = orthogonalize(wide.t())
    torch.testing.assert_close(tall, orthogonalize(wide).t(), atol=1e-5, rtol=1e-5)


def test_zeros_stay_zeros() -> None:
    assert not orthogonalize(torch.zeros(3, 5)).any()


def test_embeddings_use_adamw() -> None:
    for tie in ("all", "target", "none"):
        model = build_network(SMALL.model_copy(update={"tie_embeddings": tie}), seed=1)
        chosen = {id(parameter) for parameter in hidden_matrices(model)}
        names = {name for name, parameter in model.named_parameters() if id(parameter) in chosen}
        assert names == {
            name
            for name, parameter in model.named_parameters()
            if parameter.ndim == 2 and name.startswith(("encoder.", "decoder."))
        }
        assert len(names) == 6 + 10  # query, key, value, output (twice in the decoder), inner, outer


LINFORMER = SelfAttentionConfig(pattern=LinformerConfig(max_length=40, projected_length=8))


@pytest.mark.parametrize(
    "head",
    [
        build_head(SequenceHeadConfig(dense=True), d_model=12, num_labels=3),
        build_head(TokenHeadConfig(), d_model=12, num_labels=3),
        build_head(SpanHeadConfig(), d_model=12, num_labels=3),
    ],
    ids=["a text", "words", "an answer"],
)
def test_task_heads_and_linformer_maps_use_adamw(head: Head) -> None:
    config = EncoderOnlyConfig(d_model=12, num_heads=2, d_ff=19, num_layers=1, attention=LINFORMER, mlm_transform=False)
    model = ModelWithHead(random_encoder(config, vocabulary=17), head)
    chosen = {id(parameter) for parameter in hidden_matrices(model)}
    names = {name for name, parameter in model.named_parameters() if id(parameter) in chosen}
    inner = {"head.dense.weight"} if isinstance(head, SequenceHead) else set()
    assert {name for name in names if not name.startswith("backbone.blocks.")} == inner
    assert len(names) == 6 + len(inner)  # query, key, value, output, inner, outer


RELATIVE, BUCKETED = {"kind": "shaw", "max_distance": 3}, {"kind": "t5_bias", "num_buckets": 8, "max_distance": 7}


@pytest.mark.parametrize(
    ("changed", "exempt", "matrices"),
    [
        ({"positions": RELATIVE}, {"key_embedding", "value_embedding"}, set()),
        ({"positions": BUCKETED}, {"table"}, set()),
        ({"score": {"kind": "additive"}}, {"vector"}, {"query_weight", "key_weight"}),
        ({"score": {"kind": "multiplicative"}}, set(), {"score.weight"}),
    ],
    ids=["vectors of distances", "biases of distances", "additive score", "multiplicative score"],
)
def test_tables_use_adamw_and_head_matrices_use_muon(changed, exempt, matrices) -> None:
    roles = ("encoder", "decoder", "cross")
    attention = {"attention": {role: {"score": changed["score"]} for role in roles}} if "score" in changed else changed
    model = build_network(type(SMALL).model_validate(SMALL.model_dump() | attention), seed=1)
    named = dict(model.named_parameters())

    def ending(with_: set[str]) -> set[int]:
        found = {id(parameter) for name, parameter in named.items() if name.endswith(tuple(with_))} if with_ else set()
        assert bool(found) == bool(with_)
        return found

    orthogonal = {id(parameter) for parameter in hidden_matrices(model)}
    decayed = {id(parameter) for parameter in build_optimizer(AdamWConfig(), model).param_groups[0]["params"]}
    for chosen in (orthogonal, decayed):
        assert not chosen & ending(exempt)
        assert ending(matrices) <= chosen


def test_head_matrices_are_orthogonalized_separately() -> None:
    heads = torch.randn(3, 5, 7)
    found = orthogonalize(heads)
    for head, alone in zip(found, heads, strict=True):
        torch.testing.assert_close(head, orthogonalize(alone), atol=1e-5, rtol=1e-5)
    parameter = torch.nn.Parameter(heads.clone())
    parameter.grad = torch.randn(3, 5, 7)
    build_optimizer(MuonConfig(learning_rate=0.1, weight_decay=0.0), torch.nn.ParameterList([parameter])).step()
    step = orthogonalize(parameter.grad + 0.95 * parameter.grad)
    torch.testing.assert_close(parameter.detach(), heads - 0.1 * 0.2 * math.sqrt(7) * step, atol=1e-5, rtol=1e-5)


@examples(50)
@given(st.lists(st.sampled_from([1.0, 0.1, 0.003]), min_size=1, max_size=5), st.sampled_from([0.0, 0.3]), seeds)
def test_updates_equal_the_papers(rates: list[float], decay: float, seed: int) -> None:
    """Jordan et al. (2024) with Nesterov momentum, scaled as by Liu et al. (2025); AdamW for parameters that are not
    matrices."""
    model = build_network(SMALL, seed=1)
    config = MuonConfig(weight_decay=decay)
    optimizer = build_optimizer(config, model)
    matrices = {id(parameter) for parameter in hidden_matrices(model)}
    generator = torch.Generator().manual_seed(seed)
    wanted = {name: parameter.detach().double() for name, parameter in model.named_parameters()}
    first = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
    second = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
    for step, rate in enumerate(rates, start=1):
        set_learning_rate(optimizer, rate)
        for name, parameter in model.named_parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            g = parameter.grad.double()
            if id(parameter) in matrices:
                first[name] = 0.95 * first[name] + g
                ahead = by_singular_values(g + 0.95 * first[name], 5)
                wanted[name] = (1 - rate * decay) * wanted[name] - rate * 0.2 * math.sqrt(max(g.shape)) * ahead
            else:
                first[name] = 0.9 * first[name] + 0.1 * g
                second[name] = 0.98 * second[name] + 0.02 * g**2
                m, v = first[name] / (1 - 0.9**step), second[name] / (1 - 0.98**step)
                wanted[name] = wanted[name] - rate * m / (v.sqrt() + 1e-9)
        optimizer.step()
    found = {name: parameter.detach().double() for name, parameter in model.named_parameters()}
    torch.testing.assert_close(found, wanted, atol=2e-3, rtol=2e-3)


def test_parameters_without_gradient_stay() -> None:
    model = build_network(SMALL, seed=1)
    before = {name: tensor.clone() for name, tensor in get_weights(model).items()}
    optimizer = build_optimizer(MuonConfig(), model)
    optimizer.step()
    torch.testing.assert_close(get_weights(model), before, atol=0, rtol=0)
    assert optimizer_tensors(optimizer, model) == {}


def test_resumed_training_is_bit_identical(tmp_path: Path) -> None:
    config = TrainingConfig(max_steps=12, validate_every=4, batch_tokens=47, optimizer=MuonConfig(learning_rate=0.01))
    whole = build_run(tmp_path / "whole", config)
    train_small(whole, config)
    broken = build_run(tmp_path / "broken", config)
    with pytest.raises(Exception, match="stopped after step"):
        train_small(broken, config, interrupted=lambda: broken.progress.step == 7)
    again = build_run(tmp_path / "broken", config)
    train_small(again, config)
    torch.testing.assert_close(get_weights(again.model), get_weights(whole.model), atol=0, rtol=0)


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


class BrokenGroup:
    """A group of two workers, one of which has failed."""

    rank, world_size = 0, 2

    def all_reduce(self, numbers: Tensor) -> Tensor:
        raise WorkerLostError("a worker was lost")


def test_an_incomplete_update_is_not_applied() -> None:
    """The main worker then writes the state after the update before."""
    model = build_network(SMALL, seed=1)
    generator = torch.Generator().manual_seed(3)

    def learn(optimizer: MuonWithAdamW) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
        return copied(get_weights(model)), copied(optimizer_tensors(optimizer, model))

    optimizer = build_optimizer(MuonConfig(), model)
    assert isinstance(optimizer, MuonWithAdamW)
    before, memory = learn(optimizer)
    optimizer.workers = BrokenGroup()  # type: ignore[assignment]
    with pytest.raises(WorkerLostError):
        learn(optimizer)
    torch.testing.assert_close(get_weights(model), before, atol=0, rtol=0)
    torch.testing.assert_close(optimizer_tensors(optimizer, model), memory, atol=0, rtol=0)


def test_mismatched_optimizer_state_raises_one_message() -> None:
    model = build_network(SMALL, seed=1)
    written = build_optimizer(MuonConfig(), model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    written.step()
    memory = optimizer_tensors(written, model)
    restore_optimizer(build_optimizer(MuonConfig(), model), model, memory)
    otherwise = {key.replace("/momentum", "/exp_avg"): value for key, value in memory.items()}
    with pytest.raises(RunError, match="use the settings and the version that it was trained with"):
        restore_optimizer(build_optimizer(MuonConfig(), model), model, otherwise)
