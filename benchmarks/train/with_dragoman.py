"""Trains by `dragoman train`, stops it, and writes what the run reported.

    python with_dragoman.py FOLDER --updates 60 --out reports.json [--set training.precision=bfloat16]

FOLDER is what `speed.py` makes; of it only `settings.json` is read: this program segments its texts itself.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from workers import RECIPE, stop_after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], help="another setting, as for dragoman train")
    asked = parser.parse_args()
    same = json.loads((asked.folder / "settings.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        options = [part for one in [*settings(same), *asked.set] for part in ("--set", one)]
        command = [sys.executable, "-m", "dragoman", "train", RECIPE, "--data", same["data"], "--out", run, *options]
        stop_after(list(map(str, command)), dict(os.environ), updates=asked.updates)
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    asked.out.write_text(json.dumps(reports(list(map(json.loads, lines)), asked.updates)), encoding="utf-8")


def settings(same: dict[str, Any]) -> list[str]:
    """Where the recipe differs from what all programs do here."""
    return [
        *(f"model.dropout.{place}={same['dropout']}" for place in ("embedding", "residual", "feed_forward")),
        f"training.batch_tokens={same['batch_tokens']}",
        "training.moving_average=null",
        f"training.report={same['report']}",
    ]


def reports(events: list[dict[str, Any]], updates: int) -> list[dict[str, float]]:
    """Speeds and losses; a training goes some updates further before it stops."""
    wanted = ("update", "loss", "tokens_per_second")
    return [
        {key: event[key] for key in wanted}
        for event in events
        if event["event"] == "updated" and event["update"] <= updates
    ]


if __name__ == "__main__":
    main()
