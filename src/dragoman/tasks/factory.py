"""Build the task of an experiment."""

from typing import assert_never

from dragoman.tasks import config
from dragoman.tasks.classification_tagging_qa import classification_task, question_answering_task, tagging_task
from dragoman.tasks.language_modeling import LanguageModelingTask
from dragoman.tasks.masked_lm import MaskedLMTask
from dragoman.tasks.task import Task
from dragoman.tasks.translation import TranslationTask


def build_task(experiment: config.Experiment) -> Task:
    """Return the task that an experiment configures."""
    match experiment:
        case config.TranslationConfig():
            return TranslationTask(experiment)
        case config.LanguageModelingConfig():
            return LanguageModelingTask(experiment)
        case config.MaskedLMConfig():
            return MaskedLMTask(experiment)
        case config.ClassificationConfig():
            return classification_task(experiment)
        case config.TaggingConfig():
            return tagging_task(experiment)
        case config.QuestionAnsweringConfig():
            return question_answering_task(experiment)
        case _:
            assert_never(experiment)
