"""Run folder: protection of existing files, locking and errors."""

import errno
import json
import os
import platform
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dragoman.atomic_files import WriteError
from dragoman.checksums import to_checked_json
from dragoman.cli.main import run
from dragoman.data.fingerprints import file_fingerprint
from dragoman.data.tokenizers import CharacterConfig, Tokenizer
from dragoman.errors import DataError, RunError, StoppedError
from dragoman.evaluation import Score
from dragoman.nn.cpu_training_ops import without_cpu_ops
from dragoman.profiling.workers_and_threads import Arrangement
from dragoman.runs.config import describe_validation, parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.runs.model_card import TrainingResult, collect_environment, environment_changes
from dragoman.runs.train import resume
from dragoman.runs.train_in_folder import _explain_resuming, _remaining_seconds
from dragoman.training.checkpoint import Progress
from dragoman.training.trainer import InterruptionError
from tests.small_runs import hashes
from tests.untrained_runs import finished_run

EXPERIMENT = parse_experiment({"preset": "nano", "data": {"train": {"kind": "tsv", "path": "x.tsv"}}})


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "en-de")


def tokenizer_of(text: str) -> Tokenizer:
    return Tokenizer.train(lambda: [(text, text)], CharacterConfig())


def test_folder_is_created_with_its_parents(folder):
    folder.create()
    assert folder.path.is_dir()
    folder.create()  # an empty folder is accepted


@pytest.mark.parametrize("name", ["config.yaml", "letter.txt"])
def test_existing_files_are_never_overwritten(folder, name):
    folder.path.mkdir(parents=True)
    (folder.path / name).write_text("dear\n", encoding="utf-8")
    before = hashes(folder.path)
    with pytest.raises(RunError, match="runs are never overwritten") as raised:
        folder.create()
    assert ("--resume" in str(raised.value)) == (name == "config.yaml")
    assert hashes(folder.path) == before


def test_temporary_files_count_as_nothing(folder):
    folder.path.mkdir(parents=True)
    (folder.path / ".config.yaml.77.tmp").write_text("da", encoding="utf-8")
    folder.create()
    assert folder.path.is_dir()
    assert not folder.config.exists()


def test_file_in_place_of_the_folder_is_refused(folder, tmp_path):
    (tmp_path / "runs").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be created"):
        folder.create()
    with pytest.raises(RunError, match="runs are never overwritten"):
        RunFolder(tmp_path / "runs").create()


def test_folder_is_removed_on_error(folder):
    folder.create()
    folder.write_config(EXPERIMENT)
    with pytest.raises(DataError, match="no corpus"), folder.remove_on_error():
        raise DataError("no corpus")
    assert not folder.path.exists()


@pytest.mark.parametrize("kept", ["checkpoints/000000000/progress.json", "model.safetensors"])
def test_folder_with_progress_stays_on_error(folder, kept):
    folder.create()
    (folder.path / kept).parent.mkdir(parents=True, exist_ok=True)
    (folder.path / kept).touch()
    with pytest.raises(KeyboardInterrupt), folder.remove_on_error():
        raise KeyboardInterrupt
    assert (folder.path / kept).exists()


def test_lock_removes_temporary_files(folder):
    (folder.checkpoints / ".000000007.99.tmp").mkdir(parents=True)
    (folder.checkpoints / ".000000007.99.tmp" / "model.safetensors").touch()
    (folder.checkpoints / "000000005").mkdir()
    (folder.path / ".tokenizer.json.99.tmp").touch()
    (folder.path / ".gitignore").touch()
    with folder.locked():
        left = {str(path.relative_to(folder.path)) for path in folder.path.rglob("*")}
    assert left == {"checkpoints", "checkpoints/000000005", ".gitignore"}


