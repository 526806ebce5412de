"""Masked language modeling, which pretrains an encoder for other tasks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch import nn

from dragoman.data.batching.packing import TextBatch
from dragoman.data.mlm_masking import masked_lm_in_order, masked_lm_stream
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.inference.embedder import Embedder
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.models.factory import build_encoder_only
from dragoman.tasks.build_training import Likelihood, TrainingSetup, measure_likelihood
from dragoman.tasks.config import MaskedLMConfig
from dragoman.tasks.initial_weights import export_weights, initialize_model
from dragoman.tasks.plain_text_data import TextCorpus, prepare_text_data
from dragoman.tasks.task import CorpusAdvice, RunFiles, TaskDescription, load_model
from dragoman.training.losses import masked_lm_loss
from dragoman.training.step import seeded_rng
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
        python_usage='dragoman.load("RUN", dragoman.Embedder).embed(["…"])',
        advice=CorpusAdvice(
            enough=1_000_000,
            outlook="tasks that start from a model of so little text rarely gain from it",
            remedy="Add text; it needs no labels.",
        ),
    )

    def prepare_data(self, folder: RunFiles, *, report: Callable[[str], None]) -> TextCorpus:
        experiment, advice = self.experiment, self.description.advice
        return prepare_text_data(experiment, experiment.data, folder, advice=advice, report=report)

    def setup_training(self, data: TextCorpus, *, device: torch.device) -> TrainingSetup[TextBatch]:
        config, tokenizer = self.experiment.training, data.tokenizer
        model = self._build(tokenizer, device=device)
        initialize_model(model, data.weights, config, where=str(self.experiment.init_from))
        options: dict[str, Any] = {
            "vocab_size": len(tokenizer.source),
            "context_length": self.experiment.data.context_length,
            "masking": self.experiment.masking,
            "budget": config.token_budget,
        }

        def measure(network: Any, name: str) -> tuple[Likelihood, float]:
            """Return likelihood and accuracy on a held-out set, with the same tokens masked every time."""
            batches = partial(masked_lm_in_order, data.stores[name].texts, **options)
            likelihood = measure_likelihood(network, batches(), masked_lm_loss(), device=device)
            return likelihood, _accuracy(network, batches(), device=device)

        def validate(network: nn.Module) -> Mapping[str, float]:
            likelihood, accuracy = measure(network, "valid")
            return {"loss": likelihood.loss, "accuracy": accuracy}

        def scores(name: str) -> list[Score]:
            likelihood, accuracy = measure(model, name)
            rate, fingerprint = self.experiment.masking.rate, tokenizer.fingerprint[:8]
            signature = f"tokens:{likelihood.num_tokens}|hidden:{rate:g}|tokenizer:{fingerprint}"
            return [
                *likelihood.scores(signature=signature, unigram_loss=data.unigram_loss(name)),
                Score("accuracy", accuracy, signature, "", higher_is_better=True),
            ]

        validator = Validator(validate, metric="loss", higher_is_better=False)
        return TrainingSetup(
            model=model,
            stream=masked_lm_stream(data.stores["train"].texts, **options, seed=config.seed),
            loss_function=masked_lm_loss(config.label_smoothing, precision=config.precision),
            validator=validator,
            final_validator=validator,
            scorers={name: partial(scores, name) for name in data.held_out},
            describe_rows=data.describe_rows,
            export_weights=export_weights(config),
        )

    def build_model(self, folder: RunFiles, *, device: torch.device) -> EncoderOnlyTransformer:
        return self._build(folder.read_tokenizer(), device=device)

    def _build(self, tokenizer: Tokenizer, *, device: torch.device) -> EncoderOnlyTransformer:
        """Build the model with new weights; the mask symbol follows the vocabulary."""
        with seeded_rng(self.experiment.training.seed, device=torch.device("cpu")):
            return build_encoder_only(self.experiment.model, vocabulary=len(tokenizer.source) + 1).to(device)

    def load(self, folder: RunFiles, *, device: torch.device, batch_tokens: int) -> Embedder:
        tokenizer = folder.read_tokenizer()

        def build(*, device: torch.device) -> EncoderOnlyTransformer:
            return self._build(tokenizer, device=device)

        return Embedder(
            load_model(build, folder, device=device),
            tokenizer.source,
            self.experiment.sentence_embedding,
            size=self.experiment.model.d_model,
            device=device,
            batch_tokens=batch_tokens,
            max_length=self.experiment.data.context_length,
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
