"""Checkpoints: which are kept, their content, and errors of damaged ones."""

import json
import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Event

import pytest
import torch

from dragoman.errors import RunError
from dragoman.models.weight_storage import save_tensors
from dragoman.training import checkpoint as checkpoint_module
from dragoman.training.checkpoint import (
    BestValidation,
    Checkpoint,
    CheckpointStore,
    CheckpointWarning,
    LossSums,
    Progress,
)
from dragoman.training.config import TranslationTrainingConfig


def checkpoint(update: int, *, regular: tuple[int, ...] = (), best: int | None = None, average: bool = False):
    weight = {"weight": torch.full((3, 5), float(update))}
    return Checkpoint(
        progress=Progress(
            step=update,
            position={"epoch": 2, "batch": 7},
            tokens=11,
            seconds=1.1,
            since_log=LossSums(loss=0.1 + 0.2, negative_log_likelihood=1 / 3, tokens=13),
            recent=regular,
            best=None if best is None else BestValidation(step=best, scores={"bleu": 1 / 7}),
        ),
        model=weight,
        optimizer={"weight/step": torch.tensor(float(update))},
        ema=weight if average else None,
    )


@pytest.fixture(params=[False, True], ids=["at once", "behind"])
def checkpoints(tmp_path, request) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints", keep=2, asynchronous=request.param)


@pytest.mark.parametrize(
    ("best", "stale", "improving"), [(61, 3, True), (60, 3, False), (90, 0, True), (61, 4, False), (None, 0, False)]
)
def test_training_whose_best_validation_is_recent_improves(best, stale, improving):
    progress = checkpoint(90, best=best).progress.replace(stale_validations=stale)
    config = TranslationTrainingConfig(max_steps=90, patience=4)
    assert progress.is_improving(config) == improving
    flat = progress.replace(best=BestValidation(step=1, scores={"loss": 6.5, "bleu": 0.0}))
    assert flat.is_improving(config) == (stale < 4)


def test_asynchronous_write_copies_the_state(tmp_path, monkeypatch):
    """Training continues while a checkpoint is written."""
    checkpoints = CheckpointStore(tmp_path / "checkpoints", keep=2, asynchronous=True)
    began, go_on = Event(), Event()

    def slowly(path, tensors):
        began.set()
        assert go_on.wait(timeout=30)
        save_tensors(path, tensors)

    monkeypatch.setattr(checkpoint_module, "save_tensors", slowly)
    saved = checkpoint(17, average=True)
    checkpoints.save(saved)
    assert began.wait(timeout=30)
    assert not (checkpoints.folder / "000000017").exists()
    for part in (saved.model, saved.optimizer, saved.ema):
        for tensor in part.values():
            tensor.zero_()
    go_on.set()
    found = checkpoints.load(17)
    assert torch.equal(found.model["weight"], torch.full((3, 5), 17.0))
    assert torch.equal(found.optimizer["weight/step"], torch.tensor(17.0))
    assert torch.equal(found.ema["weight"], torch.full((3, 5), 17.0))


@pytest.mark.parametrize("then", ["finish", "save", "read"])
def test_failed_asynchronous_write_raises_later(tmp_path, then):
    (tmp_path / "checkpoints").mkdir()
    checkpoints = CheckpointStore(tmp_path / "checkpoints", keep=2, asynchronous=True)
    (tmp_path / "checkpoints").rmdir()
    (tmp_path / "checkpoints").write_text("in the way")
    checkpoints.save(checkpoint(3))
    done = {"finish": checkpoints.finish, "save": partial(checkpoints.save, checkpoint(5)), "read": checkpoints.steps}
    with pytest.raises(RunError, match="cannot be written"):
        done[then]()
    checkpoints.finish()  # the error is raised once


def files(checkpoints: CheckpointStore, update: int) -> set[str]:
    checkpoints.finish()
    return {path.stem for path in (checkpoints.folder / f"{update:09d}").iterdir()}


def test_new_store_is_empty(checkpoints):
    assert checkpoints.steps() == []


def test_checkpoint_is_loaded_bit_for_bit(checkpoints):
    saved = checkpoint(17, regular=(3, 17), best=3, average=True)
    checkpoints.save(saved)
    loaded = checkpoints.load(17)
    assert loaded.progress == saved.progress
    for part in ("model", "optimizer", "ema"):
        kept, found = getattr(saved, part), getattr(loaded, part)
        assert kept.keys() == found.keys()
        assert all(torch.equal(kept[name], found[name]) for name in kept)