def test_locked_folder_refuses_other_processes(folder):
    folder.create()
    program = (
        "import sys; from pathlib import Path; from dragoman.runs.folder import RunFolder\n"
        f"with RunFolder(Path({str(folder.path)!r})).locked(): print('mine', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with other:
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(RunError, match="another process is training in it"), folder.locked():
            pass
        other.kill()
    with folder.locked():
        pass


def test_folder_without_a_run_is_refused(folder):
    with pytest.raises(RunError, match="is not a run folder"):
        folder.read_config()
    folder.create()
    folder.write_config(EXPERIMENT)
    assert folder.read_config() == EXPERIMENT


def test_tokenizer_of_another_run_is_refused(folder):
    folder.create()
    own, other = tokenizer_of("two dogs"), tokenizer_of("a cat")
    own.save(folder.tokenizer)
    folder.environment.write_text(json.dumps({"tokenizer": own.fingerprint}), encoding="utf-8")
    assert folder.read_tokenizer().fingerprint == own.fingerprint
    other.save(folder.tokenizer)
    with pytest.raises(RunError, match="is not the tokenizer that the run was trained with"):
        folder.read_tokenizer()


@pytest.mark.parametrize("content", ["", "{", "[1]", "null"])
def test_damaged_file_is_named(folder, content):
    folder.create()
    folder.environment.write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=r"environment\.json: damaged"):
        folder.read_environment()
    assert folder.read_scores() == {}


@pytest.mark.parametrize("name", ["scores", "environment", "export"])
def test_changed_record_differs_from_its_checksum(folder, name):
    folder.create()
    path, read = getattr(folder, name), getattr(folder, f"read_{name}")
    tree = {"weights": "best", "seconds": 9.5, "steps": 7, "tokens": 9, "scores": {}, "run": "größer"}
    path.write_text(to_checked_json(tree), encoding="utf-8")
    assert read() == tree
    path.write_text(path.read_text(encoding="utf-8").replace("9.5", "9.4"), encoding="utf-8")
    with pytest.raises(RunError, match=rf"{name}\.json: damaged \(it differs from its checksum crc32\); restore it"):
        read()
    path.write_text(json.dumps(tree), encoding="utf-8")  # as older versions wrote it
    assert read() == tree


def test_environment_names_files_without_folders(tmp_path):
    corpora = {f"{tmp_path}/train/text.en": "1a", f"{tmp_path}/valid/text.en": "2b"}
    facts = collect_environment(device=torch.device("cpu"), seed=7, tokenizer=tokenizer_of("a"), corpora=corpora)
    assert facts["corpora"] == [{"file": "text.en", "sha256": "1a"}, {"file": "text.en", "sha256": "2b"}]
    assert facts["seed"] == 7
    assert facts["torch"] == torch.__version__
    known = "dragoman torch python platform device threads cpu_ops num_workers seed git tokenizer corpora"
    assert list(facts) == known.split()  # no name of a machine or a person


def test_environment_changes():
    here = {"torch": torch.__version__, "device": "cpu", "threads": torch.get_num_threads()}
    cpu = torch.device("cpu")
    assert environment_changes(here, device=cpu) == []
    assert environment_changes({}, device=cpu) == []
    assert environment_changes(here | {"device": "cuda", "torch": "1.0"}, device=cpu) == [
        f"torch 1.0 then, {torch.__version__} now",
        "device cuda then, cpu now",
    ]
    assert environment_changes(here | {"num_workers": 2}, device=cpu, num_workers=3) == ["num_workers 2 then, 3 now"]
    with without_cpu_ops():
        assert environment_changes(here | {"cpu_ops": "avx2"}, device=cpu) == ["cpu_ops avx2 then, none now"]


def test_locked_folder_stays_on_error(folder):
    folder.create()
    with folder.locked():  # with another descriptor, like another process
        with pytest.raises(RunError, match="another process is training"), folder.remove_on_error(), folder.locked():
            pass
        assert folder.path.exists()
    with pytest.raises(DataError), folder.remove_on_error(), folder.locked():
        raise DataError("nothing to learn from")
    assert not folder.path.exists()


