"""From an experiment to its task: the one place that tells the tasks apart."""

from typing import assert_never

from dragoman.experiment.config import Experiment
from dragoman.experiment.settings import (
    Answering,
    Classification,
    LanguageModelling,
    MaskedModelling,
    Tagging,
    Translation,
)
from dragoman.experiment.tasks.answering import AnsweringTask
from dragoman.experiment.tasks.classification import ClassificationTask
from dragoman.experiment.tasks.language_modelling import LanguageModellingTask
from dragoman.experiment.tasks.masked_modelling import MaskedModellingTask
from dragoman.experiment.tasks.tagging import TaggingTask
from dragoman.experiment.tasks.translation import TranslationTask
from dragoman.experiment.work import Task


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
