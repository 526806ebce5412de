"""`dragoman data prepare` by one process and by Ray with two workers: seconds of the whole command, and the same files.

    python benchmarks/corpora/engines.py '/tmp/corpus/synthetic.0[01]' --tokenizer tokenizer.json --work /tmp/engines \\
        --out ray.json
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ENGINES = {"single": ["--engine", "single"], "ray, 2 workers": ["--engine", "ray", "--workers", "2"]}


def digest(folder: Path) -> str:
    """Of all files of a folder, with their names."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return whole.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="what the names of the files begin with; a pattern in quotes")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    facts: dict[str, object] = {"cores": os.cpu_count()}
    sides = [f"--{side}={given.corpus}.{side}.gz" for side in ("source", "target")]
    digests, seconds = {}, {name: [] for name in ENGINES}
    for _ in range(given.repeats):
        for name, options in ENGINES.items():
            shutil.rmtree(given.work, ignore_errors=True)
            given.work.mkdir(parents=True)
            began = time.monotonic()
            command = [sys.executable, "-m", "dragoman", "data", "prepare", *sides, *options]
            out = given.work / "prepared"
            subprocess.run([*command, "--tokenizer", str(given.tokenizer), "--out", str(out)], check=True)
            seconds[name].append(round(time.monotonic() - began, 1))
            digests[name] = digest(out)
            index = json.loads((out / "index.json").read_text(encoding="utf-8"))
            facts |= {"lines": index["report"]["read"], "kept": index["report"]["kept"]}
    facts |= {"seconds": seconds, "same files": len(set(digests.values())) == 1}
    given.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    print(facts)


if __name__ == "__main__":
    main()
