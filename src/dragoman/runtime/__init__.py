"""Using a trained network: texts in, translations, completions, labels, answers and scores out.

A translator needs no PyTorch where the compiled core computes; what does is imported when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.runtime.chat import ChatTemplate, Message, Turn
from dragoman.runtime.reading import ReadingWarning
from dragoman.runtime.translation import Translation
from dragoman.runtime.translator import TranslationWarning, Translator

if TYPE_CHECKING:
    from dragoman.runtime.answerer import Answer, Answerer, AnswerSettings
    from dragoman.runtime.classifier import Classified, Classifier
    from dragoman.runtime.completing import Completion
    from dragoman.runtime.generator import GenerationWarning, Generator
    from dragoman.runtime.perplexity import Perplexity
    from dragoman.runtime.tagger import Tag, Tagger

_ON_TENSORS = {
    "answerer": ("Answer", "Answerer", "AnswerSettings"),
    "classifier": ("Classified", "Classifier"),
    "completing": ("Completion",),
    "generator": ("GenerationWarning", "Generator"),
    "perplexity": ("Perplexity",),
    "tagger": ("Tag", "Tagger"),
}
"""What needs PyTorch, by the file it stands in."""

__all__ = [
    "Answer",
    "AnswerSettings",
    "Answerer",
    "ChatTemplate",
    "Classified",
    "Classifier",
    "Completion",
    "GenerationWarning",
    "Generator",
    "Message",
    "Perplexity",
    "ReadingWarning",
    "Tag",
    "Tagger",
    "Translation",
    "TranslationWarning",
    "Translator",
    "Turn",
]


def __getattr__(name: str) -> Any:
    for file, names in _ON_TENSORS.items():
        if name in names:
            return getattr(import_module(f"dragoman.runtime.{file}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
