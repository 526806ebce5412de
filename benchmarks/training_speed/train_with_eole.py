"""Train with eole, in its own environment, and write the speeds and losses of its log.

    python train_with_eole.py FOLDER --steps 60 --out reports.json [--bfloat16]

`training_speed.py` writes FOLDER: tokenized texts, their vocabulary and `settings.json`.
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
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bfloat16", action="store_true", help="by autocast")
    arguments = parser.parse_args()
    shared = json.loads((arguments.folder / "settings.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        tree = configuration(arguments.folder, Path(folder), shared, steps=arguments.steps, bfloat16=arguments.bfloat16)
        config = Path(folder) / "config.yaml"
        config.write_text(json.dumps(tree), encoding="utf-8")
        log = train(config)
    arguments.out.write_text(json.dumps(parse_log(log)), encoding="utf-8")


def configuration(folder: Path, run: Path, shared: dict[str, Any], *, steps: int, bfloat16: bool) -> dict[str, Any]:
    return {
        "seed": 1,
        "report_every": shared["log_every"],
        "src_vocab": str(folder / "vocabulary.txt"),
        "share_vocab": True,
        "src_vocab_size": 100_000,
        "tgt_vocab_size": 100_000,
        "vocab_size_multiple": 1,
        "data": {"corpus": {"path_src": str(folder / "train.source"), "path_tgt": str(folder / "train.target")}},
        "transforms": [],
        "model": {
            "architecture": "transformer",
            "layers": shared["layers"],
            "heads": shared["heads"],
            "hidden_size": shared["size"],
            "transformer_ff": shared["feed_forward"],
            "embeddings": {"word_vec_size": shared["size"], "position_encoding_type": "SinusoidalInterleaved"},
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
            "adam_beta1": shared["betas"][0],
            "adam_beta2": shared["betas"][1],
            # With this factor Noam's learning rate equals that of the other programs at every step.
            "decay_method": "noam",
            "learning_rate": shared["learning_rate"] * (shared["size"] * shared["warmup"]) ** 0.5,
            "warmup_steps": shared["warmup"],
            "max_grad_norm": shared["clip"],
            "normalization": "tokens",
            "label_smoothing": shared["label_smoothing"],
            "dropout": [shared["dropout"]],
            "attention_dropout": [0.0],
            "param_init": 0.0,
            "param_init_method": "xavier_uniform",
            "batch_type": "tokens",
            "batch_size": shared["batch_tokens"],
            "bucket_size": shared["pairs"],
            "num_workers": 0,  # the default, one per core, slows training down
            "log_attention_entropy": False,
            "train_steps": steps,
            "save_checkpoint_steps": 10**9,
            "valid_steps": 10**9,
        },
    }


def train(config: Path) -> str:
    """Train, and return the log from standard error; the log file ends before the training begins."""
    command = [str(Path(sys.executable).with_name("eole")), "train", "--config", str(config)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stderr


def parse_log(log: str) -> list[dict[str, float]]:
    """Return speeds and losses; the perplexity has more digits than the loss."""
    found = [matched.groups() for matched in map(LINE.search, log.splitlines()) if matched]
    return [
        {"step": int(step), "loss": math.log(float(perplexity)), "tokens_per_second": float(speed)}
        for step, perplexity, speed in found
    ]


if __name__ == "__main__":
    main()
