"""Transformer sequence models: train them from text, use them, evaluate them and look inside.

>>> import dragoman
>>> run = dragoman.train(source="train.en", target="train.de", output_dir="runs/en-de", preset="tiny")
>>> translator = dragoman.load("runs/en-de", dragoman.Translator, device="cpu", compute_type="int8")
>>> translator.translate("Two dogs play.", beam_size=5).text
>>> dragoman.evaluate("runs/en-de", source="test.en", reference="test.de", metrics=["bleu", "chrf"])
>>> dragoman.export("runs/en-de", "models/en-de", compute_type="int8")
"""

from typing import TYPE_CHECKING

__all__ = [
    "Answer",
    "AnswerConfig",
    "Classification",
    "Classifier",
    "Completion",
    "CompletionPiece",
    "ConfigError",
    "Constraint",
    "DataError",
    "DecodingConfig",
    "DragomanError",
    "Embedder",
    "ExportResult",
    "FileOptions",
    "FileReport",
    "FileTranslation",
    "GenerationWarning",
    "Generator",
    "Glossary",
    "Hypothesis",
    "ImportResult",
    "InputWarning",
    "Message",
    "PullResult",
    "PushResult",
    "QuestionAnswerer",
    "RunError",
    "SamplingConfig",
    "Score",
    "Tag",
    "Tagger",
    "Term",
    "TrainingResult",
    "Translation",
    "TranslationMemory",
    "TranslationResult",
    "TranslationWarning",
    "Translator",
    "UnitTranslation",
    "__version__",
    "evaluate",
    "export",
    "import_model",
    "load",
    "pull",
    "push",
    "read_glossary",
    "read_memory",
    "train",
    "translate_file",
]

if TYPE_CHECKING:
    from dragoman.data.documents.document import UnitTranslation
    from dragoman.data.documents.translation_memory import TranslationMemory
    from dragoman.data.terminology.glossary import Glossary, Term
    from dragoman.data.terminology.glossary_files import read_glossary
    from dragoman.decoding import AnswerConfig, DecodingConfig, Hypothesis, SamplingConfig
    from dragoman.errors import ConfigError, DataError, DragomanError, RunError
    from dragoman.evaluation import Score
    from dragoman.inference import (
        Answer,
        Classification,
        Classifier,
        Completion,
        CompletionPiece,
        Constraint,
        Embedder,
        GenerationWarning,
        Generator,
        InputWarning,
        Message,
        QuestionAnswerer,
        Tag,
        Tagger,
        Translation,
        TranslationResult,
        TranslationWarning,
        Translator,
    )
    from dragoman.runs.evaluate import evaluate
    from dragoman.runs.export import ExportResult, export
    from dragoman.runs.file_report import FileReport
    from dragoman.runs.hub.pull import PullResult, pull
    from dragoman.runs.hub.push import PushResult, push
    from dragoman.runs.import_model import ImportResult, import_model
    from dragoman.runs.load import load
    from dragoman.runs.model_card import TrainingResult
    from dragoman.runs.train import train
    from dragoman.runs.translate_file import FileOptions, FileTranslation, read_memory, translate_file

    __version__: str
else:  # type checkers would accept every name that `__getattr__` may return
    from importlib import import_module

    _MODULES = {
        "AnswerConfig": "decoding",
        "ConfigError": "errors",
        "DataError": "errors",
        "DecodingConfig": "decoding",
        "DragomanError": "errors",
        "ExportResult": "runs.export",
        "FileOptions": "runs.translate_file",
        "FileReport": "runs.file_report",
        "FileTranslation": "runs.translate_file",
        "Glossary": "data.terminology.glossary",
        "Hypothesis": "decoding",
        "ImportResult": "runs.import_model",
        "PullResult": "runs.hub.pull",
        "PushResult": "runs.hub.push",
        "RunError": "errors",
        "SamplingConfig": "decoding",
        "Score": "evaluation",
        "Term": "data.terminology.glossary",
        "TrainingResult": "runs.model_card",
        "TranslationMemory": "data.documents.translation_memory",
        "UnitTranslation": "data.documents.document",
        "evaluate": "runs.evaluate",
        "export": "runs.export",
        "import_model": "runs.import_model",
        "load": "runs.load",
        "pull": "runs.hub.pull",
        "push": "runs.hub.push",
        "read_glossary": "data.terminology.glossary_files",
        "read_memory": "runs.translate_file",
        "train": "runs.train",
        "translate_file": "runs.translate_file",
    }
    """Modules of the names that are not in `dragoman.inference`."""

    def __getattr__(name):
        """Import on first use, so that `import dragoman` is quick: most of these names need PyTorch."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "__version__":
            return import_module("importlib.metadata").version("dragoman")
        return getattr(import_module(f"dragoman.{_MODULES.get(name, 'inference')}"), name)

    def __dir__():
        return __all__
