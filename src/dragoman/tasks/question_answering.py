"""From questions about texts to an answerer, which cuts the answers out of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.qa import QuestionDataset, SpanBatch, read_question_splits
from dragoman.data.readers.qa import Question
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.squad import span_scores
from dragoman.inference.question_answerer import BATCH_TOKENS, Answerer
from dragoman.models.model_with_head import ModelWithHead
from dragoman.models.task_heads import build_span_head
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import read_initial_weights
from dragoman.tasks.base import TaskDescription, TrainingSetup, load_weights
from dragoman.tasks.config import QuestionAnsweringConfig
from dragoman.tasks.encoder_tasks import (
    ExampleData,
    build_model_with_head,
    check_not_empty,
    load_or_train_tokenizer,
    suppress_length_warnings,
    setup_head_training,
)
from dragoman.tasks.prepared_data import check_unchanged
from dragoman.training.losses import question_answering_loss


@final
@dataclass(frozen=True)
class QuestionAnsweringTask:
    """Questions, a network with a head for the ends of an answer, and how often it finds one that is accepted."""

    experiment: QuestionAnsweringConfig

    @property
    def description(self) -> TaskDescription:
        return TaskDescription(
            noun="question answerer",
            loss_unit="windows of text",
            unit="windows",
            command="dragoman answer RUN --question TEXT --context FILE",
            python_usage='answer("…?", "…")',
        )

    def prepare_data(self, folder: RunFolder, *, tell: Callable[[str], None]) -> ExampleData[Question, SpanBatch]:
        experiment, windows = self.experiment, self.experiment.data.windows
        tell("reading the corpus")
        parts = read_question_splits(experiment.data, seed=experiment.training.seed)
        check_unchanged(parts.fingerprints, folder)
        weights = read_initial_weights(experiment.init_from, experiment.model, folder)
        tokenizer = load_or_train_tokenizer(
            experiment.init_from, experiment.tokenizer, folder, partial(_texts, parts.train), tell=tell
        )
        tell("turning texts into tokens")
        encode = partial(QuestionDataset.build, side=tokenizer.source, settings=windows)
        train, valid = encode(parts.train), encode(parts.valid)
        check_not_empty(train, valid)
        longest = windows.max_question_length
        cut = f"{train.num_truncated:,} questions to learn from have more than {longest:,} tokens; their ends are not read"
        return ExampleData(
            what="questions",
            parts=parts,
            tokenizer=tokenizer,
            train=train,
            valid=valid,
            places=[train.locations[owner] for owner in train.question_ids],
            notes=(cut,) if train.num_truncated else (),
            labels=Labels(()),
            weights=weights,
        )

    def setup_training(self, materials: ExampleData[Question, SpanBatch], *, device: torch.device) -> TrainingSetup[SpanBatch]:
        tokenizer = materials.tokenizer

        def score(network: nn.Module, questions: Sequence[Question]) -> list[Score]:
            answerer = self._answerer(network, tokenizer, device=device, batch_tokens=BATCH_TOKENS)
            with suppress_length_warnings():
                found = answerer.answers([(one.question, one.context) for one in questions])
            return span_scores([best[0].text for best in found], [one.accepted_answers for one in questions])

        return setup_head_training(
            materials,
            self._build(tokenizer, device=device, weights=materials.weights),
            question_answering_loss,
            self.experiment.training,
            score=score,
            deciding="F1",
            device=device,
        )

    def build_model(self, folder: RunFolder, *, device: torch.device) -> ModelWithHead:
        return self._build(folder.read_tokenizer(), device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Answerer:
        tokenizer = folder.read_tokenizer()
        model = load_weights(self._build(tokenizer, device=device), folder)
        return self._answerer(model, tokenizer, device=device, batch_tokens=batch_tokens)

    def _build(
        self, tokenizer: Tokenizer, *, device: torch.device, weights: Mapping[str, Tensor] | None = None
    ) -> ModelWithHead:
        config = self.experiment.model
        return build_model_with_head(
            config,
            tokenizer,
            lambda: build_span_head(self.experiment.head, size=config.d_model),
            seed=self.experiment.training.seed,
            device=device,
            weights=weights,
        )

    def _answerer(self, model: nn.Module, tokenizer: Tokenizer, *, device: torch.device, batch_tokens: int) -> Answerer:
        return Answerer(
            model,
            tokenizer.source,
            device=device,
            batch_tokens=batch_tokens,
            layout=self.experiment.data.windows,
            settings=self.experiment.answers,
        )


def _texts(questions: Sequence[Question]) -> Iterator[str]:
    """Every question, and every context once."""
    yield from dict.fromkeys(one.context for one in questions)
    yield from (one.question for one in questions)
