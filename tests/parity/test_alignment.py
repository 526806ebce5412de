"""Attention that is read as an alignment: the backends agree with each other and with the recorder of attention."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.inference.backends.cpu_backend import CpuBackend, CpuEnsemble
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.interpret.attention_recorder import record_pairs
from dragoman.models.alignment_head import AlignmentHead
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from dragoman.models.ensemble import Ensemble
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.recurrent.factory import build_recurrent_model
from tests import cpu_models as made
from tests.property_settings import examples

PAIRS = st.lists(
    st.tuples(
        st.lists(st.integers(4, made.SOURCE_VOCABULARY - 1), min_size=1, max_size=13),
        st.lists(st.integers(4, made.SOURCE_VOCABULARY - 1), max_size=11),
    ),
    min_size=1,
    max_size=5,
)


@dataclass(frozen=True)
class Case:
    config: EncoderDecoderConfig
    head: AlignmentHead
    sources: list[list[int]]
    targets: list[list[int]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    config = draw(made.seq2seq_configs())
    kept = config.attention.cross.kept_heads
    layer = draw(st.integers(0, config.decoder_layers - 1))
    heads = config.num_heads if kept is None else len(kept[layer])
    head = AlignmentHead(layer, draw(st.sampled_from([None, *range(heads)])), shifted=draw(st.booleans()))
    sources, targets = zip(*draw(PAIRS), strict=True)
    return Case(config, head, list(sources), list(targets))


def cpu_backend(config: EncoderDecoderConfig | DecoderOnlyConfig, network: made.Network) -> CpuBackend:
    return CpuBackend(
        config.model_dump(),
        made.arrays(network),
        compute_type="float32",
        source_vocabulary=made.source_vocabulary(config),
        target_vocabulary=made.VOCABULARY,
    )


@examples(30)
@given(cases())
def test_backends_align_as_the_recorder_reads(case: Case) -> None:
    network = made.random_model(case.config)
    fast = cpu_backend(case.config, network).align(case.sources, case.targets, head=case.head)
    slow = TorchBackend(network).align(case.sources, case.targets, head=case.head)
    alone = cpu_backend(case.config, network).align(case.sources[-1:], case.targets[-1:], head=case.head)
    recorded = record_pairs(network, case.sources, case.targets)
    np.testing.assert_array_equal(fast[-1], alone[0])
    for one, other, forward_pass, source, target in zip(fast, slow, recorded, case.sources, case.targets, strict=True):
        assert one.shape == other.shape == (len(target) + 1, len(source) + 1)
        expected = case.head.read(forward_pass.weights["cross"][case.head.layer].numpy())
        np.testing.assert_allclose(other, expected, atol=1e-5)
        np.testing.assert_allclose(one, expected, atol=2e-3)
        np.testing.assert_allclose(one.sum(axis=1), 1, atol=1e-4)


def test_an_ensemble_aligns_by_its_first_member() -> None:
    config = EncoderDecoderConfig(d_model=32, num_heads=2, encoder_layers=1, decoder_layers=3, d_ff=16)
    networks = [made.random_model(config, seed) for seed in (1, 2)]
    first, second = (cpu_backend(config, network) for network in networks)
    pair = [[5, 9, 7]], [[6, 8]]
    [expected] = first.align(*pair)
    np.testing.assert_array_equal(CpuEnsemble([first, second]).align(*pair)[0], expected)
    np.testing.assert_allclose(TorchBackend(Ensemble(networks)).align(*pair)[0], expected, atol=1e-3)


def test_default_heads() -> None:
    assert AlignmentHead.default(6, ssru=False) == AlignmentHead(4, None, shifted=False)
    assert AlignmentHead.default(1, ssru=False) == AlignmentHead(0, None, shifted=False)
    assert AlignmentHead.default(2, ssru=True) == AlignmentHead(1, 0, shifted=False)


def test_a_recurrent_model_aligns_by_its_attention() -> None:
    model = build_recurrent_model(RecurrentConfig(), source_vocabulary=29, target_vocabulary=29)
    [weights] = TorchBackend(model.eval()).align([[5, 9, 7]], [[6, 8]])
    assert weights.shape == (3, 4)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-4)


def test_models_without_cross_attention_are_refused() -> None:
    config = DecoderOnlyConfig(d_model=32, num_heads=2, num_layers=2, d_ff=16)
    network = made.random_model(config)
    for backend in (cpu_backend(config, network), TorchBackend(network, decoder_only=True)):
        with pytest.raises(DataError, match="no cross-attention that aligns words"):
            backend.align([[5, 9]], [[7]])
