"""Use of trained models: translation, generation, classification, tagging, question answering and scoring.

Translators and generators on the CPU backend do not import PyTorch. Names that need it, or are costly to import, are
imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dragoman.data.chat_template import ChatTemplate, Message, Turn
from dragoman.decoding.config import AnswerConfig
from dragoman.inference.control.text_constraints import Constraint
from dragoman.inference.length_batches import InputWarning
from dragoman.inference.translation_result import Translation, TranslationResult, TranslationWarning
from dragoman.inference.translator import Translator

if TYPE_CHECKING:
    from dragoman.inference.classifier_and_tagger import Classification, Classifier, Tag, Tagger
    from dragoman.inference.embedder import Embedder
    from dragoman.inference.generation.completion_result import Completion, CompletionPiece, GeneratedToken
    from dragoman.inference.generation.generator import Generator
    from dragoman.inference.generation.perplexity import Perplexity
    from dragoman.inference.generation.prompts import GenerationWarning, Prompt
    from dragoman.inference.question_answerer import Answer, QuestionAnswerer

_LAZY = {
    "question_answerer": ("Answer", "QuestionAnswerer"),
    "classifier_and_tagger": ("Classification", "Classifier", "Tag", "Tagger"),
    "generation.completion_result": ("Completion", "CompletionPiece", "GeneratedToken"),
    "embedder": ("Embedder",),
    "generation.generator": ("Generator",),
    "generation.perplexity": ("Perplexity",),
    "generation.prompts": ("GenerationWarning", "Prompt"),
}
"""Names imported on first use, by module."""

__all__ = [
    "Answer",
    "AnswerConfig",
    "ChatTemplate",
    "Classification",
    "Classifier",
    "Completion",
    "CompletionPiece",
    "Constraint",
    "Embedder",
    "GeneratedToken",
    "GenerationWarning",
    "Generator",
    "InputWarning",
    "Message",
    "Perplexity",
    "Prompt",
    "QuestionAnswerer",
    "Tag",
    "Tagger",
    "Translation",
    "TranslationResult",
    "TranslationWarning",
    "Translator",
    "Turn",
]


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name):
        for module, names in _LAZY.items():
            if name in names:
                return getattr(import_module(f"dragoman.inference.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
