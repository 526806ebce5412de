"""Process that runs one command after another on hostile folders, each in a fork of an interpreter with all imports.

`python -m tests.hostile_process FOLDER` writes the valid folders, then reads names of cases from standard input and
writes an `Outcome` for each to standard output.
"""

import contextlib
import functools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.hostile_cases import CASES, Case
from tests.small_tasks import TEXT, config_of, write_texts

SECONDS = 10
"""Maximum processor time to refuse a folder."""
HANG_SECONDS = 60
"""Time after which a command is killed, also on a busy machine."""
MEBIBYTE = 2**20
HARD_LIMIT = 6 * 2**30
"""Bytes of address space, beyond the parent's, at which allocations fail; protects the machine."""
CANARY_TIME = 10**9
"""Time of the last access to every file outside, in nanoseconds; an access would change it."""


@dataclass(frozen=True)
class Outcome:
    """End of a command: exit code or negative signal, output, processor time, memory, and what happened outside."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    memory: int
    """Bytes in addition to those of a fork that does nothing."""
    size: int
    """Bytes that the hostile folder occupies."""
    outside: list[str]
    """Files outside that were created, removed, changed or read."""


def main() -> None:
    """Answer the names of cases."""
    folder, real_stdout = Path(sys.argv[1]).resolve(), os.fdopen(os.dup(1), "w")
    _import_everything()
    valid = folder / "valid"
    valid.mkdir()
    os.environ["DRAGOMAN_CACHE"] = str(valid / "cache")
    write_valid_folders(valid)
    print("ready", file=real_stdout, flush=True)
    for line in sys.stdin:
        outcome = run_case(CASES[line.strip()], valid, folder / "work")
        print(json.dumps(asdict(outcome)), file=real_stdout, flush=True)


def _import_everything() -> None:
    import torch  # noqa: F401

    from dragoman.cli import main as cli
    from dragoman.profiling import decoding_benchmark  # noqa: F401
    from dragoman.runs import auto_config, compare, evaluate, export, inspect, load, train  # noqa: F401

    for verb in cli.SUMMARIES:
        cli.build_command(verb)


def write_valid_folders(valid: Path) -> None:
    """Train the runs, export one, and prepare a corpus, in a second or two each."""
    write_texts(valid)
    runs = {"translation": "run", "language_modeling": "language_model", "classification": "classifier"}
    runs |= {"tagging": "tagger", "question_answering": "question_answerer"}
    for task, name in runs.items():
        (valid / f"{task}.yaml").write_text(yaml.safe_dump(config_of(task, valid)), encoding="utf-8")
        _succeed(valid, "train", valid / f"{task}.yaml", "--out", valid / name)
    _succeed(valid, "export", valid / "run", "--compute-type", "int8", "--shortlist", "--out", valid / "export")
    corpus = ("--source", valid / "train.en", "--target", valid / "train.de", "--set", "tokenizer.kind=words")
    _succeed(valid, "data", "prepare", *corpus, "--out", valid / "prepared")


def _succeed(folder: Path, *arguments: object) -> None:
    code, _, stderr, _ = run_in_fork(lambda: command(*arguments), folder)
    if code != 0:
        raise RuntimeError(stderr)


def run_case(case: Case, valid: Path, work: Path) -> Outcome:
    """Run the command of a case on a copy of its valid folder, in which a file was altered."""
    shutil.rmtree(work, ignore_errors=True)
    for name in ("hostile", "outside"):
        shutil.copytree(valid / case.folder, work / name)
    (work / "inner").mkdir()
    case.alter(work / "hostile")
    size = sum(path.lstat().st_blocks * 512 for path in (work / "hostile").rglob("*"))
    for path in (work / "outside").rglob("*"):
        os.utime(path, ns=(CANARY_TIME, CANARY_TIME))
    before = _state(work)
    code, stdout, stderr, usage = run_in_fork(lambda: _run(case, valid, work), work / "inner")
    after = _state(work)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return Outcome(
        code=code,
        stdout=stdout,
        stderr=stderr,
        seconds=usage.ru_utime + usage.ru_stime,
        memory=(usage.ru_maxrss - _idle_memory()) * 1024,
        size=size,
        outside=changed,
    )


@functools.cache
def _idle_memory() -> int:
    """Return the KiB that a fork of this process takes; it does not count pages of libraries that it has not used."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    return _wait(child)[1].ru_maxrss


