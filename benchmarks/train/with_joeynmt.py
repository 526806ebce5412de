"""Trains by JoeyNMT, in its own environment, and writes what its log says.

    python with_joeynmt.py FOLDER --updates 60 --out reports.json

FOLDER is what `speed.py` makes: segmented texts, their vocabulary and `settings.json`.
"""

import argparse
import json
import math
import re
import tempfile
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

LINE = re.compile(r"^(\S+ \S+) .*Step: +(\d+), Batch Loss: +([\d.]+),.*Tokens per Sec: +(\d+),")
SPECIALS = ("unk", "pad", "bos", "eos")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    vocabulary = asked.folder / "vocabulary.txt"
    settings = json.loads((asked.folder / "settings.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as run:
        log = Path(run) / "train.log"
        train(configuration(asked.folder, Path(run), settings, updates=asked.updates), log)
        words = len(vocabulary.read_text(encoding="utf-8").splitlines()) + len(SPECIALS)
        entropy = entropy_of_target(settings["label_smoothing"], words)
        found = reports(log.read_text(encoding="utf-8"), every=settings["report"], entropy=entropy)
    asked.out.write_text(json.dumps(found), encoding="utf-8")


def configuration(folder: Path, run: Path, same: dict[str, Any], *, updates: int) -> dict[str, Any]:
    sides = {
        side: {"lang": name, "level": "word", "voc_file": str(folder / "vocabulary.txt")}
        for side, name in (("src", "source"), ("trg", "target"))
    }
    symbols = {f"{name}_id": number for number, name in enumerate(SPECIALS)}
    symbols |= {f"{name}_token": f"<{name}>" for name in SPECIALS}
    stack = {
        "type": "transformer",
        "num_layers": same["layers"],
        "num_heads": same["heads"],
        "embeddings": {"embedding_dim": same["size"], "scale": True, "dropout": same["dropout"]},
        "hidden_size": same["size"],
        "ff_size": same["feed_forward"],
        "dropout": same["dropout"],
        "layer_norm": "pre",
    }
    return {
        "name": "side by side",
        "model_dir": str(run),
        "use_cuda": False,
        "random_seed": 1,
        "data": {"train": str(folder / "train"), "dev": str(folder / "train"), "sample_dev_subset": 2}
        | {"dataset_type": "plain", "special_symbols": symbols, **sides},
        "testing": {},
        "training": {
            "optimizer": "adam",
            "adam_betas": same["betas"],
            # Noam's rate with this factor is that of the others; the first update comes before the schedule.
            "scheduling": "noam",
            "learning_rate": same["learning_rate"] / same["warmup"],
            "learning_rate_factor": same["learning_rate"] * (same["size"] * same["warmup"]) ** 0.5,
            "learning_rate_warmup": same["warmup"],
            "learning_rate_min": 0.0,
            "label_smoothing": same["label_smoothing"],
            "clip_grad_norm": same["clip"],
            "normalization": "tokens",
            "batch_size": same["batch_tokens"],
            "batch_type": "token",
            "epochs": 1000,
            "updates": updates,
            "logging_freq": 1,
            "validation_freq": 10**9,
        },
        "model": {
            "tied_embeddings": True,
            "tied_softmax": True,
            "embed_initializer": "normal",
            "embed_init_weight": same["size"] ** -0.5,
            "encoder": stack,
            "decoder": stack,
        },
    }


def train(tree: dict[str, Any], log: Path) -> None:
    """As `python -m joeynmt train --skip-test` does, which reads the same tree from a file."""
    import joeynmt.training
    from joeynmt.helpers_for_ddp import get_logger
    from joeynmt.transformer_layers import MultiHeadedAttention

    class WithoutAttentionDropout(joeynmt.training.TrainManager):  # type: ignore[misc]
        """The others drop no attention weights, and JoeyNMT has no key for it."""

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            for module in self.model.modules():
                if isinstance(module, MultiHeadedAttention):
                    module.dropout.p = 0.0

    joeynmt.training.TrainManager = WithoutAttentionDropout
    get_logger("", log_file=str(log))
    joeynmt.training.train(rank=0, world_size=None, cfg=tree, skip_test=True)


def entropy_of_target(smoothing: float, words: int) -> float:
    """Of the distribution that it learns: a share for the word, the rest spread over all but that and padding."""
    return -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(smoothing / (words - 2))


def reports(log: str, *, every: int, entropy: float) -> list[dict[str, float]]:
    """Speeds and losses of stretches of updates, from the lines of the single ones and the times between them.

    Its loss is a divergence from the smoothed target; with the entropy of that it is the cross-entropy of the others.
    """
    lines = [found.groups() for found in map(LINE.match, log.splitlines()) if found]
    times = [datetime.strptime(line[0], "%Y-%m-%d %H:%M:%S,%f").timestamp() for line in lines]
    seconds = [after - before for before, after in pairwise(times)]
    found = []
    for end in range(every, len(lines) + 1, every):
        stretch = range(max(1, end - every), end)
        spent = sum(seconds[place - 1] for place in stretch)
        tokens = sum(float(lines[place][3]) * seconds[place - 1] for place in stretch)
        loss = sum(float(lines[place][2]) for place in range(end - every, end)) / every
        found.append({"update": end, "loss": loss + entropy, "tokens_per_second": tokens / spent})
    return found


if __name__ == "__main__":
    main()
