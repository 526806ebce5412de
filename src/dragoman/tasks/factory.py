"""Build the task of an experiment."""

from typing import assert_never

from dragoman.tasks.base import Task
from dragoman.tasks.classification import ClassificationSpec
from dragoman.tasks.config import (
    ClassificationConfig,
    Experiment,
    LanguageModelingConfig,
    MaskedLMConfig,
    QuestionAnsweringConfig,
    TaggingConfig,
    TranslationConfig,
)
from dragoman.tasks.heads import HeadTask
from dragoman.tasks.language_modeling import LanguageModelingTask
from dragoman.tasks.masked_lm import MaskedLMTask
from dragoman.tasks.question_answering import QuestionAnsweringSpec
from dragoman.tasks.tagging import TaggingSpec
from dragoman.tasks.translation import TranslationTask


def build_task(experiment: Experiment) -> Task:
    """Return the task that an experiment configures."""
    match experiment:
        case TranslationConfig():
            return TranslationTask(experiment)
        case LanguageModelingConfig():
            return LanguageModelingTask(experiment)
        case MaskedLMConfig():
            return MaskedLMTask(experiment)
        case ClassificationConfig():
            return HeadTask(ClassificationSpec(experiment))
        case TaggingConfig():
            return HeadTask(TaggingSpec(experiment))
        case QuestionAnsweringConfig():
            return HeadTask(QuestionAnsweringSpec(experiment))
        case _:
            assert_never(experiment)
