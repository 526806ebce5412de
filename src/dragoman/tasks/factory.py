"""Build the task of an experiment."""

from typing import assert_never

from dragoman.tasks.classification_tagging_qa import classification_task, question_answering_task, tagging_task
from dragoman.tasks.config import (
    ClassificationConfig,
    Experiment,
    LanguageModelingConfig,
    MaskedLMConfig,
    QuestionAnsweringConfig,
    TaggingConfig,
    TranslationConfig,
)
from dragoman.tasks.language_modeling import LanguageModelingTask
from dragoman.tasks.masked_lm import MaskedLMTask
from dragoman.tasks.task import Task
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
            return classification_task(experiment)
        case TaggingConfig():
            return tagging_task(experiment)
        case QuestionAnsweringConfig():
            return question_answering_task(experiment)
        case _:
            assert_never(experiment)
