"""Using a trained network: texts in, translations, completions, labels, answers and scores out."""

from dragoman.runtime.answerer import Answer, Answerer, AnswerSettings
from dragoman.runtime.chat import ChatTemplate, Message, Turn
from dragoman.runtime.classifier import Classified, Classifier
from dragoman.runtime.completing import Completion
from dragoman.runtime.generator import GenerationWarning, Generator
from dragoman.runtime.perplexity import Perplexity
from dragoman.runtime.reading import ReadingWarning
from dragoman.runtime.tagger import Tag, Tagger
from dragoman.runtime.translator import Translation, TranslationWarning, Translator

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
