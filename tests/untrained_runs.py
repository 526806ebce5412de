"""Runs that look finished without training: a random model in a run folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dragoman.config_trees import merge
from dragoman.data.datasets.labeled import Labels
from dragoman.data.readers.parallel import ParallelFiles
from dragoman.data.tokenizers import CharacterConfig, Tokenizer, TokenizerConfig, WordConfig
from dragoman.models.weight_storage import get_weights, save_tensors
from dragoman.runs.config import parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.tasks.factory import build_task

PAIRS = [("two dogs play .", "zwei Hunde spielen ."), ("a cat sits by the sea", "eine Katze sitzt am Meer")]
WORDS = WordConfig()
MODEL = {"d_model": 12, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 17}


def finished_run(
    path: Path,
    changed: dict[str, Any] | None = None,
    *,
    vocabulary: TokenizerConfig = WORDS,
    pairs: Sequence[tuple[str, str]] = PAIRS,
) -> RunFolder:
    """Write a translation run whose vocabulary is that of the pairs; the options override a small configuration."""
    corpus = {"kind": "files", "source": "/home/somebody/train.en", "target": "/home/somebody/train.de"}
    tree = {"tokenizer": vocabulary.model_dump(mode="json"), "model": MODEL, "data": {"train": corpus}}
    return _finished(path, merge(tree, changed or {}), Tokenizer.train(lambda: pairs, vocabulary))


def finished_language_model(
    path: Path, changed: dict[str, Any] | None = None, *, data: dict[str, Any] | None = None
) -> RunFolder:
    """Write a language modeling run over the characters of `PAIRS` with a context of 23 tokens.

    `data` replaces the running text with another kind of corpus.
    """
    running = {"train": {"kind": "text", "path": "/home/somebody/story.txt"}, "context_length": 23}
    tree = {
        "task": "language_modeling",
        "tokenizer": {"kind": "characters"},
        "model": {"d_model": 12, "num_heads": 2, "num_layers": 2, "d_ff": 17},
        "data": data or running,
    }
    texts = [text for pair in PAIRS for text in pair]
    tokenizer = Tokenizer.train_on_texts(lambda: texts, CharacterConfig(whitespace="keep"))
    return _finished(path, merge(tree, changed or {}), tokenizer)


ENCODERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "classification": ({"train": {"kind": "lines", "path": "/home/somebody/reviews.txt"}}, ("good", "bad")),
    "tagging": ({"train": {"kind": "columns", "path": "/home/somebody/words.txt"}}, ("NOUN", "VERB")),
    "question_answering": (
        {
            "train": {"kind": "jsonl", "path": "/home/somebody/questions.jsonl"},
            "windows": {"max_length": 19, "max_question_length": 5, "stride": 5},
        },
        (),
    ),
    "masked_lm": (
        {
            "train": {"kind": "text", "path": "/home/somebody/story.txt", "documents": "line"},
            "context_length": 23,
        },
        (),
    ),
}
"""Data and labels of the tasks of encoder-only models."""


def finished_encoder(path: Path, task: str) -> RunFolder:
    """Write a run of an encoder-only model over the words of `PAIRS`."""
    data, labels = ENCODERS[task]
    stack = {"d_model": 12, "num_heads": 2, "num_layers": 1, "d_ff": 17}
    tree = {"task": task, "tokenizer": {"kind": "words"}, "model": stack, "data": data}
    texts = [text for pair in PAIRS for text in pair]
    return _finished(path, tree, Tokenizer.train_on_texts(lambda: texts, WORDS), labels=labels)


def write_pairs(folder: Path) -> ParallelFiles:
    """Write `PAIRS` as files into a folder."""
    sides = [folder / name for name in ("train.en", "train.de")]
    for path, side in zip(sides, zip(*PAIRS, strict=True), strict=True):
        path.write_text("".join(f"{text}\n" for text in side), encoding="utf-8")
    return ParallelFiles(source=sides[0], target=sides[1])


def _finished(path: Path, tree: dict[str, Any], tokenizer: Tokenizer, labels: tuple[str, ...] = ()) -> RunFolder:
    experiment = parse_experiment(tree)
    folder = RunFolder(path)
    folder.create()
    folder.write_config(experiment)
    tokenizer.save(folder.tokenizer)
    if labels:
        Labels(labels).save(folder.labels)
    network = build_task(experiment).build_model(folder, device=torch.device("cpu"))
    save_tensors(folder.weights, get_weights(network))
    folder.model_card.write_text("# run\n\nA model.\n", encoding="utf-8")
    return folder
