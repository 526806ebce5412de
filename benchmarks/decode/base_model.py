"""A finished run whose network is `base` with random weights, and the same network for CTranslate2.

Padding, begin and end symbols have a bias that forbids them, so that every program writes as many tokens as it is asked
for. What the decoder looks for and what it writes into the residual stream are magnified: otherwise the last token,
whose embedding is tied to the unembedding, would be repeated for ever, whatever the source.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.decode.core_steps import TINY, Sizes, configuration, random_weights
from benchmarks.decode.partners import write_ctranslate2
from dragoman.data.tokenizers import Tokenizer, Words
from dragoman.models.quantization import Arrays, write_arrays
from dragoman.runs.config import to_experiment
from dragoman.runs.folder import RunFolder

MAGNIFIED = 4
LOUD = ("query.weight", "output.weight", "outer.weight")
FORBIDDEN = -1e4
TOKENIZER = Words(minimum_count=1)
PARTNERS_COMPUTES = ("float32", "int8")
"""Precisions of CTranslate2 on a CPU; it has no bfloat16 there."""


@dataclass(frozen=True)
class Folders:
    """Where the models lie."""

    root: Path

    @property
    def run(self) -> Path:
        return self.root / "run"

    def ctranslate2(self, compute: str) -> Path:
        return self.root / f"ctranslate2-{compute}"


def prepared(root: Path, *, tiny: bool = False) -> Folders:
    """The models, made where they are not there already."""
    folders, sizes = Folders(root), TINY if tiny else Sizes()
    model, weights = configuration(sizes), magnified(random_weights(sizes))
    if not folders.run.exists():
        write_run(RunFolder(folders.run), sizes, weights)
    for compute in PARTNERS_COMPUTES:
        out = folders.ctranslate2(compute)
        if not out.exists():
            write_ctranslate2(model, weights, list(words(sizes)), out, quantization=compute)
    return folders


def magnified(weights: Arrays) -> Arrays:
    for name in weights:
        if name.startswith("decoder.") and name.endswith(LOUD):
            weights[name] = weights[name] * np.float32(MAGNIFIED)
    weights["unembedding.bias"][[0, 2, 3]] = FORBIDDEN
    return weights


def words(sizes: Sizes) -> Iterator[str]:
    yield from ("<pad>", "<unk>", "<s>", "</s>")
    yield from (f"w{number}" for number in range(4, sizes.vocabulary))


def write_run(folder: RunFolder, sizes: Sizes, weights: Arrays) -> None:
    model = {key: value for key, value in configuration(sizes).items() if not key.endswith("_vocabulary")}
    corpus = {"kind": "files", "source": "random.en", "target": "random.de"}
    tree = {"tokenizer": TOKENIZER.model_dump(mode="json"), "model": model, "data": {"train": corpus}}
    folder.begin()
    folder.write_config(to_experiment(tree))
    known = list(words(sizes))[4:]
    Tokenizer.train(lambda: [(" ".join(known), known[0])], TOKENIZER).save(folder.tokenizer)
    write_arrays(folder.weights, weights)