def test_best_recent_and_resumable_checkpoints_are_kept(checkpoints):
    regular: tuple[int, ...] = ()
    for update in (10, 20, 30, 40, 50):
        regular = (*regular, update)[-2:]
        checkpoints.save(checkpoint(update, regular=regular, best=10, average=True))
    assert checkpoints.steps() == [10, 40, 50]
    whole = {"model", "optimizer", "ema", "progress"}
    assert [files(checkpoints, update) for update in (10, 40, 50)] == [{"model", "progress"}, whole, whole]
    assert checkpoints.load(40).progress.step == 40


def test_previous_checkpoint_stays_resumable(checkpoints):
    checkpoints.save(checkpoint(0))
    checkpoints.save(checkpoint(10, regular=(10,), best=10))
    checkpoints.save(checkpoint(13, regular=(10,), best=10))  # interrupted
    checkpoints.save(checkpoint(20, regular=(10, 20), best=10))
    assert checkpoints.steps() == [10, 13, 20]
    assert checkpoints.load(13).progress.step == 13
    checkpoints.save(checkpoint(30, regular=(20, 30), best=30))
    assert checkpoints.steps() == [20, 30]


def test_average_of_checkpoints(checkpoints):
    for update, regular in ((1, (1,)), (4, (1, 4))):
        checkpoints.save(checkpoint(update, regular=regular))
    found = checkpoints.candidates(checkpoint(4, regular=(1, 4)).progress, ema=None)
    assert torch.equal(found["average of the last 2"]["weight"], torch.full((3, 5), 2.5))


def damage(path, how):
    match how:
        case "cut":
            path.write_bytes(path.read_bytes()[:-9])
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "bit":
            content = bytearray(path.read_bytes())
            content[-5] ^= 1
            path.write_bytes(content)
        case _:
            path.write_text("{}")


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "progress.json"])
@pytest.mark.parametrize("how", ["cut", "gone", "empty", "bit", "other"])
def test_damaged_latest_checkpoint_is_renamed(checkpoints, name, how):
    checkpoints.save(checkpoint(3))
    checkpoints.save(checkpoint(5))
    checkpoints.finish()
    path = checkpoints.folder / "000000005" / name
    damage(path, how)
    with pytest.warns(CheckpointWarning, match="The training continues from the checkpoint of step 3") as caught:
        found = checkpoints.load_latest()
    message = str(caught[0].message)
    assert message.startswith(f"{path.parent}: the checkpoint is damaged (")
    assert "was renamed to damaged-000000005" in message
    assert len(message.splitlines()) == 1
    assert found.progress.step == 3
    assert checkpoints.steps() == [3]
    assert (checkpoints.folder / "damaged-000000005").is_dir()
    checkpoints.save(checkpoint(5))
    assert checkpoints.load_latest().progress.step == 5


@pytest.mark.parametrize("part", ["model", "optimizer", "ema"])
def test_checkpoint_with_nan_is_damaged(checkpoints, part):
    checkpoints.save(checkpoint(3, average=True))
    bad = checkpoint(5, average=True)
    tensors = getattr(bad, part) if part == "optimizer" else {"weight": torch.full((3, 5), math.nan)}
    tensors = {name: tensor * math.inf for name, tensor in tensors.items()}
    checkpoints.save(replace(bad, **{part: tensors}))
    with pytest.warns(CheckpointWarning, match="has values that are not finite"):
        assert checkpoints.load_latest().progress.step == 3


def test_damage_of_all_checkpoints_is_the_error_of_the_latest(checkpoints):
    checkpoints.save(checkpoint(3))
    checkpoints.save(checkpoint(5))
    checkpoints.finish()
    for step in (3, 5):
        (checkpoints.folder / f"00000000{step}" / "model.safetensors").write_bytes(b"")
    with pytest.raises(RunError, match=r"000000005: the checkpoint is damaged \(.*train again in another folder"):
        checkpoints.load_latest()
    assert checkpoints.steps() == [3, 5]


def test_checkpoints_that_do_not_fit_stay(checkpoints):
    """Other settings damage no checkpoint."""
    checkpoints.save(checkpoint(3))
    checkpoints.save(checkpoint(5))

    def refuse(_):
        raise RunError("the weights belong to another configuration")

    with pytest.raises(RunError, match="another configuration"):
        checkpoints.load_latest(refuse)
    assert checkpoints.steps() == [3, 5]


