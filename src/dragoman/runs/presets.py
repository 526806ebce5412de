"""Presets: named settings of model and training, over which the settings of a configuration are merged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman.config_trees import Tree, merge
from dragoman.errors import ConfigError, Problem, nearest

DEFAULT_TASK = "translation"
SIZES = ("kind", "d_model", "d_ff", "num_heads", "num_kv_heads", "encoder_layers", "decoder_layers", "num_layers")
"""Settings of a model that distinguish the presets."""
DECODER_TASKS = ("language_modeling", "classification")
ENCODER_TASKS = ("masked_lm", "classification", "tagging", "question_answering")


PresetName = Literal[
    "nano",
    "tiny",
    "small",
    "base",
    "big",
    "deep-shallow",
    "student-tiny",
    "lstm",
    "gpt-nano",
    "gpt-tiny",
    "gpt-small",
    "llama-tiny",
    "bert-tiny",
    "bert-mini",
    "bert-small",
]
"""Names of the presets."""


@dataclass(frozen=True)
class Preset:
    """Settings for some tasks, the first of which is the default."""

    tree: Tree
    tasks: tuple[str, ...] = (DEFAULT_TASK,)
    task_settings: Mapping[str, Tree] = field(default_factory=dict)
    """Further settings by task."""

    def settings(self, task: str) -> Tree:
        """Return the settings for a task."""
        return merge({"task": task} if task != DEFAULT_TASK else {}, merge(self.tree, self.task_settings.get(task, {})))


def _model(**settings: Any) -> Tree:
    return {"model": settings}


def _training(rate: float, **schedule: Any) -> Tree:
    optimizer = {"kind": "adam", "learning_rate": rate}
    return {"training": {"optimizer": optimizer, **({"schedule": schedule} if schedule else {})}}


_BASE = merge(
    _model(kind="encoder_decoder", d_model=512, encoder_layers=6, decoder_layers=6, num_heads=8, d_ff=2048),
    _training(0.0007, kind="inverse_sqrt", warmup=4000),
)
_SMALL = merge(merge(_BASE, _model(d_model=256, num_heads=4, d_ff=1024)), _training(0.0015))
_TINY = merge(
    merge(_SMALL, _model(d_model=128, encoder_layers=4, decoder_layers=4, d_ff=256)),
    _training(0.004, kind="inverse_sqrt", warmup=1000),
)
_STUDENT_TINY = merge(
    _model(
        kind="encoder_decoder",
        d_model=256,
        encoder_layers=6,
        decoder_layers=2,
        num_heads=8,
        d_ff=1536,
        decoder_layer="ssru",
        norm_position="post",
        positions={"kind": "sinusoidal", "order": "halves", "inclusive": True},
        norm_epsilon=1e-6,
        start_embedding="zero",
    ),
    _training(0.001, kind="inverse_sqrt", warmup=1000) | {"tokenizer": {"kind": "unigram"}},
)
"""Network of the tiny students that Firefox translates with."""
_LSTM = merge(
    _model(kind="recurrent", d_model=256, attention={"kind": "additive"}),
    _training(0.001, kind="inverse_sqrt", warmup=400),
)


def _adamw_cosine(rate: float, warmup: int) -> Tree:
    return {
        "training": {
            "optimizer": {"kind": "adamw", "learning_rate": rate, "betas": [0.9, 0.99], "weight_decay": 0.1},
            "schedule": {"kind": "cosine", "warmup": warmup, "min_lr_ratio": 0.1},
        }
    }


_GPT = _model(
    kind="decoder_only",
    activation="gelu",
    positions={"kind": "learned", "max_length": 1024},
    scale_embedding=False,
    dropout={"embedding": 0.1, "residual": 0.1, "attention": 0.0, "feed_forward": 0.0},
)
_GPT_SMALL = merge(
    merge(_GPT, _model(d_model=768, num_layers=12, num_heads=12, d_ff=3072)), _adamw_cosine(0.0006, 2000)
)
_GPT_TINY = merge(merge(_GPT, _model(d_model=384, num_layers=6, num_heads=6, d_ff=1536)), _adamw_cosine(0.001, 100))
_GPT_NANO = merge(_GPT_TINY, _model(d_model=128, num_layers=4, num_heads=4, d_ff=512))
_LLAMA_TINY = merge(
    _model(
        kind="decoder_only",
        d_model=384,
        num_layers=6,
        num_heads=6,
        num_kv_heads=2,
        d_ff=1024,
        activation="silu",
        gated=True,
        norm="rms",
        bias=False,
        positions={"kind": "rotary"},
        scale_embedding=False,
    ),
    _adamw_cosine(0.001, 100),
)
_BERT = _model(
    kind="encoder_only",
    activation="gelu",
    positions={"kind": "learned", "max_length": 512},
    scale_embedding=False,
    norm_embedding=True,
    num_segments=2,
)
_BERT_SMALL = merge(
    merge(_BERT, _model(d_model=512, num_layers=4, num_heads=8, d_ff=2048)), _adamw_cosine(0.0005, 1000)
)
_BERT_MINI = merge(merge(_BERT, _model(d_model=256, num_layers=4, num_heads=4, d_ff=1024)), _adamw_cosine(0.001, 500))
_BERT_TINY = merge(_BERT_MINI, _model(d_model=128, num_layers=2, num_heads=2, d_ff=512))


def _language_preset(tree: Tree, *, context: int) -> Preset:
    return Preset(tree, DECODER_TASKS, {"language_modeling": {"data": {"kind": "text", "context_length": context}}})


PRESETS: dict[str, Preset] = {
    "nano": Preset(merge(_TINY, _model(d_model=96, encoder_layers=2, decoder_layers=2))),
    "tiny": Preset(_TINY),
    "small": Preset(_SMALL),
    "base": Preset(_BASE),
    "big": Preset(merge(_BASE, _model(d_model=1024, num_heads=16, d_ff=4096))),
    "deep-shallow": Preset(merge(_BASE, _model(encoder_layers=12, decoder_layers=2))),
    "student-tiny": Preset(_STUDENT_TINY),
    "lstm": Preset(_LSTM),
    "gpt-nano": _language_preset(_GPT_NANO, context=128),
    "gpt-tiny": _language_preset(_GPT_TINY, context=256),
    "gpt-small": _language_preset(_GPT_SMALL, context=1024),
    "llama-tiny": _language_preset(_LLAMA_TINY, context=256),
    "bert-tiny": Preset(_BERT_TINY, ENCODER_TASKS),
    "bert-mini": Preset(_BERT_MINI, ENCODER_TASKS),
    "bert-small": Preset(_BERT_SMALL, ENCODER_TASKS),
}


def matching_preset(model: Mapping[str, Any]) -> str | None:
    """Return the first preset with the kind and the sizes of a model; None if it has sizes of its own."""
    for name, preset in PRESETS.items():
        sizes = {key: value for key, value in preset.tree["model"].items() if key in SIZES}
        if all(model.get(key) == value for key, value in sizes.items()):
            return name
    return None


def preset_tree(name: object, *, task: object = None) -> Tree:
    """Return the settings of a preset for a task, by default its first.

    Raises ConfigError if the preset does not exist, or is for other tasks.
    """
    if not isinstance(name, str) or name not in PRESETS:
        near = nearest(str(name), PRESETS)
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(PRESETS)}."
        raise _preset_error(f"preset: {name!r} does not exist. {hint}")
    preset = PRESETS[name]
    if task is None:
        return preset.settings(preset.tasks[0])
    others = [other for other, one in PRESETS.items() if task in one.tasks]
    if task not in preset.tasks and others:
        raise _preset_error(
            f"preset: {name} is for task {' or '.join(preset.tasks)}, and this is task {task}. Choose "
            f"{' or '.join(others)}."
        )
    return preset.settings(str(task))


def _preset_error(message: str) -> ConfigError:
    return ConfigError(Problem(message, keys=("preset",)))


def presets_for_kind(kind: object, *, task: str) -> list[str]:
    """Return the presets for a task with a model of this kind."""
    return [name for name, preset in PRESETS.items() if task in preset.tasks and preset.tree["model"]["kind"] == kind]
