"""From an experiment to its task: the one place that tells the tasks apart."""

from typing import assert_never

from dragoman.runs.config import Experiment
from dragoman.tasks.base import Task
from dragoman.tasks.classification import ClassificationTask
from dragoman.tasks.config import (
    Answering,
    Classification,
    LanguageModelling,
    MaskedModelling,
    Tagging,
    Translation,
)
from dragoman.tasks.language_modeling import LanguageModellingTask
from dragoman.tasks.masked_lm import MaskedModellingTask
from dragoman.tasks.question_answering import AnsweringTask
from dragoman.tasks.tagging import TaggingTask
from dragoman.tasks.translation import TranslationTask


def task_of(experiment: Experiment) -> Task:
    """What is read, learnt and judged, as the experiment says."""
    match experiment:
        case Translation():
            return TranslationTask(experiment)
        case LanguageModelling():
            return LanguageModellingTask(experiment)
        case MaskedModelling():
            return MaskedModellingTask(experiment)
        case Classification():
            return ClassificationTask(experiment)
        case Tagging():
            return TaggingTask(experiment)
        case Answering():
            return AnsweringTask(experiment)
        case _:
            assert_never(experiment)