def test_lengthened_run_keeps_its_weights_and_is_unfinished(folder):
    folder.create()
    folder.write_config(EXPERIMENT)
    folder.lengthen(EXPERIMENT)
    assert not folder.is_finished()
    assert not folder.unfinished.exists(), "a run without weights needs no mark"
    folder.weights.write_bytes(b"weights")
    assert folder.is_finished()
    folder.lengthen(EXPERIMENT)
    assert not folder.is_finished()
    folder.check_finished()
    assert folder.weights.read_bytes() == b"weights"


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_failed_write_names_the_command_that_continues(folder, has_checkpoint, number):
    """Without a checkpoint, the folder is removed and there is nothing to continue."""
    folder.create()
    if has_checkpoint:
        (folder.checkpoints / "000000000").mkdir(parents=True)
    with pytest.raises(RunError) as raised, _explain_resuming(folder):
        raise WriteError(folder.metrics, OSError(number, os.strerror(number)))
    [message] = str(raised.value).splitlines()
    assert f"metrics.jsonl: cannot be written ({os.strerror(number)})" in message
    assert message.endswith(f"continue with: dragoman train --resume {folder.path}") == has_checkpoint
    if number == errno.ENOSPC:
        assert "ree some space" in message


def test_interruption_says_how_to_continue_and_how_to_end(folder):
    (folder.checkpoints / "000000031").mkdir(parents=True)
    resume = f"dragoman train --resume {folder.path}"
    with pytest.raises(StoppedError) as raised, _explain_resuming(folder):
        raise InterruptionError(31)
    assert str(raised.value) == (
        f"stopped after step 31; everything is saved. Continue it with: {resume}. Or end it at step 31: {resume} "
        "--max-steps 31"
    )


@pytest.mark.parametrize("changes", [{}, {"training.max_steps": 900}])
def test_export_and_run_without_checkpoints_cannot_be_resumed(tmp_path, changes):
    folder = finished_run(tmp_path / "run")
    with pytest.raises(RunError) as raised:
        resume(folder.path, overrides=changes)
    rest = f"a new run with --init-from {folder.path}."
    assert str(raised.value) == f"{folder.path}: has no checkpoint to continue from. Train {rest}"
    folder.export.write_text('{"run": "en-de"}')
    with pytest.raises(RunError) as raised:
        resume(folder.path, overrides=changes)
    assert str(raised.value) == (
        f"{folder.path}: is an exported model, which has no checkpoint to continue from. Continue the run en-de, or "
        f"train {rest}"
    )


@pytest.mark.parametrize("is_same", [True, False])
def test_remaining_time_is_measured_by_the_run_so_far(folder, is_same):
    """On the same machine with the same threads; otherwise, it is unknown until steps are measured."""
    experiment = parse_experiment(
        {"preset": "nano", "data": {"train": {"kind": "tsv", "path": "x.tsv"}}, "training": {"max_steps": 90}}
    )
    (folder.checkpoints / "000000030").mkdir(parents=True)
    (folder.checkpoints / "000000030" / "progress.json").write_text(Progress(step=30, seconds=60.0).model_dump_json())
    facts = {"device": "cpu", "num_workers": 1, "threads": 1, "platform": platform.platform() if is_same else "other"}
    folder.environment.write_text(json.dumps(facts))
    data: Any = SimpleNamespace(tokens_per_epoch=10**9)
    arrangement, device = Arrangement(1, 1), torch.device("cpu")
    seconds = _remaining_seconds(folder, experiment, data, arrangement, device=device)
    assert seconds == (pytest.approx(120.0) if is_same else None)


def test_files_that_a_run_was_trained_on_are_recognized(tmp_path):
    files = {"source": "corpora/train.*.en", "target": "corpora/train.de"}
    folder = finished_run(tmp_path / "run", {"data": {"train": files}})
    corpora = [{"file": name, "sha256": name} for name in ("train.1.en", "train.de", "valid.en", "train.fr")]
    folder.environment.write_text(json.dumps({"corpora": corpora}))
    assert folder.training_fingerprints() == {"train.1.en", "train.de"}


