"""`dragoman train` as a process: from two files to a translator, and every bad input answered with one message."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.small_runs import command, dragoman, environment, hashes, small_options, write_corpus

pytestmark = pytest.mark.slow

FILES = ("--source", "train.en", "--target", "train.de")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with a corpus and two runs: `run`, finished, and `other`, with another tokenizer."""
    folder = tmp_path_factory.mktemp("trained")
    write_corpus(folder)
    first = dragoman("train", *FILES, "--out", "run", *small_options(), cwd=folder)
    assert first.returncode == 0, first.stderr
    (folder / "first.txt").write_text(first.stderr, encoding="utf-8")
    other = {"tokenizer__kind": "characters", "training__length": "{kind: updates, count: 1}"}
    second = dragoman("train", *FILES, "--out", "other", *small_options(**other), cwd=folder)
    assert second.returncode == 0, second.stderr
    return folder


@pytest.fixture
def folder(trained, tmp_path) -> Path:
    """A copy of that folder to be harmed."""
    return Path(shutil.copytree(trained, tmp_path / "work"))


def refused(answer: subprocess.CompletedProcess[str], *parts: str) -> None:
    """The answer is exit code 2 and exactly one message of one line, which holds all the parts."""
    assert answer.returncode == 2, answer.stderr
    assert answer.stdout == ""
    messages = [line for line in answer.stderr.splitlines() if line.startswith("dragoman: ")]
    assert len(messages) == 1, answer.stderr
    assert messages[0] == answer.stderr.splitlines()[-1]
    assert "Traceback" not in answer.stderr
    for part in parts:
        assert part in messages[0]


def test_two_files_are_enough_and_what_was_chosen_is_said(trained):
    said = (trained / "first.txt").read_text(encoding="utf-8")
    for part in (
        "device: cpu",
        "automatic configuration",
        "data.valid_size",
        "preset",
        "nano",
        "estimated time",
        "tokens/s",
    ):
        assert part in said
    assert "training.batch_tokens" not in said  # given by --set, so not chosen
    assert "training.length" not in said
    assert "dragoman translate run --input FILE" in said


def test_the_folder_holds_what_the_design_says(trained):
    names = {path.name for path in (trained / "run").iterdir()}
    assert names == {
        "README.md",
        "checkpoints",
        "config.yaml",
        "environment.json",
        "metrics.jsonl",
        "model.safetensors",
        "scores.json",
        "tokenizer.json",
    }
    configuration = yaml.safe_load((trained / "run" / "config.yaml").read_text(encoding="utf-8"))
    assert configuration["model"]["d_model"] == 16
    assert configuration["training"]["label_smoothing"] == 0.1
    assert [path.name for path in trained.rglob(".*.tmp")] == []
    for name in ("README.md", "environment.json"):
        assert str(trained) not in (trained / "run" / name).read_text(encoding="utf-8")


def test_what_was_trained_translates_and_scores(trained):
    texts = "two dogs play .\n\na small man sleeps .\n"
    (trained / "in.txt").write_text(texts, encoding="utf-8")
    answer = dragoman("translate", "run", "--input", "in.txt", "--beam", "2", cwd=trained)
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""
    scored = dragoman("score", "run", "--source", "train.en", "--target", "train.de", cwd=trained)
    assert scored.returncode == 0, scored.stderr
    assert len(scored.stdout.splitlines()) == 300


