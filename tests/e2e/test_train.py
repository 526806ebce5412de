"""`dragoman train` as a process: from two files to a translator, and errors as one message each."""

import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import termios
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
    """Folder with a corpus and two finished runs: `run`, and `other` with another tokenizer."""
    folder = tmp_path_factory.mktemp("trained")
    write_corpus(folder)
    first = dragoman("train", *FILES, "--out", "run", *small_options(), cwd=folder)
    assert first.returncode == 0, first.stderr
    (folder / "first.txt").write_text(first.stderr, encoding="utf-8")
    other = {"tokenizer__kind": "characters", "training__max_steps": 1}
    second = dragoman("train", *FILES, "--out", "other", *small_options(**other), cwd=folder)
    assert second.returncode == 0, second.stderr
    return folder


@pytest.fixture
def folder(trained, tmp_path) -> Path:
    """Copy of that folder."""
    return Path(shutil.copytree(trained, tmp_path / "work"))


def refused(answer: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Check exit code 2 and exactly one message of one line that contains all parts."""
    assert answer.returncode == 2, answer.stderr
    assert answer.stdout == ""
    messages = [line for line in answer.stderr.splitlines() if line.startswith("dragoman: ")]
    assert len(messages) == 1, answer.stderr
    assert messages[0] == answer.stderr.splitlines()[-1]
    assert "Traceback" not in answer.stderr
    for part in parts:
        assert part in messages[0]


def test_train_from_two_files_shows_its_configuration(trained):
    said = (trained / "first.txt").read_text(encoding="utf-8")
    for part in (
        "device: cpu",
        "automatic configuration",
        "data.valid_size",
        "preset",
        "nano",
        "pairs for training are few: a few thousand pairs rarely give a useful translator",
        "tokens/s",
        "note: The validation scores are not good enough for a useful translation model. BLEU is ",
    ):
        assert part in said
    assert "training.batch_tokens" not in said  # given by --set, so not chosen
    assert "training.max_epochs" not in said
    assert "dragoman translate run --input FILE" in said


def test_files_of_the_run_folder(trained):
    names = {path.name for path in (trained / "run").iterdir()}
    assert names == {
        "README.md",
        "checkpoints",
        "config.yaml",
        "environment.json",
        "familiarity.safetensors",
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


def test_trained_run_translates_and_scores(trained):
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


def test_train_from_a_configuration_file(folder):
    tree = {
        "preset": "nano",
        "data": {"train": {"kind": "files", "source": "train.en", "target": "train.de"}, "valid_size": 17},
        "tokenizer": {"kind": "words", "shared": False},
        "model": {"d_model": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "tie_embeddings": "target"},
        "training": {"max_steps": 2, "validate_bleu": False},
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


WRONG_OPTIONS = {
    "a typo in a key": (["--set", "training.warmpu=3"], ["training.warmpu: no such key", "Did you mean", "warmup"]),
    "a wrong type": (["--set", "training.seed=many"], ["training.seed", "many", "must be an integer"]),
    "a wrong group": (["--set", "training=5"], ["training = 5"]),
    "a value for a group": (["--set", "model.dropout=0.1"], ["--set model.dropout = 0.1: is a group of settings. Set"]),
    "a key of another toolkit": (
        ["--set", "training.lr=1"],
        ["--set training.lr: no such key. Did you mean training.optimizer.learning_rate?"],
    ),
    "a kind of another toolkit": (
        ["--set", "tokenizer=sentencepiece"],
        ["--set tokenizer.kind = 'sentencepiece': no such kind. Did you mean bpe or unigram?"],
    ),
    "heads that do not divide the size": (
        ["--set", "model.num_heads=3"],
        ["model.num_heads = 3 does not divide model.d_model"],
    ),
    "a key without effect": (
        ["--set", "training.validate_bleu=false", "--set", "training.validation_beam_size=3"],
        ["training.validation_beam_size = 3 has no effect with training.validate_bleu = false"],
    ),
    "an unknown preset": (["--set", "preset=tinny"], ["preset: 'tinny' does not exist. Did you mean tiny?"]),
    "an unknown device": (["--device", "cuda:77"], ["--device cuda:77: is not available here"]),
    "compiling on a CPU": (
        ["--set", "training.compile=true"],
        ["training.compile = true"],
    ),
    "a budget below a sentence": (
        ["--set", "training.batch_tokens=5"],
        ["exceed the budget of 5", "training.batch_tokens"],
    ),
    "one side": (
        ["--valid-source", "train.en"],
        ["--valid-source train.en is one side", "--valid-target too", "--valid-pairs for"],
    ),
    "a folder of data without a file": (["--data", "elsewhere"], ["--data has no effect"]),
}


@pytest.fixture(scope="module")
def answers(trained, tmp_path_factory) -> dict[str, subprocess.CompletedProcess[str]]:
    """Answers to each, two at a time, in one folder that stays unchanged."""
    folder = Path(shutil.copytree(trained, tmp_path_factory.mktemp("asked") / "work"))
    before = hashes(folder)

    def ask(name: str) -> subprocess.CompletedProcess[str]:
        kept = [] if "training=5" in WRONG_OPTIONS[name][0] else small_options()
        return dragoman("train", *FILES, "--out", f"new {name}", *kept, *WRONG_OPTIONS[name][0], cwd=folder)

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(WRONG_OPTIONS, pool.map(ask, WRONG_OPTIONS), strict=True))
    assert hashes(folder) == before
    return found


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_wrong_option_is_one_message(answers, name):
    refused(answers[name], *WRONG_OPTIONS[name][1])


TEXTS = {
    "an empty corpus": (b"", b"", ["train.en", "empty"]),
    "a corpus of one sentence": (b"two dogs\n", b"zwei Hunde\n", ["1 of 1 example is left", "at least 8"]),
    "one line of 100,000 words": (b"dog " * 100_000, b"Hund " * 100_000, ["0 of 1", "1 too long", "data.cleaning"]),
    "unequal line counts": (b"a\nb\nc\n", b"a\nb\n", ["train.de", "2 lines", "train.en"]),
    "Latin-1": (b"caf\xe9\n" * 9, b"Kaffee\n" * 9, ["train.en:1: not UTF-8"]),
    "a null character": (b"a\nb\x00\n", b"a\nb\n", ["train.en:2"]),
}


@pytest.fixture(scope="module")
def readings(tmp_path_factory) -> dict[str, subprocess.CompletedProcess[str]]:
    """Answers to training on each, two at a time; each folder stays unchanged."""

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
def test_unusable_text_is_one_message(readings, name):
    refused(readings[name], *TEXTS[name][2])


def test_overlong_line_is_left_out_and_reported(folder):
    for name, word in (("train.en", "dog"), ("train.de", "Hund")):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(f"{word} " * 100_000 + "\n")
    answer = dragoman("train", *FILES, "--out", "new", *small_options(training__max_steps=1), cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert "too long" in answer.stderr
    assert "line 301" in answer.stderr


def test_overlong_validation_line_is_refused(folder):
    write_corpus(folder, pairs=11, seed=2, name="valid")
    for name, word in (("valid.en", "dog"), ("valid.de", "Hund")):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(f"{word} " * 100_000 + "\n")
    before = hashes(folder)
    held_out = ("--valid-source", "valid.en", "--valid-target", "valid.de")
    answer = dragoman("train", *FILES, *held_out, "--out", "new", *small_options(), cwd=folder)
    refused(answer, "valid.en and valid.de, line 12", "65,536 tokens")
    assert hashes(folder) == before


def test_unreadable_file_is_one_message(folder):
    before = hashes(folder)
    (folder / "locked.en").write_text("two dogs\n", encoding="utf-8")
    (folder / "locked.en").chmod(0)
    locked = [] if os.access(folder / "locked.en", os.R_OK) else [("locked.en", "Permission denied")]  # root may read
    for name, reason in [("nowhere.en", "No such file"), ("run", "is a folder"), *locked]:
        answer = dragoman("train", "--source", name, "--target", "train.de", "--out", "new", cwd=folder)
        refused(answer, f"{name}: ", reason)
    (folder / "locked.en").unlink()
    assert hashes(folder) == before


def test_run_folder_is_never_overwritten(folder):
    (folder / "full").mkdir()
    (folder / "full" / "letter.txt").write_text("dear\n", encoding="utf-8")
    before = hashes(folder)
    answer = dragoman("train", *FILES, "--out", "run", *small_options(), cwd=folder)
    refused(answer, "run: exists, and runs are never overwritten", "--resume run", "--out")
    refused(dragoman("train", *FILES, "--out", "full", cwd=folder), "full: exists", "Choose another")
    refused(dragoman("train", *FILES, "--out", "train.en/run", cwd=folder), "train.en/run: cannot be created")
    refused(dragoman("train", *FILES, cwd=folder), "The output folder is missing")
    assert hashes(folder) == before


def test_resume_errors(folder):
    before = hashes(folder)
    refused(dragoman("train", "--resume", "run", cwd=folder), "run: the training has ended", "dragoman translate run")
    refused(dragoman("train", "--resume", "nowhere", cwd=folder), "nowhere: is not a run folder")
    longer = ("train", "--resume", "run", "--set")
    refused(dragoman(*longer, "training.seed=2", cwd=folder), "training.seed: --resume can change the length")
    refused(
        dragoman(*longer, "training.max_steps=5", cwd=folder), "training.max_steps = 5: run has reached it after 23"
    )
    refused(dragoman(*longer[:-1], "--text", "train.en", cwd=folder), "Leave the other options out")
    assert hashes(folder) == before


def test_finished_run_is_lengthened(folder):
    """The run then equals a long one, because the schedule does not depend on the length."""
    warmup = (folder / "run" / "config.yaml").read_text(encoding="utf-8").partition("warmup: ")[2].split()[0]
    options = small_options(training__max_steps=31, training__schedule__warmup=warmup)
    expected = dragoman("train", *FILES, "--out", "long", *options, cwd=folder)
    assert expected.returncode == 0, expected.stderr
    forever = command("train", "--resume", "run", "--set", "training.max_steps=1000000")
    weights = hashes(folder / "run")["model.safetensors"]
    with subprocess.Popen(forever, cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step 24/"):
                break
        process.kill()
    assert hashes(folder / "run")["model.safetensors"] == weights
    assert dragoman("translate", "run", "--input", "train.en", cwd=folder).returncode == 0
    answer = dragoman("train", "--resume", "run", "--set", "training.max_steps=31", cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert "continuing after step 23" in answer.stderr
    for name in ("model.safetensors", "config.yaml", "tokenizer.json"):
        assert hashes(folder / "run")[name] == hashes(folder / "long")[name], name
    assert not (folder / "run" / "unfinished.txt").exists()
    refused(dragoman("train", "--resume", "run", cwd=folder), "run: the training has ended")


def test_interrupted_run_is_ended_at_its_last_checkpoint(folder):
    shutil.rmtree(folder / "run")
    options = small_options(training__max_steps=1_000_000, training__num_workers=1)
    with subprocess.Popen(
        command("train", *FILES, "--out", "run", *options),
        cwd=folder,
        env=environment(folder),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step 9/"):
                break
        process.send_signal(signal.SIGINT)
        process.stderr.read()
    answer = dragoman("translate", "run", "--text", "two dogs", cwd=folder)
    refused(answer, "run: the training has not ended. Continue it with: dragoman train --resume run.")
    [end] = re.findall(r"Or end it at step [\d,]+: dragoman (train .*)", answer.stderr)
    answer = dragoman(*end.split(), cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert dragoman("translate", "run", "--text", "two dogs", cwd=folder).returncode == 0


def test_training_continues_before_a_truncated_checkpoint(folder):
    run = folder / "run"
    weights = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").unlink()
    latest = max((run / "checkpoints").iterdir())
    whole = (latest / "model.safetensors").read_bytes()
    (latest / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    answer = dragoman("train", "--resume", "run", cwd=folder)
    assert answer.returncode == 0
    assert f"warning: run/checkpoints/{latest.name}: the checkpoint is damaged" in answer.stderr
    assert (run / "checkpoints" / f"damaged-{latest.name}").is_dir()
    assert (run / "model.safetensors").read_bytes() == weights


def test_damaged_weights_are_one_message(folder):
    weights = folder / "run" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    answer = dragoman("translate", "run", "--input", "train.en", cwd=folder)
    refused(answer, "run/model.safetensors: ", "damaged")


def test_tokenizer_of_another_run_is_one_message(folder):
    shutil.copy(folder / "other" / "tokenizer.json", folder / "run" / "tokenizer.json")
    before = hashes(folder)
    answer = dragoman("translate", "run", "--input", "train.en", cwd=folder)
    refused(answer, "run/tokenizer.json: is not the tokenizer that the run was trained with")
    (folder / "run" / "environment.json").unlink()  # then the shapes of the weights differ
    refused(dragoman("translate", "run", "--input", "train.en", cwd=folder), "belong to another configuration")
    del before["run/environment.json"]
    assert hashes(folder) == before


def test_changed_corpus_is_refused(folder):
    (folder / "run" / "model.safetensors").unlink()
    with (folder / "train.en").open("a", encoding="utf-8") as source, (folder / "train.de").open("a") as target:
        source.write("two more dogs\n")
        target.write("zwei Hunde mehr\n")
    before = hashes(folder)
    refused(dragoman("train", "--resume", "run", cwd=folder), "has changed since the run in run started")
    assert hashes(folder) == before


def small_files() -> None:
    """Limit the files of this process to 40,000 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))