@pytest.mark.filterwarnings("ignore:.*cut off at its length limit")
@pytest.mark.parametrize("trained", [True, False])
def test_scores_on_training_data_are_noted(tmp_path, capsys, trained):
    pairs = tmp_path / "train.tsv"
    pairs.write_text("two dogs\tzwei Hunde\n", encoding="utf-8")
    folder = finished_run(tmp_path / "run", {"data": {"train": {"kind": "tsv", "path": str(pairs)}}})
    digest = file_fingerprint(pairs) if trained else "0"
    folder.environment.write_text(json.dumps({"corpora": [{"file": "train.tsv", "sha256": digest}]}))
    assert run(["evaluate", str(folder.path), "--pairs", str(pairs)], debug=False) == 0
    assert (f"was trained on {pairs}, so these scores say nothing" in capsys.readouterr().err) == trained


@pytest.mark.parametrize("improving", [False, True])
def test_longer_training_is_the_first_remedy_while_scores_improve(tmp_path, improving):
    RunFolder(tmp_path).write_config(EXPERIMENT)
    score = Score("BLEU", 2.0, "", "", higher_is_better=True)
    result = TrainingResult(tmp_path, "last", {"valid": [score]}, 9.0, 300, 99, improving=improving)
    longer = f"because the scores have not stopped improving: dragoman train --resume {tmp_path} --max-steps 1000. Add"
    assert (longer in str(result.low_score_note)) == improving
    assert "Add pairs" in str(result.low_score_note)


def test_info_of_an_unfinished_run_says_how_to_finish_it(tmp_path, capsys):
    folder = finished_run(tmp_path / "run", {"training": {"max_steps": 1200}})
    (folder.checkpoints / "000001007").mkdir(parents=True)
    assert run(["info", str(folder.path)], debug=False) == 0
    assert "--resume" not in capsys.readouterr().out
    folder.weights.unlink()
    assert run(["info", str(folder.path)], debug=False) == 0
    resume = f"dragoman train --resume {folder.path}"
    ending = f"Continue it with: {resume}. Or end it at step 1,007: {resume} --max-steps 1007\n"
    assert f"1,007 steps of 1,200 steps are done and saved. {ending}" in capsys.readouterr().out


def test_different_beam_sizes_of_validation_and_final_scores_are_noted():
    same = {"validation_beam_size": EXPERIMENT.decoding.beam_size}
    for training, is_noted in (({}, True), (same, False), ({"validate_bleu": False}, False)):
        tree = {"preset": "nano", "data": {"train": {"kind": "tsv", "path": "x.tsv"}}, "training": training}
        note = describe_validation(parse_experiment(tree))
        assert (note is not None) == is_noted
    assert "bleu during the training is that of beam size 1, and" in str(describe_validation(EXPERIMENT))


@pytest.mark.parametrize("name", ["checkpoints", "checkpoints/000000005", "metrics.jsonl", "tensorboard"])
def test_training_in_a_folder_with_links_is_refused(tmp_path, folder, name):
    outside = tmp_path / "outside"
    (outside / ".mine.tmp").mkdir(parents=True)
    (outside / "000000003").mkdir()
    (outside / "000000003" / "optimizer.safetensors").touch()
    (folder.path / name).parent.mkdir(parents=True)
    (folder.path / name).symlink_to(outside)
    message = rf"{name}: is a symbolic link; it may lead out of its folder. Copy its target here"
    with pytest.raises(RunError, match=message), folder.locked():
        pass
    assert sorted(str(path.relative_to(outside)) for path in outside.rglob("*")) == [
        ".mine.tmp",
        "000000003",
        "000000003/optimizer.safetensors",
    ]


def test_only_numbered_folders_are_checkpoints(tmp_path, folder):
    for name in ("000000005", "1000000000", "²", "٣", "7", "0000000008", "1" * 200, "00000000²"):
        (folder.checkpoints / name).mkdir(parents=True)
    (folder.checkpoints / "000000009").touch()
    (folder.checkpoints / "000000011").symlink_to(folder.checkpoints / "000000005")
    assert folder.last_step() == 10**9