def _state(work: Path) -> dict[str, tuple[int, ...]]:
    """Return size and times of the files outside of the hostile folder and of the results."""
    found = {}
    for path in (*(work / "outside").rglob("*"), *(work / "inner").glob("executed*"), *work.iterdir()):
        status = path.lstat()
        times = (status.st_size, status.st_mtime_ns, status.st_atime_ns) if "outside" in path.parts else (0,)
        found[str(path.relative_to(work))] = times if not path.is_dir() else (0,)
    return found


def _run(case: Case, valid: Path, work: Path) -> int:
    if case.backend == "torch":
        from dragoman import cpu_library

        cpu_library.is_installed = lambda: False
    if case.folder == "cache":
        os.environ["DRAGOMAN_CACHE"] = str(work / "hostile")
    else:
        shutil.copytree(valid / "cache", work / "inner" / "cache")
        os.environ["DRAGOMAN_CACHE"] = str(work / "inner" / "cache")
    if case.verb == "load":
        return _load(work / "hostile")
    return command(*(part.format(hostile=work / "hostile", valid=valid, text=TEXT) for part in case.arguments))


def _load(folder: Path) -> int:
    """Load and use a model in Python; report errors of dragoman as the command does."""
    from dragoman.errors import DragomanError
    from dragoman.runs.load import load

    uses: dict[str, Callable[[Any], object]] = {
        "Translator": lambda model: model.translate(TEXT),
        "Generator": lambda model: model.generate(TEXT),
        "Classifier": lambda model: model.classify(TEXT),
        "Tagger": lambda model: model.tag([TEXT.split()]),
        "QuestionAnswerer": lambda model: model.answer("after dogs", TEXT),
    }
    try:
        model = load(folder)
        uses[type(model).__name__](model)
    except DragomanError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        return 2
    return 0


def command(*arguments: object) -> int:
    """Run the command in this process and return its exit code."""
    from dragoman.cli.main import main as run_command

    sys.argv = ["dragoman", *map(str, arguments)]
    try:
        run_command()
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 0
    return 0


def run_in_fork(function: Callable[[], int], folder: Path) -> tuple[int, str, str, resource.struct_rusage]:
    """Return exit code, output, messages and use of resources of a function in a fork that works in `folder`."""
    streams = [folder.parent / name for name in ("stdout.txt", "stderr.txt")]
    child = os.fork()
    if child == 0:
        _become_command(streams, folder)
        code = 1
        try:
            code = function()
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    code, usage = _wait(child)
    stdout, stderr = (path.read_text(encoding="utf-8", errors="replace") for path in streams)
    for path in streams:
        path.unlink()
    return code, stdout, stderr, usage


def _become_command(streams: list[Path], folder: Path) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(streams, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + HARD_LIMIT, used + HARD_LIMIT))
    os.environ["COLUMNS"] = "200"
    os.chdir(folder)


def _wait(child: int) -> tuple[int, resource.struct_rusage]:
    """Return exit code, or negative signal, and use of resources of a process; kill it when it hangs."""
    end = time.monotonic() + HANG_SECONDS
    while True:
        found, status, usage = os.wait4(child, os.WNOHANG)
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # processes that the command has left
            return os.waitstatus_to_exitcode(status), usage
        if time.monotonic() > end:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.005)


class HostileProcess:
    """Handle of this process in another one."""

    def __init__(self, folder: Path) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile_process", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            env=environment,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def run(self, name: str) -> Outcome:
        """Run the case of this name."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        return Outcome(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=HANG_SECONDS)


if __name__ == "__main__":
    main()