def test_progress_of_damaged_checkpoints_is_skipped(checkpoints):
    assert checkpoints.latest_progress() == Progress()
    checkpoints.save(checkpoint(3))
    checkpoints.save(checkpoint(5))
    checkpoints.finish()
    damage(checkpoints.folder / "000000005" / "progress.json", "bit")
    assert checkpoints.latest_progress().step == 3
    damage(checkpoints.folder / "000000003" / "progress.json", "cut")
    with pytest.raises(RunError, match="000000005: the checkpoint is damaged"):
        checkpoints.latest_progress()


def test_damaged_older_weights_are_left_out(checkpoints):
    for step, recent in ((1, (1,)), (4, (1, 4)), (5, (1, 4, 5))):
        checkpoints.save(checkpoint(step, regular=recent, best=1))
    checkpoints.finish()
    (checkpoints.folder / "000000001" / "model.safetensors").write_bytes(b"")
    with pytest.warns(CheckpointWarning, match="selected and averaged without it"):
        found = checkpoints.candidates(checkpoint(5, regular=(1, 4, 5), best=1).progress, ema=None)
    assert found.keys() == {"last", "average of the last 2"}


def test_every_flipped_bit_of_the_progress_is_found_or_harmless(checkpoints):
    saved = checkpoint(17, regular=(3, 17), best=3)
    checkpoints.save(saved)
    checkpoints.finish()
    path = checkpoints.folder / "000000017" / "progress.json"
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 7]) + content[place + 1 :])
        with suppress(RunError):
            assert checkpoints.load_progress(17) == saved.progress
    path.write_text(saved.progress.model_dump_json())  # of a version without checksums
    assert checkpoints.load_progress(17) == saved.progress


def test_other_files_are_no_checkpoints(checkpoints):
    checkpoints.save(checkpoint(3))
    checkpoints.finish()
    for name in (".000000009.77.tmp", "notes"):
        (checkpoints.folder / name).mkdir()
    assert checkpoints.steps() == [3]


def test_fraction_of_a_training_is_that_of_its_first_limit():
    config = TranslationTrainingConfig(max_steps=100, max_epochs=2, batch_tokens=10)
    half = Progress(step=20, position={"epoch": 1, "batch": 0})
    assert half.fraction_done(config, tokens_per_epoch=1000) == 0.5
    within = half.replace(position={"epoch": 1, "batch": 50})
    assert within.fraction_done(config, tokens_per_epoch=1000) == 0.75
    assert half.replace(step=200).fraction_done(config, tokens_per_epoch=1000) == 1.0
    assert Progress().fraction_done(config, tokens_per_epoch=1000) == 0.0


@pytest.mark.parametrize(
    "change",
    [
        {"step": -3},
        {"step": 2**64},
        {"position": {"epoch": -1, "batch": 0}},
        {"position": {"epoch": "x"}},
        {"position": [1]},
        {"best": {"step": 3, "scores": {}}},
        {"best": 7},
        {"recent": 7},
        {"tokens": None},
        {"before_end": []},
    ],
)
def test_progress_with_impossible_values_is_refused(checkpoints, change):
    checkpoints.save(checkpoint(3))
    checkpoints.finish()
    path = checkpoints.folder / "000000003" / "progress.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change), encoding="utf-8")
    with pytest.raises(RunError, match="000000003: the checkpoint is damaged"):
        checkpoints.load(3)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "progress.json", "ema.safetensors"])
def test_linked_files_of_a_checkpoint_are_refused(tmp_path, checkpoints, name):
    checkpoints.save(checkpoint(3))
    checkpoints.finish()
    path = checkpoints.folder / "000000003" / name
    if path.exists():
        path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match=rf"{name}: is a symbolic link"):
        checkpoints.load(3)


def test_linked_folders_hold_no_checkpoints(tmp_path, checkpoints):
    checkpoints.save(checkpoint(3))
    checkpoints.finish()
    (checkpoints.folder / "000000005").symlink_to(checkpoints.folder / "000000003")
    assert checkpoints.steps() == [3]
    checkpoints.folder.rename(tmp_path / "outside")
    checkpoints.folder.symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match="checkpoints: is a symbolic link"):
        CheckpointStore(checkpoints.folder, keep=1)
    for load in (checkpoints.load, checkpoints.weights, checkpoints.load_progress):
        with pytest.raises(RunError, match="checkpoints: is a symbolic link"):
            load(3)