def test_a_configuration_file_is_obeyed(folder):
    tree = {
        "preset": "nano",
        "data": {"train": {"kind": "files", "source": "train.en", "target": "train.de"}, "valid_size": 17},
        "tokenizer": {"kind": "words", "shared": False},
        "model": {"d_model": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "tie_embeddings": "target"},
        "training": {"max_steps": 2, "translate": False},
        "metrics": [{"kind": "exact"}],
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    answer = dragoman("train", "small.yaml", "--out", "made/by/file", "--set", "training.seed=7", cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert "automatic configuration" not in answer.stderr
    environment_of_run = json.loads((folder / "made/by/file/environment.json").read_text(encoding="utf-8"))
    assert environment_of_run["seed"] == 7
    scores = json.loads((folder / "made/by/file/scores.json").read_text(encoding="utf-8"))
    assert [score["metric"] for score in scores["scores"]["valid"]] == ["exact"]


ASKED_FOR = {
    "a typo in a key": (["--set", "training.warmpu=3"], ["training.warmpu: no such key", "Did you mean", "warmup"]),
    "a wrong type": (["--set", "training.seed=many"], ["training.seed = 'many'", "valid integer"]),
    "a wrong group": (["--set", "training=5"], ["training = 5"]),
    "heads that do not divide the size": (
        ["--set", "model.num_heads=3"],
        ["model.num_heads = 3 does not divide model.d_model"],
    ),
    "a key without effect": (
        ["--set", "training.validate_bleu=false", "--set", "training.validation_beam_size=3"],
        ["training.validation_beam_size = 3 has no effect with training.validate_bleu = false"],
    ),
    "an unknown preset": (["--set", "preset=tinny"], ["preset: 'tinny' is not known. Did you mean tiny?"]),
    "an unknown device": (["--device", "cuda:77"], ["--device cuda:77: not available here"]),
    "compiling on a CPU": (
        ["--set", "training.compile=true"],
        ["training.compile = true is for GPUs", "set it to false"],
    ),
    "a budget below a sentence": (["--set", "training.batch_tokens=5"], ["exceed the budget of 5", "raise the budget"]),
    "one side": (["--valid-source", "train.en"], ["the valid corpus needs both sides"]),
    "a folder of data without a file": (["--data", "elsewhere"], ["--data has no effect"]),
}


@pytest.fixture(scope="module")
def answers(trained, tmp_path_factory) -> dict[str, subprocess.CompletedProcess[str]]:
    """What each of them is answered, two at a time, in one folder that none of them may change."""
    folder = Path(shutil.copytree(trained, tmp_path_factory.mktemp("asked") / "work"))
    before = hashes(folder)

    def ask(name: str) -> subprocess.CompletedProcess[str]:
        kept = [] if "training=5" in ASKED_FOR[name][0] else small_options()
        return dragoman("train", *FILES, "--out", f"new {name}", *kept, *ASKED_FOR[name][0], cwd=folder)

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(ASKED_FOR, pool.map(ask, ASKED_FOR), strict=True))
    assert hashes(folder) == before
    return found


@pytest.mark.parametrize("name", ASKED_FOR)
def test_what_cannot_be_obeyed_is_one_message(answers, name):
    refused(answers[name], *ASKED_FOR[name][1])


TEXTS = {
    "an empty corpus": (b"", b"", ["train.en", "empty"]),
    "a corpus of one sentence": (b"two dogs\n", b"zwei Hunde\n", ["1 of 1 examples are left", "at least 8"]),
    "one line of 100,000 words": (b"dog " * 100_000, b"Hund " * 100_000, ["0 of 1", "1 too long", "data.cleaning"]),
    "unequal line counts": (b"a\nb\nc\n", b"a\nb\n", ["train.de", "2 lines", "train.en"]),
    "Latin-1": (b"caf\xe9\n" * 9, b"Kaffee\n" * 9, ["train.en:1: not UTF-8"]),
    "a null character": (b"a\nb\x00\n", b"a\nb\n", ["train.en:2"]),
}


@pytest.fixture(scope="module")
def readings(tmp_path_factory) -> dict[str, subprocess.CompletedProcess[str]]:
    """What training on each of them is answered, two at a time; each folder stays as it was."""

    def read(name: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path_factory.mktemp("texts")
        (folder / "train.en").write_bytes(TEXTS[name][0])
        (folder / "train.de").write_bytes(TEXTS[name][1])
        before = hashes(folder)
        answer = dragoman("train", *FILES, "--out", "new", *small_options(), cwd=folder)
        assert hashes(folder) == before
        return answer

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(TEXTS, pool.map(read, TEXTS), strict=True))


@pytest.mark.parametrize("name", TEXTS)
def test_texts_that_cannot_be_learnt_from_are_one_message(readings, name):
    refused(readings[name], *TEXTS[name][2])


def test_a_line_of_100_000_words_among_others_is_left_out_and_reported(folder):
    for name, word in (("train.en", "dog"), ("train.de", "Hund")):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(f"{word} " * 100_000 + "\n")
    answer = dragoman(
        "train", *FILES, "--out", "new", *small_options(training__length="{kind: updates, count: 1}"), cwd=folder
    )
    assert answer.returncode == 0, answer.stderr
    assert "too long" in answer.stderr
    assert "line 301" in answer.stderr


def test_a_held_out_line_of_100_000_words_is_refused_before_training(folder):
    write_corpus(folder, pairs=11, seed=2, name="valid")
    for name, word in (("valid.en", "dog"), ("valid.de", "Hund")):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(f"{word} " * 100_000 + "\n")
    before = hashes(folder)
    held_out = ("--valid-source", "valid.en", "--valid-target", "valid.de")
    answer = dragoman("train", *FILES, *held_out, "--out", "new", *small_options(), cwd=folder)
    refused(answer, "valid.en and valid.de, line 12", "65,536 tokens")
    assert hashes(folder) == before


def test_an_unreadable_file_is_one_message(folder):
    before = hashes(folder)
    (folder / "locked.en").write_text("two dogs\n", encoding="utf-8")
    (folder / "locked.en").chmod(0)
    locked = [] if os.access(folder / "locked.en", os.R_OK) else [("locked.en", "Permission denied")]  # root may read
    for name, reason in [("nowhere.en", "No such file"), ("run", "is a folder"), *locked]:
        answer = dragoman("train", "--source", name, "--target", "train.de", "--out", "new", cwd=folder)
        refused(answer, f"{name}: ", reason)
    (folder / "locked.en").unlink()
    assert hashes(folder) == before


def test_a_run_folder_is_never_overwritten(folder):
    (folder / "full").mkdir()
    (folder / "full" / "letter.txt").write_text("dear\n", encoding="utf-8")
    before = hashes(folder)
    answer = dragoman("train", *FILES, "--out", "run", *small_options(), cwd=folder)
    refused(answer, "run: exists already and is never overwritten", "--resume run", "--out")
    refused(dragoman("train", *FILES, "--out", "full", cwd=folder), "full: exists already", "choose another place")
    refused(dragoman("train", *FILES, "--out", "train.en/run", cwd=folder), "train.en/run: cannot be made")
    refused(dragoman("train", *FILES, cwd=folder), "where should the run be written? Give a folder by --out")
    assert hashes(folder) == before


def test_what_cannot_be_resumed_is_one_message(folder):
    before = hashes(folder)
    refused(dragoman("train", "--resume", "run", cwd=folder), "run: its training has ended", "dragoman translate run")
    refused(dragoman("train", "--resume", "nowhere", cwd=folder), "nowhere: no run folder")
    refused(dragoman("train", "--resume", "run", "--set", "training.seed=2", cwd=folder), "leave the other options out")
    assert hashes(folder) == before


def test_a_truncated_checkpoint_is_one_message_that_names_the_way_out(folder):
    run = folder / "run"
    (run / "model.safetensors").unlink()
    latest = max((run / "checkpoints").iterdir())
    whole = (latest / "model.safetensors").read_bytes()
    (latest / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    before = hashes(folder)
    answer = dragoman("train", "--resume", "run", cwd=folder)
    refused(answer, f"run/checkpoints/{latest.name}: the checkpoint is damaged", "delete this folder to go on")
    assert hashes(folder) == before
    shutil.rmtree(latest)
    assert dragoman("train", "--resume", "run", cwd=folder).returncode == 0


def test_damaged_weights_are_one_message(folder):
    weights = folder / "run" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    answer = dragoman("translate", "run", "--input", "train.en", cwd=folder)
    refused(answer, "run/model.safetensors: damaged")


def test_the_tokenizer_of_another_run_is_one_message(folder):
    shutil.copy(folder / "other" / "tokenizer.json", folder / "run" / "tokenizer.json")
    before = hashes(folder)
    answer = dragoman("translate", "run", "--input", "train.en", cwd=folder)
    refused(answer, "run/tokenizer.json: is not the tokenizer this run was trained with", "put back")
    (folder / "run" / "environment.json").unlink()  # then the shapes of the weights still tell
    refused(dragoman("translate", "run", "--input", "train.en", cwd=folder), "belong to another configuration")
    del before["run/environment.json"]
    assert hashes(folder) == before


def test_a_corpus_that_changed_is_not_gone_on_with(folder):
    (folder / "run" / "model.safetensors").unlink()
    with (folder / "train.en").open("a", encoding="utf-8") as source, (folder / "train.de").open("a") as target:
        source.write("two more dogs\n")
        target.write("zwei Hunde mehr\n")
    before = hashes(folder)
    refused(dragoman("train", "--resume", "run", cwd=folder), "has changed since the run in run began")
    assert hashes(folder) == before


def small_files() -> None:
    """No file of this process may grow beyond 40,000 bytes: a disk that is full for large files only."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))


def test_a_disk_that_refuses_is_one_message(folder):
    before = hashes(folder)
    answer = subprocess.run(
        command("train", *FILES, "--out", "new", *small_options(model__size=64)),
        cwd=folder,
        env=environment(folder),
        preexec_fn=small_files,
        capture_output=True,
        text=True,
        timeout=120,
    )
    refused(answer, "new/", "cannot be written (File too large)")
    assert hashes(folder) == before


def test_a_disk_without_space_is_one_message_and_harms_nothing(folder):
    """A file system of 300 KB, mounted in a namespace of its own where the machine lets an ordinary user do so."""
    probe = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    if probe.returncode:
        pytest.skip(f"no file system may be mounted here: {probe.stderr.decode().strip()}")
    before = hashes(folder)
    (folder / "disk").mkdir()
    training = command("train", *FILES, "--out", "disk/new", *small_options(model__size=32))
    resuming = command("train", "--resume", "disk/new")
    mount = ["mount", "-t", "tmpfs", "-o"]
    script = f"""
        {" ".join([*mount, "size=300k"])} none disk && {subprocess.list2cmdline(training)}
        echo "code $?"; ls -A disk/new/checkpoints
        {" ".join([*mount, "remount,size=30m"])} none disk && {subprocess.list2cmdline(resuming)}
        echo "code $?"; ls disk/new/model.safetensors
    """
    answer = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], cwd=folder, env=environment(folder), capture_output=True, text=True
    )
    messages = [line for line in answer.stderr.splitlines() if line.startswith("dragoman: ")]
    assert len(messages) == 1, answer.stderr
    assert "No space left on device" in messages[0]
    assert "free some space" in messages[0]
    assert answer.stdout.splitlines() == ["code 2", "000000000", "code 0", "disk/new/model.safetensors"], answer.stderr
    (folder / "disk").rmdir()
    assert hashes(folder) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_saves_and_says_how_to_go_on(folder, number):
    forever = small_options(training__length="{kind: updates, count: 1000000}", training__report=1)
    training = command("train", *FILES, "--out", "new", *forever)
    with subprocess.Popen(training, cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step 5/"):
                break
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait(timeout=60) == 2
    assert "stopping at the next safe point" in said
    last = said.splitlines()[-1]
    assert last.startswith("dragoman: stopped after update ")
    assert last.endswith("everything is saved. Go on with: dragoman train --resume new")
    update = int(last.split("update ")[1].split(";")[0])
    assert max(int(path.name) for path in (folder / "new" / "checkpoints").iterdir()) == update


def test_two_processes_do_not_train_in_one_folder(folder):
    forever = small_options(training__length="{kind: updates, count: 1000000}", training__report=1)
    training = command("train", *FILES, "--out", "new", *forever)
    with subprocess.Popen(training, cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(folder / "new" / "metrics.jsonl")
            refused(dragoman("train", "--resume", "new", cwd=folder), "new: another process is training in it")
        finally:
            process.kill()


def wait_for(path: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not appear"
        time.sleep(0.02)
