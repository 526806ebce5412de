"""From an experiment to its task: the one place that tells the tasks apart."""

from typing import assert_never

from dragoman.runs.config import Experiment
from dragoman.tasks.base import Task
from dragoman.tasks.classification import ClassificationTask
from dragoman.tasks.config import (
    QuestionAnsweringConfig,
    ClassificationConfig,
    LanguageModelingConfig,
    MaskedLMConfig,
    TaggingConfig,
    TranslationConfig,
)
from dragoman.tasks.language_modeling import LanguageModelingTask
from dragoman.tasks.masked_lm import MaskedLMTask
from dragoman.tasks.question_answering import QuestionAnsweringTask
from dragoman.tasks.tagging import TaggingTask
from dragoman.tasks.translation import TranslationTask


def build_task(experiment: Experiment) -> Task:
    """What is read, learnt and judged, as the experiment says."""
    match experiment:
        case TranslationConfig():
            return TranslationTask(experiment)
        case LanguageModelingConfig():
            return LanguageModelingTask(experiment)
        case MaskedLMConfig():
            return MaskedLMTask(experiment)
        case ClassificationConfig():
            return ClassificationTask(experiment)
        case TaggingConfig():
            return TaggingTask(experiment)
        case QuestionAnsweringConfig():
            return QuestionAnsweringTask(experiment)
        case _:
            assert_never(experiment)
