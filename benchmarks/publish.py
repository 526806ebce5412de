"""Take from run folders what may be published: configuration, metrics, scores and environment.

    python benchmarks/publish.py benchmarks/multi30k tokenised=runs/multi30k raw=runs/multi30k-raw --data FOLDER

Neither weights nor texts are taken, and of paths only what follows FOLDER. Every run becomes a folder of its name.
"""

import argparse
import shutil
from pathlib import Path

PUBLISHED = ("config.yaml", "metrics.jsonl", "scores.json", "environment.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("into", type=Path, help="folder of the benchmark")
    parser.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora, which is left out of paths")
    arguments = parser.parse_args()
    for name, run in arguments.runs:
        publish(Path(run), arguments.into / name, root=arguments.data.resolve())


def publish(run: Path, into: Path, *, root: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for name in PUBLISHED:
        shutil.copyfile(run / name, into / name)
    for name in ("config.yaml", "environment.json"):
        text = (into / name).read_text()
        (into / name).write_text(text.replace(f"{root}/", ""))


if __name__ == "__main__":
    main()
