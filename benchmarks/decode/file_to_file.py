"""From file to file: `dragoman translate` beside scripts on CTranslate2 and Hugging Face, each a process of its own.

Hugging Face is asked for the first line alone.

    python -m benchmarks.decode.file_to_file RUN --folder /tmp/converted --source FILE --reference FILE --output FILE

needs `pip install ctranslate2 transformers`. RUN is a trained run of `tiny`, `small` or `base`. The programs translate
the whole file in turns, and a file with its first line alone, which tells the start apart. Seconds are those of whole
processes; so is the peak of memory.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent
WAYS = ((1, 1), (1, 2), (2, 1))
"""Translators of CTranslate2 side by side, and threads of each."""
PAUSE = 0.3
Commands = Mapping[str, Sequence[str]]


def commands(run: Path, folder: Path, *, beam: int, huggingface: bool) -> dict[str, list[str]]:
    """The programs by name, to which the files to read and to write are still to be added."""
    python, tokenizer = sys.executable, str(run / "tokenizer.json")
    ours = [python, "-m", "dragoman", "translate", "--length-penalty", "1"]  # which the others have without being asked
    found = {f"dragoman {compute}": [*ours, str(folder / f"dragoman-{compute}")] for compute in ("int8", "float32")}
    for compute in ("int8", "float32"):
        script = [python, str(SCRIPTS / "with_ctranslate2.py"), str(folder / f"ctranslate2-{compute}"), tokenizer]
        for translators, each in WAYS if compute == "int8" else WAYS[:1]:
            ways = ["--compute", compute, "--translators", str(translators), "--threads", str(each)]
            found[f"ctranslate2 {compute}/{translators}x{each}"] = [*script, *ways]
    if huggingface:
        script = [python, str(SCRIPTS / "with_huggingface.py"), str(run), tokenizer]
        found["huggingface float32"] = script
    return {name: [*command, "--beam", str(beam)] for name, command in found.items()}


def convert(run: Path, folder: Path) -> None:
    """The run as each program reads it, in a process of its own: this one is to stay small."""
    code = (
        "import sys; from pathlib import Path; from benchmarks.decode.converting import convert; "
        "convert(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    subprocess.run([sys.executable, "-c", code, str(run), str(folder)], check=True)


def timed(name: str, command: Sequence[str], source: Path, target: Path) -> tuple[float, float]:
    """Seconds of a process, and the most memory that it had, in mebibytes."""
    files = ["--input", str(source), "--output", str(target)]
    if not name.startswith("dragoman"):
        files = [str(source), str(target)]
    begun = time.perf_counter()
    process = subprocess.Popen([*command, *files])
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{name} ended with {process.returncode}")
    time.sleep(PAUSE)
    return seconds, used.ru_maxrss / 1024


def measured(
    programs: Commands, sources: Mapping[str, Path], folder: Path, *, rounds: int, limit: float
) -> dict[str, Any]:
    """Seconds and memory of each program for each file, round by round; none is begun after `limit` seconds."""
    begun = time.monotonic()
    order = random.Random(2)
    found: dict[str, Any] = {name: {work: [] for work in sources} for name in programs}
    for name, command in programs.items():
        timed(name, command, sources["one"], folder / "warm.txt")
    for _ in range(rounds):
        if time.monotonic() - begun > limit:
            break
        for work, source in sources.items():
            for name in order.sample(list(programs), len(programs)):
                if work == "whole" and name.startswith("huggingface"):
                    continue
                found[name][work].append(timed(name, programs[name], source, output(folder, name, work)))
    return found


def output(folder: Path, name: str, work: str) -> Path:
    """What a program writes."""
    return folder / f"{name.replace(' ', '-').replace('/', '-')}.{work}.txt"


def summary(found: Mapping[str, Any]) -> dict[str, Any]:
    """Medians: seconds of the whole file, of one line, and of the one without the other; peaks of memory."""
    rows: dict[str, Any] = {}
    for name, works in found.items():
        rows[name] = row = {}
        for work, some in works.items():
            if some:
                row[f"{work}_seconds"] = round(statistics.median(seconds for seconds, _ in some), 3)
                row[f"{work}_mebibytes"] = round(statistics.median(memory for _, memory in some), 1)
        if works["whole"]:
            apart = [whole - one for (whole, _), (one, _) in zip(works["whole"], works["one"], strict=True)]
            row["without_start_seconds"] = round(statistics.median(apart), 3)
    return rows


def scores(folder: Path, programs: Commands, reference: Path) -> dict[str, Any]:
    """BLEU of what each program wrote, and how many lines are those of float32 in the same program, or of ours."""
    from dragoman.evaluation import Bleu, corpus_score

    outputs = {
        name: (folder / f"{name.replace(' ', '-').replace('/', '-')}.whole.txt")
        .read_text(encoding="utf-8")
        .splitlines()
        for name in programs
        if not name.startswith("huggingface")
    }
    expected = reference.read_text(encoding="utf-8").splitlines()
    found = {}
    for name, lines in outputs.items():
        own = "dragoman float32" if name.startswith("dragoman") else "ctranslate2 float32/1x1"
        found[name] = {
            "bleu": round(corpus_score(lines, [expected], Bleu()).value, 2),
            "same_as_float32": same(lines, outputs[own]),
            "same_as_dragoman_float32": same(lines, outputs["dragoman float32"]),
        }
    return found


def same(lines: Sequence[str], others: Sequence[str]) -> int:
    return sum(one == other for one, other in zip(lines, others, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--folder", type=Path, required=True, help="for the models and what they write")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, help="without it, nothing is scored")
    parser.add_argument("--huggingface", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=250, help="seconds after which no round is begun")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    convert(asked.run, asked.folder)
    one = asked.folder / "one.txt"
    one.write_text(asked.source.read_text(encoding="utf-8").partition("\n")[0] + "\n", encoding="utf-8")
    programs = commands(asked.run, asked.folder, beam=asked.beam, huggingface=asked.huggingface)
    found = measured(
        programs, {"whole": asked.source, "one": one}, asked.folder, rounds=asked.rounds, limit=asked.limit
    )
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg(),
        "versions": {name: version(name) for name in ("ctranslate2", "transformers", "torch", "numpy")},
        "lines": sum(1 for _ in asked.source.open(encoding="utf-8")),
        "beam": asked.beam,
        "rounds": len(found["dragoman int8"]["one"]),
        "programs": summary(found),
        "scores": {} if asked.reference is None else scores(asked.folder, programs, asked.reference),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if asked.output is not None:
        asked.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
