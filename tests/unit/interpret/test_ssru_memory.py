"""Memory of an SSRU: the weights, summed over the inputs they weigh, are the cells."""

import numpy as np
import pytest
import torch

from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.interpret import record
from dragoman.interpret.attention_recorder import record_pairs
from dragoman.interpret.explain_text import explain_translation
from dragoman.interpret.report.html_page import render_explanations
from dragoman.interpret.report.serialization import ExplainedSystem, explanations_to_dict
from dragoman.interpret.ssru_memory import memory_weights
from dragoman.models.config import EncoderDecoderConfig
from dragoman.nn.recurrent.ssru import SSRU
from tests.browser import browser, chromium
from tests.fake_models import rectangle
from tests.random_models import NO_DROPOUT, random_transformer

SIZES = {"num_heads": 2, "d_model": 10, "d_ff": 7, "dropout": NO_DROPOUT, "encoder_layers": 1, "decoder_layers": 3}
SOURCES, TARGETS = [[5, 6, 7, 8, 9], [7], [11, 4]], [[4, 5], [6, 7, 8, 9], []]


@pytest.fixture(scope="module")
def model():
    config = EncoderDecoderConfig(**SIZES, decoder_layer="ssru")
    return random_transformer(config, source_vocabulary=13, target_vocabulary=13)


@torch.no_grad()
def test_weighted_inputs_are_the_cells():
    """With one feature per group, in the order of the mean gates of each row."""
    torch.manual_seed(1)
    ssru = SSRU(size=5)
    ssru.forget_gate.bias.copy_(torch.tensor([0.5, -2.0, 3.0, 0.0, -1.0]))
    x = torch.randn(3, 7, 5)
    weights = memory_weights(ssru, x)
    for row in range(3):
        order = sorted(range(5), key=lambda feature: float(ssru.gates(x)[row, :, feature].mean()))
        cells = torch.einsum("gts,sg->tg", weights[row], ssru.input(x)[row, :, order])
        torch.testing.assert_close(cells.relu(), ssru(x)[0][row, :, order])
    assert (weights >= 0).all()
    assert (weights.sum(dim=-1) <= 1 + 1e-6).all()
    assert (weights.triu(1) == 0).all()


@torch.no_grad()
def test_groups_are_means_of_features():
    torch.manual_seed(1)
    ssru, x = SSRU(size=19), torch.randn(1, 4, 19)
    weights = memory_weights(ssru, x)
    assert weights.shape == (1, 8, 4, 4)
    gates = ssru.gates(x)[0]
    first = gates.mean(dim=0).argsort()[:3]  # 19 features are three groups of 3 and five of 2
    forget = gates[:, first]
    torch.testing.assert_close(weights[0, 0, 3, 2], ((1 - forget[2]) * forget[3]).mean())


@torch.no_grad()
def test_recording_changes_nothing(model):
    source, lengths = rectangle([[*ids, 3] for ids in SOURCES])
    target, _ = rectangle([[2, *ids] for ids in TARGETS])
    alone = model(source, lengths, target)
    with record(model) as trace:
        assert torch.equal(model(source, lengths, target), alone)
        memory = model.encode(source, lengths)
        model.step(target[:, :1], memory, model.start(memory, beam_size=1))
    assert trace.kinds == ("encoder", "ssru", "cross")
    assert trace.weights("ssru").shape == (3, 3, 8, 5, 5)  # layers, rows, groups, positions: the step has no memory
    assert not any(module._forward_hooks for module in model.modules())


def test_batches_are_recorded_without_memory(model):
    assert {tuple(one.weights) for one in record_pairs(model, SOURCES, TARGETS)} == {("encoder", "cross")}


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="Chromium is not installed")
def test_report_shows_memory_and_decay(tmp_path):
    text = "two small dogs play ."
    tokenizer = Tokenizer.train(lambda: [(text, text)], BpeConfig(vocab_size=60, byte_fallback=False))
    vocabulary = len(tokenizer.target)
    config = EncoderDecoderConfig(**SIZES, decoder_layer="ssru")
    model = random_transformer(config, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    ids = tokenizer.source.encode(text)
    one = explain_translation(model, tokenizer, ids, ids)
    tree = explanations_to_dict([ExplainedSystem("model", [], [one], tokenizer.target)], title="memory", compact=True)
    (tmp_path / "page.html").write_text(render_explanations(tree), encoding="utf-8")
    weights = one.forward_pass.weights["ssru"].numpy()
    with browser(chromium()) as page:
        page.open(tmp_path / "page.html")
        assert page.value('document.getElementById("decay").hidden') is True
        page.value('dragoman.change({ kind: "ssru", layer: 2, head: 5 })')
        assert page.value('document.getElementById("decay").hidden') is False
        curves = page.value("dragoman.decayCurves(dragoman.sentence().weights.ssru, 2)")
        expected = [[np.diagonal(group, -age).mean() for age in range(len(group))] for group in weights[2]]
        np.testing.assert_allclose(curves, expected, atol=1e-4)
        assert page.text("#attention-readout").startswith("Point at the map: rows still hold columns.")
        assert page.errors == []
