"""From questions about texts to an answerer, which cuts the answers out of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.qa import QuestionIds, SpanBatch, read_question_parts
from dragoman.data.readers.qa import Question
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.squad import span_scores
from dragoman.inference.question_answerer import BATCH_TOKENS, Answerer
from dragoman.models.model_with_head import Headed
from dragoman.models.task_heads import build_span_head
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import weights_to_begin_with
from dragoman.tasks.base import Description, Work, with_weights
from dragoman.tasks.config import Answering
from dragoman.tasks.encoder_tasks import (
    Examples,
    build_reader,
    require_examples,
    tokenizer_of,
    without_warnings,
    work_on,
)
from dragoman.tasks.prepared_data import check_same
from dragoman.training.classification_losses import spans


@final
@dataclass(frozen=True)
class AnsweringTask:
    """Questions, a network with a head for the ends of an answer, and how often it finds one that is accepted."""

    experiment: Answering

    @property
    def description(self) -> Description:
        return Description(
            noun="question answerer",
            counted="windows of text",
            unit="windows",
            command="dragoman answer RUN --question TEXT --context FILE",
            python='answer("…?", "…")',
        )

    def gather(self, folder: RunFolder, *, tell: Callable[[str], None]) -> Examples[Question, SpanBatch]:
        experiment, windows = self.experiment, self.experiment.data.windows
        tell("reading the corpus")
        parts = read_question_parts(experiment.data, seed=experiment.training.seed)
        check_same(parts.fingerprints, folder)
        weights = weights_to_begin_with(experiment.start, experiment.model, folder)
        tokenizer = tokenizer_of(
            experiment.start, experiment.tokenizer, folder, partial(_texts, parts.train), tell=tell
        )
        tell("turning texts into tokens")
        encode = partial(QuestionIds.build, side=tokenizer.source, settings=windows)
        train, valid = encode(parts.train), encode(parts.valid)
        require_examples(train, valid)
        longest = windows.longest_question
        cut = f"{train.cut:,} questions to learn from have more than {longest:,} tokens; their ends are not read"
        return Examples(
            what="questions",
            parts=parts,
            tokenizer=tokenizer,
            train=train,
            valid=valid,
            places=[train.places[owner] for owner in train.owners],
            notes=(cut,) if train.cut else (),
            labels=Labels(()),
            weights=weights,
        )

    def work(self, materials: Examples[Question, SpanBatch], *, device: torch.device) -> Work[SpanBatch]:
        tokenizer = materials.tokenizer

        def score(network: nn.Module, questions: Sequence[Question]) -> list[Score]:
            answerer = self._answerer(network, tokenizer, device=device, batch_tokens=BATCH_TOKENS)
            with without_warnings():
                found = answerer.answers([(one.question, one.context) for one in questions])
            return span_scores([best[0].text for best in found], [one.accepted for one in questions])

        return work_on(
            materials,
            self._build(tokenizer, device=device, weights=materials.weights),
            spans,
            self.experiment.training,
            score=score,
            deciding="F1",
            device=device,
        )

    def network(self, folder: RunFolder, *, device: torch.device) -> Headed:
        return self._build(folder.read_tokenizer(), device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Answerer:
        tokenizer = folder.read_tokenizer()
        model = with_weights(self._build(tokenizer, device=device), folder)
        return self._answerer(model, tokenizer, device=device, batch_tokens=batch_tokens)

    def _build(
        self, tokenizer: Tokenizer, *, device: torch.device, weights: Mapping[str, Tensor] | None = None
    ) -> Headed:
        config = self.experiment.model
        return build_reader(
            config,
            tokenizer,
            lambda: build_span_head(self.experiment.head, size=config.size),
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
