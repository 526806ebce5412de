"""Corpora of a few hundred examples for every task, and configurations that train on them in a second or two."""

import json
import random
from pathlib import Path
from typing import Any

from tests.small_runs import WORDS, write_corpus

STACK = {"d_model": 12, "num_heads": 2, "num_layers": 1, "d_ff": 17}
TRAINING = {
    "max_steps": 9,
    "validate_every": 4,
    "batch_tokens": 211,
}


def write_texts(folder: Path) -> None:
    """Write all corpora into one folder: pairs, running text, labeled texts, tagged sentences and questions."""
    write_corpus(folder, pairs=149)
    sentences = (folder / "train.en").read_text(encoding="utf-8").splitlines()
    (folder / "running.txt").write_text("".join(f"{one}\n" for one in sentences), encoding="utf-8")
    labeled = "".join(f"{'dogs' if 'dogs' in one else 'others'} {one}\n" for one in sentences)
    (folder / "labeled.txt").write_text(labeled, encoding="utf-8")
    tagged = "\n".join("".join(f"{word}\t{word[0].upper()}\n" for word in one.split()) for one in sentences)
    (folder / "tagged.txt").write_text(tagged, encoding="utf-8")
    with (folder / "questions.jsonl").open("w", encoding="utf-8") as file:
        for row in questions(sentences):
            file.write(json.dumps(row) + "\n")


def questions(sentences: list[str]) -> list[dict[str, Any]]:
    """Return questions for the word that follows a given word, in a context of two sentences."""
    generator = random.Random(1)
    rows = []
    for first, second in zip(sentences[::2], sentences[1::2], strict=False):
        context = f"{first} {second}"
        words = context.split()
        place = generator.randrange(len(words) - 1)
        start = len(" ".join(words[: place + 1])) + 1
        answer = {"text": [words[place + 1]], "answer_start": [start]}
        rows.append({"question": f"after {words[place]}", "context": context, "answers": answer})
    return rows


def config_of(task: str, folder: Path) -> dict[str, Any]:
    """Return a whole configuration tree; `pairs` is language modeling on prompts."""
    common = {"task": task, "tokenizer": {"kind": "words"}, "training": TRAINING}
    match task:
        case "translation":
            model = {"d_model": 12, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 17}
            return {**common, "data": {"train": pairs(folder)}, "model": model, "decoding": {"beam_size": 2}}
        case "language_modeling":
            data = {"train": {"kind": "text", "path": str(folder / "running.txt")}, "context_length": 19}
            own = {"tokenizer": {"kind": "characters", "byte_fallback": False}, "generation": {"min_length": 7}}
            return {**common, "data": data, "model": STACK, **own}
        case "pairs":
            data = {"kind": "pairs", "train": pairs(folder)}
            return {**common, "task": "language_modeling", "data": data, "model": STACK}
        case "masked_lm":
            corpus = {"kind": "text", "path": str(folder / "running.txt"), "documents": "line"}
            return {**common, "data": {"train": corpus, "context_length": 19}, "model": STACK}
        case "classification":
            corpus = {"kind": "lines", "path": str(folder / "labeled.txt")}
            return {**common, "data": {"train": corpus}, "model": STACK}
        case "tagging":
            corpus = {"kind": "columns", "path": str(folder / "tagged.txt")}
            return {**common, "data": {"train": corpus}, "model": STACK}
        case "question_answering":
            windows = {"max_length": 19, "max_question_length": 5, "stride": 5}
            data = {"train": {"kind": "jsonl", "path": str(folder / "questions.jsonl")}, "windows": windows}
            return {**common, "data": data, "model": STACK}
    raise ValueError(task)


def pairs(folder: Path) -> dict[str, Any]:
    return {"kind": "files", "source": str(folder / "train.en"), "target": str(folder / "train.de")}


TEXT = " ".join(list(WORDS)[:5])
"""Input for inference."""
