"""Masked language modeling, which pretrains an encoder for other tasks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NoReturn, final

import torch

from dragoman.data.batching.packing import TextBatch
from dragoman.data.mlm_masking import masked_lm_in_order, masked_lm_stream
from dragoman.errors import RunError
from dragoman.evaluation import Score
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.tasks.build_training import TrainingSetup, measure_likelihood
from dragoman.tasks.config import MaskedLMConfig
from dragoman.tasks.head_task import build_masked_lm
from dragoman.tasks.plain_text_data import TextCorpus, TextPart, prepare_text_data
from dragoman.tasks.task import RunFiles, TaskDescription
from dragoman.training.losses import masked_lm_loss
from dragoman.training.trainer import Validator


@final
@dataclass(frozen=True)
class MaskedLMTask:
    """Masked language modeling with an encoder-only model."""

    experiment: MaskedLMConfig

    description: ClassVar = TaskDescription(
        noun="masked language model",
        loss_unit="hidden tokens",
        unit="tokens",
        command="dragoman train CONFIG --set init_from=RUN --out FOLDER",
        python_usage=None,
    )

    def prepare_data(self, folder: RunFiles, *, report: Callable[[str], None]) -> TextCorpus:
        return prepare_text_data(self.experiment.data, self.experiment.tokenizer, folder, report=report)

    def setup_training(self, data: TextCorpus, *, device: torch.device) -> TrainingSetup[TextBatch]:
        config = self.experiment.training
        model = build_masked_lm(self.experiment.model, data.tokenizer, seed=config.seed, device=device)
        once = partial(self._once, vocabulary=len(data.tokenizer.source))

        def validate(network: Any) -> Mapping[str, float]:
            likelihood = measure_likelihood(network, once(data.valid), masked_lm_loss(), device=device)
            return {"loss": likelihood.loss, "accuracy": _accuracy(network, once(data.valid), device=device)}

        def scores(part: TextPart) -> list[Score]:
            likelihood = measure_likelihood(model, once(part), masked_lm_loss(), device=device)
            share = self.experiment.masking.rate
            signature = f"tokens:{likelihood.num_tokens}|hidden:{share:g}|tokenizer:{data.tokenizer.fingerprint[:8]}"
            accuracy = _accuracy(model, once(part), device=device)
            return [
                *likelihood.scores(signature=signature),
                Score("accuracy", accuracy, signature, "", higher_is_better=True),
            ]

        judge = Validator(validate, metric="loss", higher_is_better=False)
        return TrainingSetup(
            model=model,
            stream=masked_lm_stream(
                data.train.store.texts,
                vocab_size=len(data.tokenizer.source),
                context_length=self.experiment.data.context_length,
                masking=self.experiment.masking,
                budget=config.token_budget,
                seed=config.seed,
            ),
            loss_function=masked_lm_loss(config.label_smoothing, precision=config.precision),
            validator=judge,
            final_validator=judge,
            scorers={name: partial(scores, part) for name, part in data.held_out.items()},
            describe_rows=data.describe_rows,
        )

    def _once(self, part: TextPart, *, vocabulary: int) -> Iterable[TextBatch]:
        """Yield the batches of a held-out set, with the same tokens masked every time."""
        return masked_lm_in_order(
            part.store.texts,
            vocab_size=vocabulary,
            context_length=self.experiment.data.context_length,
            masking=self.experiment.masking,
            budget=self.experiment.training.token_budget,
        )

    def build_model(self, folder: RunFiles, *, device: torch.device) -> EncoderOnlyTransformer:
        seed = self.experiment.training.seed
        return build_masked_lm(self.experiment.model, folder.read_tokenizer(), seed=seed, device=device)

    def load(self, folder: RunFiles, *, device: torch.device, batch_tokens: int) -> NoReturn:  # noqa: ARG002
        raise RunError(
            f"{folder.path}: is a masked language model, which has no inference of its own. Initialize a classifier, "
            f"a tagger or a question answerer from it with init_from={folder.path}."
        )


@torch.inference_mode()
def _accuracy(model: EncoderOnlyTransformer, batches: Iterable[TextBatch], *, device: torch.device) -> float:
    """Return the percentage of masked tokens that are predicted correctly."""
    found = count = 0
    for batch in (one.to(device) for one in batches):
        hidden = model.hidden(batch.tokens, batch.lengths)
        guessed = model.unembed(hidden[batch.loss_mask]).argmax(dim=-1)
        found += int((guessed == batch.labels[batch.loss_mask]).sum())
        count += batch.target_count
    return 100 * found / count
