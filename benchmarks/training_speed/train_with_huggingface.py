"""Train Hugging Face's `MarianMTModel` in a plain loop, and write speeds and losses.

    python train_with_huggingface.py FOLDER --steps 60 --out reports.json [--bfloat16]

`training_speed.py` writes FOLDER: tokenized texts, their vocabulary and `settings.json`.
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

PAD, UNK, BOS, EOS = range(4)
Pair = tuple[list[int], list[int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bfloat16", action="store_true", help="by autocast")
    arguments = parser.parse_args()
    shared = json.loads((arguments.folder / "settings.json").read_text(encoding="utf-8"))
    torch.manual_seed(1)
    words = (arguments.folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]
    ids = {word: number for number, word in enumerate(words, start=EOS + 1)}
    pairs = list(
        zip(*(read_ids(arguments.folder / f"train.{side}", ids) for side in ("source", "target")), strict=True)
    )
    found = train(
        build_model(shared, words=len(ids)), pairs, shared, steps=arguments.steps, bfloat16=arguments.bfloat16
    )
    arguments.out.write_text(json.dumps(found), encoding="utf-8")


def read_ids(path: Path, ids: dict[str, int]) -> list[list[int]]:
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [[*(ids.get(token, UNK) for token in line.split(" ")), EOS] for line in lines]


def build_model(shared: dict[str, Any], *, words: int) -> MarianMTModel:
    config = MarianConfig(
        vocab_size=EOS + 1 + words,
        d_model=shared["size"],
        encoder_layers=shared["layers"],
        decoder_layers=shared["layers"],
        encoder_attention_heads=shared["heads"],
        decoder_attention_heads=shared["heads"],
        encoder_ffn_dim=shared["feed_forward"],
        decoder_ffn_dim=shared["feed_forward"],
        activation_function="relu",
        dropout=shared["dropout"],
        attention_dropout=0.0,
        activation_dropout=shared["dropout"],
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        attn_implementation="sdpa",
    )
    return MarianMTModel(config)


def batches(pairs: list[Pair], budget: int) -> Iterator[list[Pair]]:
    """Yield batches of pairs of similar length for ever, in random order; the budget bounds padded tokens."""
    pairs = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0])))
    parts, start, widest = [], 0, 0
    for index, pair in enumerate(pairs):
        widest = max(widest, len(pair[0]), len(pair[1]))
        if (index + 1 - start) * widest > budget:
            parts.append(pairs[start:index])
            start, widest = index, max(len(pair[0]), len(pair[1]))
    parts.append(pairs[start:])
    while True:
        yield from (parts[index] for index in torch.randperm(len(parts)).tolist())


def train(
    model: MarianMTModel, pairs: list[Pair], shared: dict[str, Any], *, steps: int, bfloat16: bool
) -> list[dict[str, float]]:
    """Train, and return speeds and losses of stretches of steps."""
    optimizer = torch.optim.Adam(model.parameters(), lr=shared["learning_rate"], betas=shared["betas"], fused=True)
    warmup = shared["warmup"]
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: min((done + 1) / warmup, (warmup / (done + 1)) ** 0.5)
    )
    stream = batches(pairs, shared["batch_tokens"])
    found = []
    loss_sum, tokens, start = 0.0, 0, time.perf_counter()
    model.train()
    for step in range(1, steps + 1):
        rows = next(stream)
        source = pad_sequence([torch.tensor(pair[0]) for pair in rows], batch_first=True, padding_value=PAD)
        expected = pad_sequence([torch.tensor(pair[1]) for pair in rows], batch_first=True, padding_value=PAD)
        target = F.pad(expected[:, :-1], (1, 0), value=BOS)
        with torch.autocast("cpu", torch.bfloat16) if bfloat16 else nullcontext():
            answer = model(
                input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target, use_cache=False
            )
            loss = F.cross_entropy(
                answer.logits.flatten(0, 1),
                expected.flatten(),
                ignore_index=PAD,
                label_smoothing=shared["label_smoothing"],
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), shared["clip"])
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        count = sum(len(pair[1]) for pair in rows)
        loss_sum, tokens = loss_sum + loss.item() * count, tokens + count
        if step % shared["log_every"] == 0:
            seconds = time.perf_counter() - start
            found.append({"step": step, "loss": loss_sum / tokens, "tokens_per_second": tokens / seconds})
            loss_sum, tokens, start = 0.0, 0, time.perf_counter()
    return found


if __name__ == "__main__":
    main()
