"""Scores of the two last checkpoints of a run, on its validation and test set: how good it was after so many minutes.

    python benchmarks/multi30k/checkpoints.py runs/multi30k-fast --out benchmarks/multi30k/fast/checkpoints.json

Of each the weights of the last update and their moving average, as the run would have ended with them there. The paths
of its corpora are those that it was started with.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import dragoman
from dragoman.data.readers import lines
from dragoman.evaluation import corpus_score
from dragoman.models.weights import save_tensors
from dragoman.runs.folder import RunFolder
from dragoman.training.checkpoint import Checkpoints


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    run = RunFolder(arguments.run)
    experiment = run.read_config()
    data, metric = experiment.data, experiment.metrics[0]
    texts = {
        name: [[text for _, text in lines(Path(file))] for file in (pairs.source, pairs.target)]
        for name, pairs in (("valid", data.valid), ("test", data.test))
    }
    checkpoints = Checkpoints(run.checkpoints, keep=1)
    found = []
    for update in checkpoints.updates()[-2:]:  # of earlier ones the moving average is not kept
        checkpoint = checkpoints.load(update)
        progress = checkpoint.progress
        row = {"update": update, "minutes": round(progress.seconds / 60, 1), "target_tokens": progress.tokens}
        candidates = {"last": checkpoint.model, "moving average": checkpoint.average}
        for kind, weights in candidates.items():
            if weights is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                at = Path(folder) / "run"
                shutil.copytree(run.path, at, ignore=shutil.ignore_patterns("checkpoints", "cache"))
                save_tensors(RunFolder(at).weights, weights)
                translator = dragoman.load(at)
                row[kind] = {
                    name: round(corpus_score(translator.translate(source), [target], metric).value, 2)
                    for name, (source, target) in texts.items()
                }
        found.append(row)
        print(row, flush=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
