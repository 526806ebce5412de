"""Compare `dragoman translate` with scripts on CTranslate2 and Hugging Face, from file to file.

    python -m benchmarks.translation_speed.file_to_file RUN --folder /tmp/converted \
        --source FILE --reference FILE --name zen4

Needs `pip install ctranslate2 transformers`. RUN is a trained run of `tiny`, `small` or `base`. The programs are
processes that alternate and translate the whole file, and its first line alone to measure their start; Hugging Face
translates the first line only. Seconds and peak memory are those of whole processes.
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

from benchmarks.collect_runs import read_results, update_results

SCRIPTS = Path(__file__).parent
RESULTS = SCRIPTS / "results.json"
VARIANTS = ((1, 1), (1, 2), (2, 1))
"""Translators of CTranslate2, and threads of each."""
PAUSE = 0.3
Commands = Mapping[str, Sequence[str]]


def build_commands(run: Path, folder: Path, *, beam: int, huggingface: bool) -> dict[str, list[str]]:
    """Return the command of each program, without the files to read and to write."""
    python, tokenizer = sys.executable, str(run / "tokenizer.json")
    ours = [python, "-m", "dragoman", "translate", "--length-penalty", "1"]  # the default of the peers
    found = {f"dragoman {compute}": [*ours, str(folder / f"dragoman-{compute}")] for compute in ("int8", "float32")}
    for compute in ("int8", "float32"):
        script = [
            python,
            str(SCRIPTS / "translate_with_ctranslate2.py"),
            str(folder / f"ctranslate2-{compute}"),
            tokenizer,
        ]
        for translators, each in VARIANTS if compute == "int8" else VARIANTS[:1]:
            ways = ["--compute", compute, "--translators", str(translators), "--threads", str(each)]
            found[f"ctranslate2 {compute}/{translators}x{each}"] = [*script, *ways]
    if huggingface:
        script = [python, "-m", "benchmarks.translation_speed.translate_with_huggingface", str(run), tokenizer]
        found["huggingface float32"] = script
    return {name: [*command, "--beam", str(beam)] for name, command in found.items()}


def convert(run: Path, folder: Path) -> None:
    """Convert the run for each program, in a process of its own, so that this process stays small."""
    code = (
        "import sys; from pathlib import Path; from benchmarks.translation_speed.peer_models import convert_run; "
        "convert_run(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    subprocess.run([sys.executable, "-c", code, str(run), str(folder)], check=True)


def time_process(name: str, command: Sequence[str], source: Path, target: Path) -> tuple[float, float]:
    """Return the seconds of a process, and its peak memory in MiB."""
    files = ["--input", str(source), "--output", str(target)]
    if not name.startswith("dragoman"):
        files = [str(source), str(target)]
    start = time.perf_counter()
    process = subprocess.Popen([*command, *files])
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{name} ended with {process.returncode}")
    time.sleep(PAUSE)
    return seconds, used.ru_maxrss / 1024


def measure(
    programs: Commands, sources: Mapping[str, Path], folder: Path, *, rounds: int, limit: float
) -> dict[str, Any]:
    """Return seconds and memory of each program for each file; no round starts after `limit` seconds."""
    start = time.monotonic()
    order = random.Random(2)
    found: dict[str, Any] = {name: {work: [] for work in sources} for name in programs}
    for name, command in programs.items():
        time_process(name, command, sources["one"], folder / "warm.txt")
    for _ in range(rounds):
        if time.monotonic() - start > limit:
            break
        for work, source in sources.items():
            for name in order.sample(list(programs), len(programs)):
                if work == "whole" and name.startswith("huggingface"):
                    continue
                found[name][work].append(time_process(name, programs[name], source, output(folder, name, work)))
    return found


def output(folder: Path, name: str, work: str) -> Path:
    """Return the output file of a program."""
    return folder / f"{name.replace(' ', '-').replace('/', '-')}.{work}.txt"


def summarize(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return medians: seconds of the whole file, of one line and of their difference, and peak memory."""
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
    """Return BLEU of each program, and the lines that equal the float32 output of the same program and of ours."""
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
            "same_as_float32": count_same(lines, outputs[own]),
            "same_as_dragoman_float32": count_same(lines, outputs["dragoman float32"]),
        }
    return found


def count_same(lines: Sequence[str], others: Sequence[str]) -> int:
    return sum(one == other for one, other in zip(lines, others, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--folder", type=Path, required=True, help="folder of the models and outputs")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, help="file of references; without it, nothing is scored")
    parser.add_argument("--huggingface", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=250, help="seconds after which no round starts")
    parser.add_argument("--name", required=True, help="entry of results.json")
    arguments = parser.parse_args()
    convert(arguments.run, arguments.folder)
    one = arguments.folder / "one.txt"
    one.write_text(arguments.source.read_text(encoding="utf-8").partition("\n")[0] + "\n", encoding="utf-8")
    programs = build_commands(arguments.run, arguments.folder, beam=arguments.beam, huggingface=arguments.huggingface)
    found = measure(
        programs,
        {"whole": arguments.source, "one": one},
        arguments.folder,
        rounds=arguments.rounds,
        limit=arguments.limit,
    )
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg(),
        "versions": {name: version(name) for name in ("ctranslate2", "transformers", "torch", "numpy")},
        "lines": sum(1 for _ in arguments.source.open(encoding="utf-8")),
        "beam": arguments.beam,
        "rounds": len(found["dragoman int8"]["one"]),
        "programs": summarize(found),
        "scores": {} if arguments.reference is None else scores(arguments.folder, programs, arguments.reference),
    }
    print(json.dumps(result, indent=1))
    stored = read_results(RESULTS).get("files", {})
    update_results(RESULTS, {"files": stored | {arguments.name: result}})


if __name__ == "__main__":
    main()
