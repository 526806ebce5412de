"""Recorder: exceptions, gradients, half precision, several passes and empty traces."""

import doctest

import numpy as np
import pytest
import torch

import dragoman.interpret.attention_recorder
from dragoman.decoding import DecodingConfig, search
from dragoman.errors import DataError
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.interpret import record
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, NoPositionsConfig
from dragoman.models.task_heads import DecoderOnlyBackbone
from tests.fake_models import rectangle
from tests.random_models import NO_DROPOUT, random_causal, random_encoder, random_transformer
from tests.tensor_search import device_memory

SIZES = {"num_heads": 2, "d_model": 10, "d_ff": 7, "dropout": NO_DROPOUT}
SOURCE, LENGTHS = rectangle([[5, 6, 7, 8, 9], [7, 7, 5]])


def encoder():
    return random_encoder(EncoderOnlyConfig(**SIZES, num_layers=3), vocabulary=13)


def translator():
    config = EncoderDecoderConfig(**SIZES, encoder_layers=1, decoder_layers=2)
    return random_transformer(config, source_vocabulary=13, target_vocabulary=13)


def hooks(model):
    return [kept for module in model.modules() for name, kept in vars(module).items() if "hooks" in name and kept]


def test_docstring_examples():
    assert doctest.testmod(dragoman.interpret.attention_recorder).attempted > 0
    assert doctest.testmod(dragoman.interpret.attention_recorder).failed == 0


def test_exception_in_the_block_removes_the_hooks():
    model = encoder()
    traces = []

    def fail():
        with record(model) as trace:
            traces.append(trace)
            model(SOURCE, LENGTHS)
            assert hooks(model) != []
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    (trace,) = traces
    assert hooks(model) == []
    assert len(trace.calls) == 3
    model(SOURCE, LENGTHS)
    assert len(trace.calls) == 3


def test_exception_in_the_model_removes_the_hooks():
    model = encoder()
    with pytest.raises(IndexError), record(model):
        model(torch.tensor([[99]]), torch.tensor([1]))
    assert hooks(model) == []


def test_recordings_can_be_nested():
    model = encoder()
    with record(model) as outer:
        with record(model) as inner:
            model(SOURCE, LENGTHS)
        model(SOURCE, LENGTHS)
    assert (len(outer.calls), len(inner.calls)) == (6, 3)
    outer.clear()
    assert outer.kinds == ()
    assert torch.equal(inner.layer_calls("encoder", 1)[0].weights, inner.weights("encoder")[1])


def test_recording_keeps_gradients_and_random_numbers():
    model = translator().train()

    def gradients(recorded):
        torch.manual_seed(0)
        model.zero_grad()
        if recorded:
            with record(model):
                model(SOURCE, LENGTHS, SOURCE).square().sum().backward()
        else:
            model(SOURCE, LENGTHS, SOURCE).square().sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    assert all(torch.equal(one, other) for one, other in zip(gradients(True), gradients(False), strict=True))


def test_weights_recorded_in_inference_mode_allow_gradients():
    model = encoder()
    with torch.inference_mode(), record(model) as trace:
        model(SOURCE, LENGTHS)
    weights = trace.weights("encoder").requires_grad_()
    (weights * 2).sum().backward()
    assert (weights.grad == 2).all()


def test_half_precision_is_recorded_in_float32():
    config = EncoderOnlyConfig(**SIZES, num_layers=1, positions=NoPositionsConfig())
    model = random_encoder(config, vocabulary=13).bfloat16()
    with torch.no_grad(), record(model) as trace:
        model(SOURCE, LENGTHS)
    assert trace.weights("encoder").dtype == torch.float32


@torch.no_grad()
def test_beam_search_is_recorded_step_by_step():
    model = translator()
    memory = device_memory(model.encode(SOURCE, LENGTHS))
    limits = np.array([7, 7])

    def found():
        return search(TorchBackend(model), memory, limits=limits, config=DecodingConfig(beam_size=3))

    with record(model) as trace:
        recorded = found()
    assert recorded == found()
    first = trace.layer_calls("cross", 1)[0]
    assert first.weights.shape == (2, 2, 3, 5)  # sentences, heads, hypotheses, source
    assert trace.layer_calls("masked", 0)[0].weights.shape == (6, 2, 1, 1)  # hypotheses, heads, one query, one key


@torch.no_grad()
def test_backbone_of_a_task_head_is_recorded():
    model = random_causal(DecoderOnlyConfig(**SIZES, num_layers=2), vocabulary=13)
    with record(DecoderOnlyBackbone(model)) as trace:
        model(SOURCE)
    assert trace.kinds == ("masked",)
    assert (trace.weights("masked").triu(1) == 0).all()
    with pytest.raises(DataError, match=r"no cross attention was recorded. The model has masked attention"):
        trace.weights("cross")


def test_empty_trace_is_refused():
    with record(encoder()) as trace:
        pass
    with pytest.raises(DataError, match=r"no attention was recorded. Call"):
        trace.weights("cross")


@torch.no_grad()
def test_several_passes_are_not_joined():
    model = encoder()
    with record(model) as trace:
        model(SOURCE, LENGTHS)
        model(SOURCE[:1], LENGTHS[:1])
    with pytest.raises(DataError, match="several passes"):
        trace.weights("encoder")
