"""Using a trained network: texts in, translations and scores out."""

from dragoman.runtime.translator import Translation, TranslationWarning, Translator

__all__ = ["Translation", "TranslationWarning", "Translator"]
