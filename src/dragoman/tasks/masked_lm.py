"""From running text to an encoder that guesses hidden words, for other tasks to begin with."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, final

import torch

from dragoman.data.batching.packing import TextBatch
from dragoman.data.masking import masked_in_order, masked_stream
from dragoman.errors import RunError
from dragoman.evaluation import Score
from dragoman.models.encoder_only import EncoderTransformer
from dragoman.runs.folder import RunFolder
from dragoman.tasks.base import Description, Work
from dragoman.tasks.config import MaskedModelling
from dragoman.tasks.encoder_tasks import build_encoder_network
from dragoman.tasks.text_data import Part, Texts, gather_texts
from dragoman.tasks.validation import likelihood
from dragoman.training.language_modeling_losses import masked_tokens
from dragoman.training.trainer import Judge


@final
@dataclass(frozen=True)
class MaskedModellingTask:
    """Text, an encoder-only network, and how often it finds the words that were hidden."""

    experiment: MaskedModelling

    @property
    def description(self) -> Description:
        return Description(
            noun="masked language model",
            counted="hidden tokens",
            unit="tokens",
            command="dragoman train CONFIG --set start=RUN --out FOLDER",
            python=None,
        )

    def gather(self, folder: RunFolder, *, tell: Callable[[str], None]) -> Texts:
        return gather_texts(self.experiment.data, self.experiment.tokenizer, folder, tell=tell)

    def work(self, materials: Texts, *, device: torch.device) -> Work[TextBatch]:
        config = self.experiment.training
        model = build_encoder_network(self.experiment.model, materials.tokenizer, seed=config.seed, device=device)
        once = partial(self._once, vocabulary=len(materials.tokenizer.source))

        def validate(network: Any) -> Mapping[str, float]:
            found = likelihood(network, once(materials.valid), masked_tokens(), device=device)
            return {"loss": found.loss, "accuracy": _accuracy(network, once(materials.valid), device=device)}

        def scores(part: Part) -> list[Score]:
            found = likelihood(model, once(part), masked_tokens(), device=device)
            share = self.experiment.masking.share
            facts = f"tokens:{found.predictions}|hidden:{share:g}|tokenizer:{materials.tokenizer.fingerprint[:8]}"
            accuracy = _accuracy(model, once(part), device=device)
            return [*found.scores(facts=facts), Score("accuracy", accuracy, facts, "", higher_is_better=True)]

        judge = Judge(validate, deciding="loss", higher_is_better=False)
        return Work(
            model=model,
            stream=masked_stream(
                materials.train.store.texts,
                vocabulary=len(materials.tokenizer.source),
                context=self.experiment.data.context,
                masking=self.experiment.masking,
                budget=config.budget,
                seed=config.seed,
            ),
            objective=masked_tokens(config.label_smoothing, precision=config.precision),
            judge=judge,
            last_judge=judge,
            scores={name: partial(scores, part) for name, part in materials.held_out.items()},
            name=materials.name_documents,
        )

    def _once(self, part: Part, *, vocabulary: int) -> Iterable[TextBatch]:
        """A part with the same words hidden every time."""
        return masked_in_order(
            part.store.texts,
            vocabulary=vocabulary,
            context=self.experiment.data.context,
            masking=self.experiment.masking,
            budget=self.experiment.training.budget,
        )

    def network(self, folder: RunFolder, *, device: torch.device) -> EncoderTransformer:
        seed = self.experiment.training.seed
        return build_encoder_network(self.experiment.model, folder.read_tokenizer(), seed=seed, device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> NoReturn:  # noqa: ARG002
        raise RunError(
            f"{folder.path}: only guesses hidden words; begin the training of a classifier, a tagger or an answerer "
            f"with it, by start: {folder.path} in its configuration"
        )


@torch.inference_mode()
def _accuracy(model: EncoderTransformer, batches: Iterable[TextBatch], *, device: torch.device) -> float:
    """The hidden words that are found, in percent."""
    found = count = 0
    for batch in (one.to(device) for one in batches):
        hidden = model.hidden(batch.tokens, batch.lengths)
        guessed = model.unembed(hidden[batch.counted]).argmax(dim=-1)
        found += int((guessed == batch.expected[batch.counted]).sum())
        count += batch.target_count
    return 100 * found / count
