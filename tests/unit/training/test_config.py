"""What may be chosen about training, and what is refused."""

import pytest

from dragoman.config import parse
from dragoman.errors import ConfigError
from dragoman.training.config import Epochs, TrainingConfig, TranslationTraining, Updates


def test_a_span_without_a_kind_is_counted_in_epochs():
    config = parse(TrainingConfig, {"length": {"count": 3}, "interval": {"kind": "updates", "count": 5}})
    assert (config.length, config.interval) == (Epochs(count=3), Updates(count=5))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"length": {"kind": "hours", "count": 1}}, "length.kind = 'hours'"),
        ({"length": {"count": 0}}, "length.count = 0"),
        ({"label_smoothing": 1.0}, "label_smoothing = 1.0"),
        ({"moving_average": 1.0}, "moving_average = 1.0"),
        ({"clip": 0}, "clip = 0"),
        ({"schedule": {"kind": "inverse_sqrt", "floor": 0.1}}, "schedule.floor: no such key"),
        ({"optimiser": {"kind": "adam", "weight_decay": 0.1}}, "It belongs to kind adamw"),
        ({"precision": "float16"}, "precision = 'float16'"),
        ({"optimiser": {"betas": [1.5, 0.9]}}, "optimiser.betas.0 = 1.5"),
        ({"optimiser": {"kind": "muon", "betas": [0.9, 1.0]}}, "optimiser.betas.1 = 1.0"),
        ({"seed": 2**63}, "seed = 9223372036854775808"),
        ({"objective": {"kind": "r_drop"}}, "objective: no such key"),
    ],
)
def test_what_makes_no_sense_is_refused(tree, message):
    with pytest.raises(ConfigError) as raised:
        parse(TrainingConfig, tree)
    assert message in str(raised.value)


def test_a_translator_may_be_watched_by_its_translations():
    assert parse(TranslationTraining, {"validation_beam": 3}).validation_beam == 3
    with pytest.raises(ConfigError, match=r"training.validation_beam = 3 has no effect with training.translate"):
        parse(TranslationTraining, {"validation_beam": 3, "translate": False})
    with pytest.raises(ConfigError, match="translate: no such key"):
        parse(TrainingConfig, {"translate": False})


def test_only_translators_smooth_their_labels_unless_told_to():
    assert TranslationTraining().label_smoothing == 0.1
    assert TrainingConfig().label_smoothing == 0.0


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"adapters": {"ranks": 3}}, "adapters.ranks: no such key. Did you mean adapters.rank?"),
        ({"adapters": {"targets": ["querry"]}}, "adapters.targets.0 = 'querry'"),
        ({"objective": {"kind": "rdrop"}}, "Did you mean r_drop?"),
        ({"objective": {"kind": "r_drop", "temperature": 2}}, "It belongs to kind word_distillation"),
        ({"objective": {"kind": "word_distillation"}}, "objective.teacher: is required and not given"),
        (
            {"objective": {"kind": "word_distillation", "teacher": "a", "in_turns": True}},
            "in_turns = true has no effect with one teacher",
        ),
    ],
)
def test_what_a_translator_may_not_learn_under_is_said(tree, message):
    with pytest.raises(ConfigError) as raised:
        parse(TranslationTraining, tree)
    assert message in str(raised.value)
