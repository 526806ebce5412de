"""Training configuration: defaults and errors."""

import pytest

from dragoman.config import parse
from dragoman.errors import ConfigError
from dragoman.training.config import TrainingConfig, TranslationTrainingConfig


def test_steps_replace_the_default_epochs():
    config = parse(TrainingConfig, {"max_steps": 3, "validate_every": 5})
    assert (config.max_steps, config.max_epochs, config.validate_every, config.validate_every_epochs) == (
        3,
        None,
        5,
        None,
    )


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"max_epochs": None}, "set one of them"),
        ({"max_epochs": 0}, "max_epochs = 0"),
        ({"label_smoothing": 1.0}, "label_smoothing = 1.0"),
        ({"ema_decay": 1.0}, "ema_decay = 1.0"),
        ({"max_grad_norm": 0}, "max_grad_norm = 0"),
        ({"schedule": {"kind": "inverse_sqrt", "min_lr_ratio": 0.1}}, "schedule.min_lr_ratio: no such key"),
        ({"optimizer": {"kind": "adam", "weight_decay": 0.1}}, "It belongs to kind adamw"),
        ({"precision": "float16"}, "precision = 'float16'"),
        ({"optimizer": {"betas": [1.5, 0.9]}}, "optimizer.betas.0 = 1.5"),
        ({"optimizer": {"kind": "muon", "betas": [0.9, 1.0]}}, "optimizer.betas.1 = 1.0"),
        ({"seed": 2**63}, "seed = 9223372036854775808"),
        ({"loss": {"kind": "r_drop"}}, "loss: no such key"),
    ],
)
def test_invalid_settings_are_errors(tree, message):
    with pytest.raises(ConfigError) as raised:
        parse(TrainingConfig, tree)
    assert message in str(raised.value)


def test_translation_validates_by_bleu():
    assert parse(TranslationTrainingConfig, {"validation_beam_size": 3}).validation_beam_size == 3
    with pytest.raises(
        ConfigError, match=r"training.validation_beam_size = 3 has no effect with training.validate_bleu"
    ):
        parse(TranslationTrainingConfig, {"validation_beam_size": 3, "validate_bleu": False})
    with pytest.raises(ConfigError, match="validate_bleu: no such key"):
        parse(TrainingConfig, {"validate_bleu": False})


def test_default_label_smoothing_depends_on_the_task():
    assert TranslationTrainingConfig().label_smoothing == 0.1
    assert TrainingConfig().label_smoothing == 0.0


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"lora": {"ranks": 3}}, "lora.ranks: no such key. Did you mean lora.rank?"),
        ({"lora": {"targets": ["querry"]}}, "lora.targets.0 = 'querry'"),
        ({"loss": {"kind": "rdrop"}}, "Did you mean r_drop?"),
        ({"loss": {"kind": "r_drop", "temperature": 2}}, "It belongs to kind distillation"),
        ({"loss": {"kind": "distillation"}}, "loss.teacher: is required and not given"),
        (
            {"loss": {"kind": "distillation", "teacher": "a", "alternate_teachers": True}},
            "alternate_teachers = true has no effect with one teacher",
        ),
    ],
)
def test_invalid_translation_settings_are_errors(tree, message):
    with pytest.raises(ConfigError) as raised:
        parse(TranslationTrainingConfig, tree)
    assert message in str(raised.value)
