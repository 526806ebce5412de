"""Random students in the network of Firefox's models, small, with a vocabulary that was trained here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.data.tokenizers import Tokenizer, UnigramConfig
from dragoman.interop.imported_model import ExportedModel, build_network
from dragoman.interop.marian.binary_format import SETTINGS, MarianTensors
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.weight_storage import get_weights

PAIRS = [("two dogs play .", "zwei Hunde spielen ."), ("a cat sits by the sea", "eine Katze sitzt am Meer")] * 3
STUDENT: dict[str, Any] = {
    "d_model": 16,
    "num_heads": 2,
    "d_ff": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "decoder_layer": "ssru",
    "norm_position": "post",
    "norm_epsilon": 1e-6,
    "positions": {"kind": "sinusoidal", "order": "halves", "inclusive": True},
    "start_embedding": "zero",
}


def student(
    changed: dict[str, Any] | None = None,
    *,
    pairs: Sequence[tuple[str, str]] = PAIRS,
    vocab_size: int = 300,
    **options: Any,
) -> ExportedModel:
    """Return a random student with a small vocabulary."""
    network = EncoderDecoderConfig.model_validate({**STUDENT, **(changed or {})})
    shared = network.tie_embeddings == "all"
    tokenizer = Tokenizer.train(lambda: pairs, UnigramConfig(vocab_size=vocab_size, shared=shared))
    torch.manual_seed(0)
    sizes = len(tokenizer.source), len(tokenizer.target)
    module = build_network(network, source_vocabulary=sizes[0], target_vocabulary=sizes[1])
    weights = {name: tensor.numpy().copy() for name, tensor in get_weights(module).items()}
    return ExportedModel(
        name="student",
        task="translation",
        network=network,
        weights=weights,
        tokenizer=tokenizer,
        max_length=99,
        texts=lambda: pairs,
        **options,
    )


def write_npz(path: Path, tensors: MarianTensors) -> None:
    """Write a model as Marian does: float32 arrays, and the settings, which end with a zero."""
    arrays = {name: np.asarray(tensor) for name, tensor in tensors.items()}
    np.savez(path, **{**arrays, SETTINGS: np.append(arrays[SETTINGS], np.int8(0))})
