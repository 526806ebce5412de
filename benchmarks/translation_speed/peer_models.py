"""Models with the same weights for dragoman, CTranslate2 and Hugging Face.

For pre-norm Transformers with sinusoidal positions and tied embeddings, such as `tiny`, `small` and `base`. The
random `base` model has a bias that forbids padding, BOS and EOS, so that every program writes the requested number of
tokens. Some weights of its decoder are magnified: otherwise the tied embeddings would repeat the last token for ever,
whatever the source.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.translation_speed.cpu_library_steps import TINY, Sizes, build_config, random_weights
from dragoman.data.tokenizers import Tokenizer, WordConfig
from dragoman.models.weight_quantization import Arrays, load_arrays, save_arrays
from dragoman.runs.config import parse_experiment
from dragoman.runs.export import export
from dragoman.runs.folder import RunFolder
from tests.pegasus import MAX_POSITIONS, Weights, require_peer_model

MAGNIFICATION = 4
MAGNIFIED = ("query.weight", "output.weight", "outer.weight")
FORBIDDING_BIAS = -1e4
TOKENIZER = WordConfig(min_frequency=1)
PEER_COMPUTE_TYPES = ("float32", "int8")
"""Compute types of CTranslate2 on these CPUs, without bfloat16."""


def write_ctranslate2(
    model: Mapping[str, Any], weights: Weights, words: Sequence[str], out: Path, **options: Any
) -> None:
    """Write a model folder for `ctranslate2.Translator`.

    `model` is the model configuration of a run and `words` its vocabulary; `options` go to `Converter.convert`.
    """
    import ctranslate2

    require_peer_model(model)

    class Converter(ctranslate2.converters.Converter):
        def _load(self) -> Any:
            layers = (model["encoder_layers"], model["decoder_layers"])
            spec = ctranslate2.specs.TransformerSpec.from_config(layers, model["heads"], pre_norm=True)
            fill(spec, weights)
            spec.register_source_vocabulary(list(words))
            spec.register_target_vocabulary(list(words))
            spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = words[1:4]
            spec.config.decoder_start_token, spec.config.add_source_eos = words[2], False
            return spec

    Converter().convert(str(out), **options)


def fill(spec: Any, weights: Weights) -> None:
    """Fill CTranslate2's specification with the weights."""
    embedding = weights["source_embedding.tokens.weight"]
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = embedding
    spec.decoder.projection.bias = weights["unembedding.bias"]
    for name, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        stack.position_encodings.encodings = sinusoids(embedding.shape[1])
        fill_norm(stack.layer_norm, f"{name}_norm", weights)
        for number, layer in enumerate(stack.layer):
            block = f"{name}.{number}"
            fill_norm(layer.self_attention.layer_norm, f"{block}.attention_residual.norm", weights)
            fill_linears(layer.self_attention.linear, f"{block}.attention", ["query+key+value", "output"], weights)
            if name == "decoder":
                fill_norm(layer.attention.layer_norm, f"{block}.cross_attention_residual.norm", weights)
                parts = ["query", "key+value", "output"]
                fill_linears(layer.attention.linear, f"{block}.cross_attention", parts, weights)
            fill_norm(layer.ffn.layer_norm, f"{block}.feed_forward_residual.norm", weights)
            fill_linears([layer.ffn.linear_0, layer.ffn.linear_1], f"{block}.feed_forward", ["inner", "outer"], weights)


def fill_norm(spec: Any, name: str, weights: Weights) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def fill_linears(specs: Sequence[Any], name: str, parts: Sequence[str], weights: Weights) -> None:
    """Fill one linear layer for each part; names joined by `+` are concatenated."""
    for spec, joined in zip(specs, parts, strict=True):
        names = [f"{name}.{part}" for part in joined.split("+")]
        spec.weight = np.concatenate([weights[f"{one}.weight"] for one in names])
        spec.bias = np.concatenate([weights[f"{one}.bias"] for one in names])


def sinusoids(size: int) -> np.ndarray:
    """Return sinusoidal positions with alternating sines and cosines."""
    rates = 10000.0 ** (-np.arange(0, size, 2) / size)
    angles = np.arange(MAX_POSITIONS)[:, None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(MAX_POSITIONS, size).astype(np.float32)


@dataclass(frozen=True)
class Folders:
    """Folders of the models."""

    root: Path

    @property
    def run(self) -> Path:
        return self.root / "run"

    def ctranslate2(self, compute: str) -> Path:
        return self.root / f"ctranslate2-{compute}"


def prepare_base_model(root: Path, *, tiny: bool = False) -> Folders:
    """Return the folders of the random `base` model, which are written if missing."""
    folders, sizes = Folders(root), TINY if tiny else Sizes()
    model, weights = build_config(sizes), magnify(random_weights(sizes))
    if not folders.run.exists():
        write_run(RunFolder(folders.run), sizes, weights)
    for compute in PEER_COMPUTE_TYPES:
        out = folders.ctranslate2(compute)
        if not out.exists():
            write_ctranslate2(model, weights, list(vocabulary_words(sizes)), out, quantization=compute)
    return folders


def magnify(weights: Arrays) -> Arrays:
    for name in weights:
        if name.startswith("decoder.") and name.endswith(MAGNIFIED):
            weights[name] = weights[name] * np.float32(MAGNIFICATION)
    weights["unembedding.bias"][[0, 2, 3]] = FORBIDDING_BIAS
    return weights


def vocabulary_words(sizes: Sizes) -> Iterator[str]:
    yield from ("<pad>", "<unk>", "<s>", "</s>")
    yield from (f"w{number}" for number in range(4, sizes.vocabulary))


def write_run(folder: RunFolder, sizes: Sizes, weights: Arrays) -> None:
    model = {key: value for key, value in build_config(sizes).items() if not key.endswith("_vocabulary")}
    corpus = {"kind": "files", "source": "random.en", "target": "random.de"}
    tree = {"tokenizer": TOKENIZER.model_dump(mode="json"), "model": model, "data": {"train": corpus}}
    folder.create()
    folder.write_config(parse_experiment(tree))
    known = list(vocabulary_words(sizes))[4:]
    Tokenizer.train(lambda: [(" ".join(known), known[0])], TOKENIZER).save(folder.tokenizer)
    save_arrays(folder.weights, weights)


def convert_run(run: Path, folder: Path) -> None:
    """Write the models of a trained run for every program, if missing."""
    opened = RunFolder(run)
    model, weights = opened.read_raw_config()["model"], load_arrays(opened.weights)
    folder.mkdir(parents=True, exist_ok=True)
    for compute in PEER_COMPUTE_TYPES:
        if not (ours := folder / f"dragoman-{compute}").exists():
            export(run, ours, compute_type="int8" if compute == "int8" else "float32")
        if not (theirs := folder / f"ctranslate2-{compute}").exists():
            write_ctranslate2(model, weights, unique_words(opened.read_tokenizer()), theirs, quantization=compute)


def unique_words(tokenizer: Tokenizer) -> list[str]:
    """Return unique names for the vocabulary, in the order of its ids, as CTranslate2 requires."""
    return ["<pad>", "<unk>", "<s>", "</s>", *(f"{number}" for number in range(4, len(tokenizer.source)))]
