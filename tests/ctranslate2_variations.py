"""Models of CTranslate2 varied one setting at a time: does an import compute the same, or does it name the setting?

    python -m tests.ctranslate2_variations --count 300

Each variation changes a key of `config.json` or an attribute of `model.bin`. CTranslate2 judges greedy outputs; the
import runs as on a computer without CTranslate2. A variation is `equal`, `refused` (an error names the setting),
`unnamed` (an error does not), `different`, or has `no judge` (CTranslate2 itself fails).
"""

import argparse
import json
import random
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ctranslate2
import torch

import dragoman
from dragoman.errors import DragomanError
from dragoman.interop.ctranslate2 import reference_logits
from dragoman.interop.ctranslate2.model_file import read_model_file, write_model_file
from dragoman.interop.ctranslate2.model_keys import CONFIG_KEYS
from tests.ctranslate2_models import WORDS, write_translator

BASES: dict[str, dict[str, Any]] = {
    "plain": {"config": {"add_source_eos": True}},
    "OPUS-MT": {
        "pre_norm": False,
        "tie": True,
        "table": "sinusoidal",
        "activation": 2,
        "attributes": {"start_from_zero_embedding": True},
        "config": {"decoder_start_token": "</s>", "add_source_eos": True},
    },
    "relative": {"with_relative_position": True, "config": {"add_source_eos": True}},
}
TEXTS = [" ".join(WORDS[5 + place : 8 + 2 * place]) for place in range(6)]
VALUES = (0, 1, 2, 3, 4, 0.25, True, False, "<unk>", "<s>", "</s>", 1e-3, None)
LENGTH = 6


def variations(folder: Path, count: int, generator: random.Random) -> Iterator[tuple[str, Any]]:
    """Yield names of settings and values: keys of `config.json`, an unknown key, and attributes."""
    names = [name for name, tensor in read_model_file(folder / "model.bin").variables.items() if not tensor.dim()]
    unknown = ["source_factor", "decoder/residual_scale", "encoder/layer_0/self_attention/temperature"]
    pairs = [(name, value) for name in (*CONFIG_KEYS, *names, *unknown) for value in VALUES]
    attributes = {*names, *unknown[1:]}
    kept = [(name, value) for name, value in pairs if not (name in attributes and isinstance(value, str | None))]
    kept = [(name, value) for name, value in kept if not name.endswith("heads") or value in (1, 2, 4)]  # others abort
    yield from generator.sample(kept, min(count, len(kept)))


def change(folder: Path, name: str, value: Any) -> None:
    """Set a key or an attribute of a folder; a value of None removes it."""
    config = json.loads((folder / "config.json").read_text())
    if "/" not in name:
        config = {key: one for key, one in config.items() if key != name} | ({} if value is None else {name: value})
        (folder / "config.json").write_text(json.dumps(config))
        return
    model = read_model_file(folder / "model.bin")
    known = model.variables.get(name)
    dtype = known.dtype if known is not None else torch.float32
    write_model_file(
        folder / "model.bin", replace(model, variables={**model.variables, name: torch.tensor(value, dtype=dtype)})
    )


def judge(folder: Path) -> list[str] | None:
    """Return greedy outputs of CTranslate2; None if it fails."""
    try:
        translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
        config = json.loads((folder / "config.json").read_text())
        gives = not config.get("add_source_eos", False) and config.get("decoder_start_token", "<s>") != "<s>"
        given = [[*text.split(), *(["</s>"] if gives else [])] for text in TEXTS]
        found = translator.translate_batch(given, beam_size=1, max_decoding_length=LENGTH)
    except (RuntimeError, ValueError):
        return None
    return [" ".join(result.hypotheses[0]) for result in found]


def outcome(folder: Path, run: Path, name: str) -> str:
    """Return what an import makes of a folder."""
    expected = judge(folder)
    try:
        with patch.object(reference_logits, "find_spec", return_value=None):
            model = dragoman.import_model(folder, run).load()
    except DragomanError as error:
        known = name.split("/")[-1] in str(error)
        return "no judge" if expected is None else "refused" if known else "unnamed"
    if expected is None:
        return "no judge"
    found = [result.text for result in model.translate(TEXTS, beam_size=1, max_length=LENGTH)]
    return "equal" if found == expected else "different"


def run_all(count: int, *, seed: int = 0) -> dict[str, Counter[str]]:
    """Return the number of variations by base and outcome, and print those that are neither equal nor refused."""
    generator, table = random.Random(seed), {}
    for base, options in BASES.items():
        counts = table[base] = Counter[str]()
        with tempfile.TemporaryDirectory() as root:
            first = write_translator(Path(root) / "model", **json.loads(json.dumps(options)))
            for number, (name, value) in enumerate(variations(first, count // len(BASES), generator)):
                folder = Path(root) / f"varied-{number}"
                folder.mkdir()
                for file in first.iterdir():
                    (folder / file.name).write_bytes(file.read_bytes())
                change(folder, name, value)
                found = outcome(folder, Path(root) / f"run-{number}", name)
                counts[found] += 1
                if found in ("different", "unnamed"):
                    print(f"{base}: {name} = {value!r}: {found}")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=300)
    warnings.simplefilter("ignore")
    for base, counts in run_all(parser.parse_args().count).items():
        print(base, dict(counts))
