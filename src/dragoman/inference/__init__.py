"""Using a trained network: texts in, translations, completions, labels, answers and scores out.

A translator needs no PyTorch where the compiled core computes; what does is imported when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.inference.chat import ChatTemplate, Message, Turn
from dragoman.inference.length_warnings import ReadingWarning
from dragoman.inference.translation import Translation
from dragoman.inference.translator import TranslationWarning, Translator

if TYPE_CHECKING:
    from dragoman.inference.classifier import Classified, Classifier
    from dragoman.inference.completion import Completion
    from dragoman.inference.generator import GenerationWarning, Generator
    from dragoman.inference.perplexity import Perplexity
    from dragoman.inference.question_answerer import Answer, Answerer, AnswerSettings
    from dragoman.inference.tagger import Tag, Tagger

_ON_TENSORS = {
    "question_answerer": ("Answer", "Answerer", "AnswerSettings"),
    "classifier": ("Classified", "Classifier"),
    "completion": ("Completion",),
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
            return getattr(import_module(f"dragoman.inference.{file}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
