"""Models of fairseq, compared with an implementation of their equations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dragoman
from dragoman.interop.fairseq.partner import read
from dragoman.interop.imported_model import ImportedModel, ImportOptions
from dragoman.interop.self_check import forward, loaded_network
from dragoman.models.special_symbols import BOS, EOS
from tests import fairseq_models
from tests.fairseq_models import settings, write_folder

pytestmark = pytest.mark.filterwarnings("ignore:.*cut off at")
VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm, learned positions": {"normalize_before": True, "learned_pos": True},
    "all embeddings shared": {"share_all_embeddings": True, "share_decoder_input_output_embed": True},
    "output shared, gelu": {"share_decoder_input_output_embed": True, "activation_fn": "gelu"},
    "no positions": {"no_token_positional_embeddings": True, "activation_fn": "gelu_fast"},
    "norm of embeddings": {"layernorm_embedding": True, "no_scale_embedding": True, "activation_fn": "swish"},
}
SOURCE, TARGET = [4, 9, 5, 6, 11], [7, 4, 12, 5]
"""Foreign ids."""


def ours(model: ImportedModel, side: str, foreign: list[int]) -> list[int]:
    return model.origin.orders[side].our_ids[foreign].tolist()


def compare(model: ImportedModel, state: dict[str, torch.Tensor], tree: dict[str, Any]) -> None:
    """Compare the probabilities of foreign tokens."""
    expected = fairseq_models.logits(state, tree, [*SOURCE, fairseq_models.EOS], [fairseq_models.EOS, *TARGET])
    found = forward(
        loaded_network(model),
        model.network,
        [*ours(model, "source", SOURCE), EOS],
        [BOS, *ours(model, "target", TARGET)],
    )
    probabilities = torch.from_numpy(found).softmax(dim=1)[:, model.origin.orders["target"].our_ids]
    np.testing.assert_allclose(probabilities.log(), expected.log_softmax(dim=1), atol=1e-4)


@pytest.mark.parametrize("old", [False, True], ids=["names of 0.10", "names of 0.6"])
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_logits_equal_the_equations(variant: dict[str, Any], old: bool, tmp_path: Path) -> None:
    tree = settings(**variant)
    state = write_folder(tmp_path, tree, old=old, config_groups=not old)
    model = read(tmp_path, ImportOptions())
    assert set(model.tensors.left_over) <= {
        f"{side}.{name}" for side in ("encoder", "decoder") for name in ("version", "embed_positions._float_tensor")
    }
    compare(model, state, tree)


def test_imported_model_translates_as_the_equations(tmp_path: Path) -> None:
    tree = settings(share_decoder_input_output_embed=True)
    state = write_folder(tmp_path / "model", tree)
    result = dragoman.import_model(tmp_path / "model", tmp_path / "run")
    assert result.format == "fairseq"
    translator = dragoman.load(tmp_path / "run", dragoman.Translator, device="cpu")
    for words in ("two dogs play .", "a man sleeps .", "cats play"):
        source = [4 + fairseq_models.SOURCE_WORDS.index(word) for word in words.split()] + [fairseq_models.EOS]
        expected = fairseq_models.greedy(state, tree, source, limit=9)
        found = translator.translate(words, beam_size=1, max_length=9)
        tokens = translator.tokenizer.target.ids_to_tokens(found[0].hypothesis.tokens)
        symbols = ("<s>", "<pad>", "</s>", "<unk>", *fairseq_models.TARGET_WORDS, "madeupword0000")
        assert [token.removeprefix("▁") for token in tokens] == [symbols[index] for index in expected]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_weights_of_half_precision_are_exact(name: str, tmp_path: Path) -> None:
    tree = settings()
    state = write_folder(tmp_path, tree)
    dtype = getattr(torch, name)
    content = torch.load(tmp_path / "checkpoint_best.pt", weights_only=False)
    content["model"] = {key: tensor.to(dtype) for key, tensor in state.items()}
    torch.save(content, tmp_path / "checkpoint_best.pt")
    model = read(tmp_path, ImportOptions())
    expected = state["encoder.layers.1.fc1.weight"].to(dtype).float().numpy()
    assert np.array_equal(model.weights["encoder.1.feed_forward.inner.weight"], expected)
    assert set(model.origin.number_formats.values()) == {name}
