"""The configuration of a run: every choice of every room, in one file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from dragoman.config import Config, Tree, merge, override, parse, read_yaml
from dragoman.data.config import DataSettings
from dragoman.data.tokenizer import Bpe, TokenizerSettings
from dragoman.decoding import SearchSettings
from dragoman.evaluation.metrics import Bleu, Chrf, Metric
from dragoman.experiment.presets import preset_tree
from dragoman.models.transformer.config import TransformerConfig
from dragoman.training.config import TrainingConfig


class Experiment(Config):
    """A run, from its corpora to its scores."""

    data: DataSettings
    tokenizer: TokenizerSettings = Bpe()
    model: TransformerConfig = TransformerConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: SearchSettings = SearchSettings()
    metrics: tuple[Metric, ...] = Field(
        (Bleu(), Chrf()), min_length=1, description="scores of translations; the first decides in validation"
    )

    @model_validator(mode="after")
    def _rooms_fit(self) -> Self:
        if self.model.tie == "all" and not self.tokenizer.shared:
            raise ValueError(
                "model.tie = all needs one vocabulary for both sides; set tokenizer.shared=true or model.tie=target"
            )
        if self.decoding.best > 1:
            raise ValueError(
                f"decoding.best = {self.decoding.best} has no effect in training, which scores the best translation; "
                "leave it out, and ask dragoman translate for more by --n-best"
            )
        length = getattr(self.model.positions, "length", None)
        longest = max(self.data.longest_source, self.data.longest_target) + 1
        if length is not None and longest > length:
            raise ValueError(
                f"model.positions.length = {length} is shorter than the longest example of {longest} tokens, end "
                f"symbol included; raise it, or lower data.longest_source and data.longest_target"
            )
        return self


def read_tree(file: Path | None, assignments: Sequence[str]) -> Tree:
    """What a person asked for: a file, with `KEY=VALUE` assignments laid over it; a preset stays a name."""
    return override(read_yaml(file) if file is not None else {}, assignments)


def with_preset(tree: Mapping[str, Any]) -> Tree:
    """The tree laid over the preset that its key `preset` names, if any."""
    name = tree.get("preset")
    rest = {key: value for key, value in tree.items() if key != "preset"}
    return merge(preset_tree(name), rest) if name is not None else rest


def in_folder(tree: Mapping[str, Any], folder: Path) -> Tree:
    """The tree with the relative paths of its corpora taken from `folder`."""
    data = tree.get("data")
    if not isinstance(data, Mapping):
        return dict(tree)
    corpora = {
        name: {key: _placed(key, value, folder) for key, value in data[name].items()}
        for name in ("train", "valid", "test")
        if isinstance(data.get(name), Mapping)
    }
    return {**tree, "data": {**data, **corpora}}


def to_experiment(tree: Mapping[str, Any], *, where: str = "") -> Experiment:
    """Validate; raises ConfigError, a line for each fault."""
    return parse(Experiment, with_preset(tree), where=where)


def read_experiment(file: Path) -> Experiment:
    """The configuration that a run wrote down."""
    return to_experiment(read_yaml(file), where=str(file))


def _placed(key: str, value: Any, folder: Path) -> Any:
    return str(folder / value) if key in ("source", "target", "path") and isinstance(value, str) else value
