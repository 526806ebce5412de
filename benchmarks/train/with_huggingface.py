"""Trains a `MarianMTModel` of Hugging Face in a plain loop, and writes how fast.

    python with_huggingface.py FOLDER --updates 60 --out reports.json [--bfloat16]

FOLDER is what `speed.py` makes: segmented texts, their vocabulary and `settings.json`.
"""

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianConfig, MarianMTModel

PAD, UNKNOWN, BEGIN, END = range(4)
Pair = tuple[list[int], list[int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bfloat16", action="store_true", help="by autocast")
    asked = parser.parse_args()
    same = json.loads((asked.folder / "settings.json").read_text(encoding="utf-8"))
    torch.manual_seed(1)
    words = (asked.folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]
    ids = {word: number for number, word in enumerate(words, start=END + 1)}
    pairs = list(zip(*(read(asked.folder / f"train.{side}", ids) for side in ("source", "target")), strict=True))
    found = train(build(same, words=len(ids)), pairs, same, updates=asked.updates, bfloat16=asked.bfloat16)
    asked.out.write_text(json.dumps(found), encoding="utf-8")


def read(path: Path, ids: dict[str, int]) -> list[list[int]]:
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [[*(ids.get(piece, UNKNOWN) for piece in line.split(" ")), END] for line in lines]


def build(same: dict[str, Any], *, words: int) -> MarianMTModel:
    config = MarianConfig(
        vocab_size=END + 1 + words,
        d_model=same["size"],
        encoder_layers=same["layers"],
        decoder_layers=same["layers"],
        encoder_attention_heads=same["heads"],
        decoder_attention_heads=same["heads"],
        encoder_ffn_dim=same["feed_forward"],
        decoder_ffn_dim=same["feed_forward"],
        activation_function="relu",
        dropout=same["dropout"],
        attention_dropout=0.0,
        activation_dropout=same["dropout"],
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        attn_implementation="sdpa",
    )
    return MarianMTModel(config)


def batches(pairs: list[Pair], budget: int) -> Iterator[list[Pair]]:
    """Pairs of like length for ever: rows times the longer padded width within the budget, in random order."""
    pairs = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0])))
    parts, begun, widest = [], 0, 0
    for place, pair in enumerate(pairs):
        widest = max(widest, len(pair[0]), len(pair[1]))
        if (place + 1 - begun) * widest > budget:
            parts.append(pairs[begun:place])
            begun, widest = place, max(len(pair[0]), len(pair[1]))
    parts.append(pairs[begun:])
    while True:
        yield from (parts[place] for place in torch.randperm(len(parts)).tolist())


def train(
    model: MarianMTModel, pairs: list[Pair], same: dict[str, Any], *, updates: int, bfloat16: bool
) -> list[dict[str, float]]:
    """Speeds and losses of stretches of updates."""
    optimiser = torch.optim.Adam(model.parameters(), lr=same["learning_rate"], betas=same["betas"], fused=True)
    warmup = same["warmup"]
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda done: min((done + 1) / warmup, (warmup / (done + 1)) ** 0.5)
    )
    stream = batches(pairs, same["batch_tokens"])
    found = []
    loss_sum, tokens, begun = 0.0, 0, time.perf_counter()
    model.train()
    for update in range(1, updates + 1):
        rows = next(stream)
        source = pad_sequence([torch.tensor(pair[0]) for pair in rows], batch_first=True, padding_value=PAD)
        expected = pad_sequence([torch.tensor(pair[1]) for pair in rows], batch_first=True, padding_value=PAD)
        target = F.pad(expected[:, :-1], (1, 0), value=BEGIN)
        with torch.autocast("cpu", torch.bfloat16) if bfloat16 else nullcontext():
            answer = model(
                input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target, use_cache=False
            )
            loss = F.cross_entropy(
                answer.logits.flatten(0, 1),
                expected.flatten(),
                ignore_index=PAD,
                label_smoothing=same["label_smoothing"],
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), same["clip"])
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
        count = sum(len(pair[1]) for pair in rows)
        loss_sum, tokens = loss_sum + loss.item() * count, tokens + count
        if update % same["report"] == 0:
            seconds = time.perf_counter() - begun
            found.append({"update": update, "loss": loss_sum / tokens, "tokens_per_second": tokens / seconds})
            loss_sum, tokens, begun = 0.0, 0, time.perf_counter()
    return found


if __name__ == "__main__":
    main()
