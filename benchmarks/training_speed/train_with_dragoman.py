"""Train with `dragoman train`, stop at a step, and write the logged speeds and losses.

    python train_with_dragoman.py FOLDER --steps 60 --out reports.json [--set training.precision=bfloat16]

`training_speed.py` writes FOLDER; of its files this script reads `settings.json`, because the command tokenizes itself.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RECIPE = Path(__file__).parents[2] / "examples" / "multi30k_en_de.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], help="another setting, as for dragoman train")
    arguments = parser.parse_args()
    shared = json.loads((arguments.folder / "settings.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        options = [part for one in [*settings(shared), *arguments.set] for part in ("--set", one)]
        command = [sys.executable, "-m", "dragoman", "train", RECIPE, "--data", shared["data"], "--out", run, *options]
        stop_after(list(map(str, command)), dict(os.environ), steps=arguments.steps)
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    arguments.out.write_text(
        json.dumps(parse_events([json.loads(line) for line in lines], arguments.steps)), encoding="utf-8"
    )


def settings(shared: dict[str, Any]) -> list[str]:
    """Return the settings in which the recipe differs from the shared ones."""
    return [
        *(f"model.dropout.{place}={shared['dropout']}" for place in ("embedding", "residual", "feed_forward")),
        f"training.batch_tokens={shared['batch_tokens']}",
        "training.ema_decay=null",
        f"training.log_every={shared['log_every']}",
    ]


def stop_after(command: list[str], environment: dict[str, str], *, steps: int) -> None:
    """Run a training, and stop it when it logs the step."""
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if re.match(rf"\w+ {steps:,}/", line):
                process.send_signal(signal.SIGTERM)


def parse_events(events: list[dict[str, Any]], steps: int) -> list[dict[str, float]]:
    """Return speeds and losses up to the last step; a training runs some steps more before it stops."""
    keys = ("step", "loss", "tokens_per_second")
    return [
        {key: event[key] for key in keys} for event in events if "tokens_per_second" in event and event["step"] <= steps
    ]


if __name__ == "__main__":
    main()
