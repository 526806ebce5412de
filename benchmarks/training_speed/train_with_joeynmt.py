"""Train with JoeyNMT, in its own environment, and write the speeds and losses of its log.

    python train_with_joeynmt.py FOLDER --steps 60 --out reports.json

`training_speed.py` writes FOLDER: tokenized texts, their vocabulary and `settings.json`.
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
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    vocabulary = arguments.folder / "vocabulary.txt"
    settings = json.loads((arguments.folder / "settings.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as run:
        log = Path(run) / "train.log"
        train(configuration(arguments.folder, Path(run), settings, steps=arguments.steps), log)
        words = len(vocabulary.read_text(encoding="utf-8").splitlines()) + len(SPECIALS)
        entropy = entropy_of_target(settings["label_smoothing"], words)
        found = parse_log(log.read_text(encoding="utf-8"), every=settings["log_every"], entropy=entropy)
    arguments.out.write_text(json.dumps(found), encoding="utf-8")


def configuration(folder: Path, run: Path, shared: dict[str, Any], *, steps: int) -> dict[str, Any]:
    sides = {
        side: {"lang": name, "level": "word", "voc_file": str(folder / "vocabulary.txt")}
        for side, name in (("src", "source"), ("trg", "target"))
    }
    symbols = {f"{name}_id": number for number, name in enumerate(SPECIALS)}
    symbols |= {f"{name}_token": f"<{name}>" for name in SPECIALS}
    stack = {
        "type": "transformer",
        "num_layers": shared["layers"],
        "num_heads": shared["heads"],
        "embeddings": {"embedding_dim": shared["size"], "scale": True, "dropout": shared["dropout"]},
        "hidden_size": shared["size"],
        "ff_size": shared["feed_forward"],
        "dropout": shared["dropout"],
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
            "adam_betas": shared["betas"],
            # With this factor Noam's learning rate equals that of the other programs. The first step precedes the
            # schedule.
            "scheduling": "noam",
            "learning_rate": shared["learning_rate"] / shared["warmup"],
            "learning_rate_factor": shared["learning_rate"] * (shared["size"] * shared["warmup"]) ** 0.5,
            "learning_rate_warmup": shared["warmup"],
            "learning_rate_min": 0.0,
            "label_smoothing": shared["label_smoothing"],
            "clip_grad_norm": shared["clip"],
            "normalization": "tokens",
            "batch_size": shared["batch_tokens"],
            "batch_type": "token",
            "epochs": 1000,
            "updates": steps,
            "logging_freq": 1,
            "validation_freq": 10**9,
        },
        "model": {
            "tied_embeddings": True,
            "tied_softmax": True,
            "embed_initializer": "normal",
            "embed_init_weight": shared["size"] ** -0.5,
            "encoder": stack,
            "decoder": stack,
        },
    }


def train(tree: dict[str, Any], log: Path) -> None:
    """Train as `python -m joeynmt train --skip-test` does, with the configuration as a dictionary."""
    import joeynmt.training
    from joeynmt.helpers_for_ddp import get_logger
    from joeynmt.transformer_layers import MultiHeadedAttention

    class WithoutAttentionDropout(joeynmt.training.TrainManager):  # type: ignore[misc]
        """Trainer without attention dropout, for which JoeyNMT has no option."""

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            for module in self.model.modules():
                if isinstance(module, MultiHeadedAttention):
                    module.dropout.p = 0.0

    joeynmt.training.TrainManager = WithoutAttentionDropout
    get_logger("", log_file=str(log))
    joeynmt.training.train(rank=0, world_size=None, cfg=tree, skip_test=True)


def entropy_of_target(smoothing: float, words: int) -> float:
    """Return the entropy of the smoothed target: the smoothing is spread over all tokens but the target and padding."""
    return -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(smoothing / (words - 2))


def parse_log(log: str, *, every: int, entropy: float) -> list[dict[str, float]]:
    """Return speeds and losses of stretches of steps, from the log lines of single steps and the times between them.

    JoeyNMT's loss is the divergence from the smoothed target; adding the entropy of the target gives the cross-entropy.
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
        found.append({"step": end, "loss": loss + entropy, "tokens_per_second": tokens / spent})
    return found


if __name__ == "__main__":
    main()
