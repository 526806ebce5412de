"""Results of imported runs, compared with those of another library: logits, inputs and outputs."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.decoding.config import DecodingConfig
from dragoman.errors import DragomanError
from dragoman.inference.generation.generator import Generator
from dragoman.interop.self_check import forward
from dragoman.interop.vocabulary_order import NEVER, VocabularyOrder
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import load_torch_model

LENGTH = 14
"""Most tokens of an output."""


def our_results(run: Path) -> dict[str, Any]:
    """Return logits, outputs and the ids of the texts, by an imported run."""
    loaded: Any = load_torch_model(run, device="cpu")
    origin = json.loads((run / "origin.json").read_text(encoding="utf-8"))
    experiment = RunFolder(run).read_config()
    source, target = (np.array(_foreign_ids(origin["orders"][side])) for side in ("source", "target"))
    return {"loaded": loaded, "config": experiment.model, "source": source, "target": target}


def _foreign_ids(order: Mapping[str, Any]) -> list[int]:
    found: list[int] = VocabularyOrder.from_json(order).foreign_ids.tolist()
    return found


def describe_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Return how the results differ; an empty text if they do not."""
    loaded, source, target = ours["loaded"], ours["source"], ours["target"]
    place = {int(index): number for number, index in reversed(list(enumerate(target)))}
    places = {int(index): number for number, index in reversed(list(enumerate(source)))}
    ids = theirs["ids"]
    network = loaded.model
    network.eval()
    given = [places[index] for index in ids], [place[index] for index in ids[2:]]
    if type(loaded).__name__ == "Translator":
        found = forward(network, ours["config"], *given)
    else:
        found = forward(network, ours["config"], [], [place[index] for index in ids])
    expected = theirs["logits"]
    if expected.shape[-1] == ours["config"].d_model:
        with torch.inference_mode():
            tokens = torch.tensor([[place[index] for index in ids]])
            hidden = network.hidden(tokens, torch.tensor([len(ids)]))[0].numpy()
        gap = float(np.abs(hidden - expected).max())
    else:
        columns = [place[index] for index in range(expected.shape[-1])]
        visible = found[:, columns] > NEVER / 2  # copies of symbols with two roles are never put out
        gap = float(np.abs(found[:, columns] - expected)[visible].max())
    if not gap < 2e-3:
        return f"logits differ by {gap:.3g}"
    if "outputs" not in theirs:
        return _compare_inputs(loaded, source, theirs)
    return _compare_outputs(loaded, source, target, theirs)


def _compare_inputs(loaded: Any, source: np.ndarray, theirs: Mapping[str, Any]) -> str:
    tokenizer = getattr(loaded.tokenizer, "source", loaded.tokenizer)
    for text, expected in zip(theirs.get("texts", ()), theirs.get("inputs", ()), strict=True):
        found = source[tokenizer.encode(text)].tolist()
        if found != expected[1:-1]:
            return f"input {found} instead of {expected}"
    return ""


def _compare_outputs(loaded: Any, source: np.ndarray, target: np.ndarray, theirs: Mapping[str, Any]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(loaded, Generator):
            rows = {"outputs": loaded.generate(theirs["texts"], max_new_tokens=LENGTH)}
            beam = DecodingConfig(
                beam_size=3, length_penalty=1.0, cut_off="ranked", early_stopping=True, keep_greedy=False
            )
            try:
                searched = loaded.generate_n_best(theirs["texts"], beam, max_new_tokens=LENGTH)
                rows["searched"] = [one for [one, *_] in searched]
            except DragomanError:
                pass  # a search that refuses is no search with other outputs
        else:
            rows = {
                "outputs": [one.best if hasattr(one, "best") else one[0] for one in loaded.translate(theirs["texts"])]
            }
    for name, completions in rows.items():
        for number, completion in enumerate(completions):
            found, expected = target[list(completion.hypothesis.tokens)].tolist(), theirs[name][number]
            if found != expected:
                return f"{name} {number}: {found} instead of {expected}"
    return ""
