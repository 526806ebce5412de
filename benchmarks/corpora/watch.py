"""Run a command and write down the memory of its process, twice a second.

    python benchmarks/corpora/watch.py memory.json -- dragoman data prepare ... --out prepared

`anonymous` is what the process holds itself; `file` are pages of mapped files, which the system takes back as it likes.
"""

import json
import subprocess
import sys
import time
from pathlib import Path


def sample(process: int) -> dict[str, float]:
    """Megabytes of a process by kind; nothing once it has ended."""
    try:
        rows = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    named = {row.split(":")[0]: row.split()[1] for row in rows if row.startswith("Rss")}
    return {name[3:].lower(): round(int(size) / 1024, 1) for name, size in named.items()}


def main() -> int:
    out, _, *command = sys.argv[1:]
    began, samples = time.monotonic(), []
    process = subprocess.Popen(command)
    while process.poll() is None:
        if found := sample(process.pid):
            samples.append({"seconds": round(time.monotonic() - began, 1), **found})
        time.sleep(0.5)
    Path(out).write_text(json.dumps({"samples": samples}) + "\n", encoding="utf-8")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
