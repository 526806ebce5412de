"""Write graphs of ONNX of small random models, in a process of its own: the tracer cannot follow the shape checks of
tests.

python -m tests.onnx_models FOLDER NAME...
"""

import sys
from pathlib import Path
from typing import Any

from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from tests.random_models import NO_DROPOUT, random_causal, random_transformer

SIZES = {"d_model": 24, "num_heads": 4, "d_ff": 29, "dropout": NO_DROPOUT}
VOCABULARY = 31
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "learned": {
        "positions": {"kind": "learned", "max_length": 53, "offset": 2},
        "norm_position": "post",
        "activation": "gelu",
    },
    "rotary": {"positions": {"kind": "rotary"}, "num_kv_heads": 2, "norm": "rms", "gated": True, "activation": "silu"},
    "scaled rotary": {"positions": {"kind": "rotary", "scaling": {"kind": "linear", "factor": 2.0}}, "head_size": 8},
    "alibi": {"positions": {"kind": "alibi"}},
    "shaw": {"positions": {"kind": "shaw", "max_distance": 3}},
    "t5_bias": {"positions": {"kind": "t5_bias", "num_buckets": 8, "max_distance": 7}, "bias": False},
}
"""Settings of a model."""
OF_ENCODER_DECODERS: dict[str, dict[str, Any]] = {
    "ssru": {"decoder_layer": "ssru", "source_eos": False, "start_embedding": "zero"},
    "scores": {
        "attention": {"encoder": {"score": "additive"}, "decoder": {"score": "multiplicative"}},
        "positions": {"kind": "sinusoidal", "order": "halves", "inclusive": True},
        "norm_embedding": True,
    },
    "linformer": {
        "attention": {"encoder": {"pattern": {"kind": "linformer", "projected_length": 3, "max_length": 53}}}
    },
}


def encoder_decoder(name: str) -> EncoderDecoderTransformer:
    settings = {**SIZES, "encoder_layers": 1, "decoder_layers": 2, **(VARIANTS | OF_ENCODER_DECODERS)[name]}
    config = EncoderDecoderConfig.model_validate(settings)
    return random_transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)


def decoder_only(name: str) -> DecoderOnlyTransformer:
    config = DecoderOnlyConfig.model_validate({**SIZES, "num_layers": 2, **VARIANTS[name]})
    return random_causal(config, vocabulary=VOCABULARY)


def main() -> None:
    from dragoman.interop.onnx.partner import write_graphs

    folder, *names = sys.argv[1:]
    for name in names:
        kind, _, variant = name.partition(" ")
        path = Path(folder, name)
        path.mkdir()
        write_graphs(encoder_decoder(variant) if kind == "encoder_decoder" else decoder_only(variant), path)


if __name__ == "__main__":
    main()
