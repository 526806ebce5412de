"""Transformer sequence models: train them from text, use them, evaluate them and look inside.

>>> import dragoman
>>> run = dragoman.train(source="train.en", target="train.de", output_dir="runs/en-de", preset="tiny")
>>> translator = dragoman.load("runs/en-de", device="cpu", compute_type="int8")
>>> translator.translate("Two dogs play.", beam_size=5).text
>>> dragoman.evaluate("runs/en-de", source="test.en", reference="test.de", metrics=["bleu", "chrf"])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.inference import Classifier, Generator, QuestionAnswerer, Tagger, Translator
    from dragoman.runs.evaluate import evaluate
    from dragoman.runs.load import load
    from dragoman.runs.train import train

    __version__: str

__all__ = [
    "Classifier",
    "Generator",
    "QuestionAnswerer",
    "Tagger",
    "Translator",
    "__version__",
    "evaluate",
    "load",
    "train",
]


_MODULES = {"evaluate": "dragoman.runs.evaluate", "load": "dragoman.runs.load", "train": "dragoman.runs.train"}


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import dragoman` is quick: most of these names need PyTorch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        return import_module("importlib.metadata").version("dragoman")
    return getattr(import_module(_MODULES.get(name, "dragoman.inference")), name)


def __dir__() -> list[str]:
    return __all__