def test_file_size_limit_is_one_message(folder):
    before = hashes(folder)
    answer = subprocess.run(
        command("train", *FILES, "--out", "new", *small_options(model__d_model=64)),
        cwd=folder,
        env=environment(folder),
        preexec_fn=small_files,
        capture_output=True,
        text=True,
        timeout=120,
    )
    refused(answer, "new/", "cannot be written (File too large)")
    assert hashes(folder) == before


def test_full_disk_is_one_message_and_training_resumes(folder):
    """Mounts a file system of 300 KB in a namespace of its own."""
    probe = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    if probe.returncode:
        pytest.skip(f"no file system may be mounted here: {probe.stderr.decode().strip()}")
    before = hashes(folder)
    (folder / "disk").mkdir()
    training = command("train", *FILES, "--out", "disk/new", *small_options(model__d_model=32))
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
    assert messages[0].endswith("Free some space, and continue with: dragoman train --resume disk/new")
    assert answer.stdout.splitlines() == ["code 2", "000000000", "code 0", "disk/new/model.safetensors"], answer.stderr
    (folder / "disk").rmdir()
    assert hashes(folder) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_signal_saves_and_names_the_resume_command(folder, number):
    forever = small_options(training__max_steps=1000000, training__log_every=1)
    training = command("train", *FILES, "--out", "new", *forever)
    with subprocess.Popen(training, cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step 5/"):
                break
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait(timeout=60) == 128 + number
    assert "stopping" in said
    last = said.splitlines()[-1]
    assert last.startswith("dragoman: stopped after step ")
    step = int(re.search(r"after step ([\d,]+)", last)[1].replace(",", ""))
    resume = "dragoman train --resume new"
    assert last.endswith(f"Continue it with: {resume}. Or end it at step {step:,}: {resume} --max-steps {step}")
    assert max(int(path.name) for path in (folder / "new" / "checkpoints").iterdir()) == step


def test_closed_terminal_saves_a_checkpoint(folder):
    """The system sends SIGHUP when the terminal of a process is closed, and writing to it fails from then on."""
    training = command(
        "train", *FILES, "--out", "new", *small_options(training__max_steps=1000000, training__log_every=1)
    )
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        training,
        cwd=folder,
        env=environment(folder),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        os.close(terminal)
        shown = b""
        while b"epoch" not in shown:
            shown += os.read(ours, 2**16)
        os.close(ours)
        assert process.wait(timeout=60) == 128 + signal.SIGHUP
    [last, *_] = sorted((path.name for path in (folder / "new" / "checkpoints").iterdir()), reverse=True)
    assert int(last) > 0


def test_concurrent_training_in_one_folder_is_refused(folder):
    forever = small_options(training__max_steps=1000000, training__log_every=1)
    training = command("train", *FILES, "--out", "new", *forever)
    with subprocess.Popen(training, cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(folder / "new" / "metrics.jsonl")
            refused(dragoman("train", "--resume", "new", cwd=folder), "new: another process is training in it")
        finally:
            process.kill()


def wait_for(path: Path, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not appear"
        time.sleep(0.02)
