"""Trains by eole, in its own environment, and writes what its log says.

    python with_eole.py FOLDER --updates 60 --out reports.json [--bfloat16]

FOLDER is what `speed.py` makes: segmented texts, their vocabulary and `settings.json`.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LINE = re.compile(r"Step +(\d+)/.* ppl: +([\d.]+);.* +[\d.]+/ *([\d.]+) tok/s;")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bfloat16", action="store_true", help="by autocast")
    asked = parser.parse_args()
    same = json.loads((asked.folder / "settings.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        tree = configuration(asked.folder, Path(folder), same, updates=asked.updates, bfloat16=asked.bfloat16)
        config = Path(folder) / "config.yaml"
        config.write_text(json.dumps(tree), encoding="utf-8")
        log = train(config)
    asked.out.write_text(json.dumps(reports(log)), encoding="utf-8")


def configuration(folder: Path, run: Path, same: dict[str, Any], *, updates: int, bfloat16: bool) -> dict[str, Any]:
    return {
        "seed": 1,
        "report_every": same["report"],
        "src_vocab": str(folder / "vocabulary.txt"),
        "share_vocab": True,
        "src_vocab_size": 100_000,
        "tgt_vocab_size": 100_000,
        "vocab_size_multiple": 1,
        "data": {"corpus": {"path_src": str(folder / "train.source"), "path_tgt": str(folder / "train.target")}},
        "transforms": [],
        "model": {
            "architecture": "transformer",
            "layers": same["layers"],
            "heads": same["heads"],
            "hidden_size": same["size"],
            "transformer_ff": same["feed_forward"],
            "embeddings": {"word_vec_size": same["size"], "position_encoding_type": "SinusoidalInterleaved"},
            "add_qkvbias": True,
            "add_ffnbias": True,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
        },
        "training": {
            "model_path": str(run / "model"),
            "world_size": 1,
            "gpu_ranks": [],
            "compute_dtype": "bf16" if bfloat16 else "fp32",
            "use_amp": True,
            "optim": "adam",
            "adam_beta1": same["betas"][0],
            "adam_beta2": same["betas"][1],
            # Noam's rate with this factor is that of the others at every update.
            "decay_method": "noam",
            "learning_rate": same["learning_rate"] * (same["size"] * same["warmup"]) ** 0.5,
            "warmup_steps": same["warmup"],
            "max_grad_norm": same["clip"],
            "normalization": "tokens",
            "label_smoothing": same["label_smoothing"],
            "dropout": [same["dropout"]],
            "attention_dropout": [0.0],
            "param_init": 0.0,
            "param_init_method": "xavier_uniform",
            "batch_type": "tokens",
            "batch_size": same["batch_tokens"],
            "bucket_size": same["pairs"],
            "num_workers": 0,  # on as many cores as there are workers by default, they would stand in the way
            "log_attention_entropy": False,
            "train_steps": updates,
            "save_checkpoint_steps": 10**9,
            "valid_steps": 10**9,
        },
    }


def train(config: Path) -> str:
    """What it says. Its log file ends before the training begins."""
    command = [str(Path(sys.executable).with_name("eole")), "train", "--config", str(config)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stderr


def reports(log: str) -> list[dict[str, float]]:
    """Speeds and losses; it writes the loss with two digits, and its exponential with more."""
    found = [matched.groups() for matched in map(LINE.search, log.splitlines()) if matched]
    return [
        {"update": int(update), "loss": math.log(float(power)), "tokens_per_second": float(speed)}
        for update, power, speed in found
    ]


if __name__ == "__main__":
    main()
