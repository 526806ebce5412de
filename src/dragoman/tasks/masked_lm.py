"""From running text to an encoder that guesses hidden words, for other tasks to begin with."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, final

import torch

from dragoman.data.batching.packing import TextBatch
from dragoman.data.masking import masked_lm_in_order, masked_lm_stream
from dragoman.errors import RunError
from dragoman.evaluation import Score
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.runs.folder import RunFolder
from dragoman.tasks.base import TaskDescription, TrainingSetup
from dragoman.tasks.config import MaskedLMConfig
from dragoman.tasks.encoder_tasks import build_masked_lm
from dragoman.tasks.text_data import TextPart, TextCorpus, prepare_text_data
from dragoman.tasks.validation import measure_likelihood
from dragoman.training.losses import masked_lm_loss
from dragoman.training.trainer import Validator


@final
@dataclass(frozen=True)
class MaskedLMTask:
    """Text, an encoder-only network, and how often it finds the words that were hidden."""

    experiment: MaskedLMConfig

    @property
    def description(self) -> TaskDescription:
        return TaskDescription(
            noun="masked language model",
            loss_unit="hidden tokens",
            unit="tokens",
            command="dragoman train CONFIG --set init_from=RUN --out FOLDER",
            python_usage=None,
        )

    def prepare_data(self, folder: RunFolder, *, tell: Callable[[str], None]) -> TextCorpus:
        return prepare_text_data(self.experiment.data, self.experiment.tokenizer, folder, tell=tell)

    def setup_training(self, materials: TextCorpus, *, device: torch.device) -> TrainingSetup[TextBatch]:
        config = self.experiment.training
        model = build_masked_lm(self.experiment.model, materials.tokenizer, seed=config.seed, device=device)
        once = partial(self._once, vocabulary=len(materials.tokenizer.source))

        def validate(network: Any) -> Mapping[str, float]:
            found = measure_likelihood(network, once(materials.valid), masked_lm_loss(), device=device)
            return {"loss": found.loss, "accuracy": _accuracy(network, once(materials.valid), device=device)}

        def scores(part: TextPart) -> list[Score]:
            found = measure_likelihood(model, once(part), masked_lm_loss(), device=device)
            share = self.experiment.masking.rate
            facts = f"tokens:{found.predictions}|hidden:{share:g}|tokenizer:{materials.tokenizer.fingerprint[:8]}"
            accuracy = _accuracy(model, once(part), device=device)
            return [*found.scores(facts=facts), Score("accuracy", accuracy, facts, "", higher_is_better=True)]

        judge = Validator(validate, metric="loss", higher_is_better=False)
        return TrainingSetup(
            model=model,
            stream=masked_lm_stream(
                materials.train.store.texts,
                vocab_size=len(materials.tokenizer.source),
                context_length=self.experiment.data.context_length,
                masking=self.experiment.masking,
                budget=config.token_budget,
                seed=config.seed,
            ),
            loss_function=masked_lm_loss(config.label_smoothing, precision=config.precision),
            validator=judge,
            final_validator=judge,
            scorers={name: partial(scores, part) for name, part in materials.held_out.items()},
            describe_rows=materials.name_documents,
        )

    def _once(self, part: TextPart, *, vocabulary: int) -> Iterable[TextBatch]:
        """A part with the same words hidden every time."""
        return masked_lm_in_order(
            part.store.texts,
            vocab_size=vocabulary,
            context_length=self.experiment.data.context_length,
            masking=self.experiment.masking,
            budget=self.experiment.training.token_budget,
        )

    def build_model(self, folder: RunFolder, *, device: torch.device) -> EncoderOnlyTransformer:
        seed = self.experiment.training.seed
        return build_masked_lm(self.experiment.model, folder.read_tokenizer(), seed=seed, device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> NoReturn:  # noqa: ARG002
        raise RunError(
            f"{folder.path}: only guesses hidden words; begin the training of a classifier, a tagger or an answerer "
            f"with it, by init_from: {folder.path} in its configuration"
        )


@torch.inference_mode()
def _accuracy(model: EncoderOnlyTransformer, batches: Iterable[TextBatch], *, device: torch.device) -> float:
    """The hidden words that are found, in percent."""
    found = count = 0
    for batch in (one.to(device) for one in batches):
        hidden = model.hidden(batch.tokens, batch.lengths)
        guessed = model.unembed(hidden[batch.loss_mask]).argmax(dim=-1)
        found += int((guessed == batch.labels[batch.loss_mask]).sum())
        count += batch.target_count
    return 100 * found / count
