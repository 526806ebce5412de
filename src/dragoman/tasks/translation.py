"""From parallel text to a translator, or from long texts to short ones: whatever has a source and a target."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import final

import torch
from torch import nn

from dragoman.data.batching.epochs import EpochStream
from dragoman.data.batching.token_batches import Batch, batches_in_order, pair_stream
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.datasets.trees import SourceTrees
from dragoman.decoding import SearchSettings
from dragoman.evaluation import Score, corpus_score
from dragoman.evaluation.metrics import Metric, higher_is_better
from dragoman.inference.translator import TranslationWarning, Translator
from dragoman.nn.lora import merge_lora
from dragoman.runs.folder import RunFolder
from dragoman.tasks.base import TaskDescription, TrainingSetup, load_weights
from dragoman.tasks.compatibility import max_positions
from dragoman.tasks.config import TranslationConfig
from dragoman.tasks.initialization import (
    build_initial_model,
    initial_tokenizer,
    initial_weights,
    load_teachers,
    build_translation_model,
)
from dragoman.tasks.parallel_data import LengthLimits, ParallelData, prepare_parallel_data, epoch_store
from dragoman.tasks.validation import measure_likelihood
from dragoman.training.losses import cross_entropy_loss
from dragoman.training.trainer import Validator
from dragoman.training.losses import build_translation_loss

MAX_VALID_LENGTH = 2048
"""Tokens of a side above which a validation pair is left out of the loss, whose memory grows with their square."""


@final
@dataclass(frozen=True)
class TranslationTask:
    """Pairs of texts, an encoder-decoder network, and scores of what it writes."""

    experiment: TranslationConfig

    @property
    def description(self) -> TaskDescription:
        return TaskDescription(
            noun="translation model",
            loss_unit="target tokens",
            unit="tokens",
            command="dragoman translate RUN --input FILE",
            python_usage='translate(["…"])',
        )

    def prepare_data(self, folder: RunFolder, *, tell: Callable[[str], None]) -> ParallelData:
        experiment, limit = self.experiment, max_positions(self.experiment.model)
        longest = MAX_VALID_LENGTH if limit is None else min(MAX_VALID_LENGTH, limit[0] - 1)
        pairs = prepare_parallel_data(
            experiment.data,
            folder,
            learn=partial(initial_tokenizer, experiment),
            seed=experiment.training.seed,
            judged=LengthLimits(longest, longest),
            tell=tell,
        )
        start = experiment.init_from
        begun = () if start is None else (f"begins with the weights and the tokenizer of {start.resolve().name}",)
        weights = initial_weights(experiment, pairs.tokenizer, folder)
        return replace(pairs, weights=weights, notes=(*pairs.notes, *begun))

    def setup_training(self, materials: ParallelData, *, device: torch.device) -> TrainingSetup[Batch]:
        experiment, config = self.experiment, self.experiment.training
        model = build_initial_model(experiment, materials.tokenizer, materials.weights, device=device)
        translator = Translator(model, materials.tokenizer, device=device)
        score = partial(score_translations, translator, metrics=experiment.metrics, settings=experiment.decoding)
        sets = {"valid": materials.texts.valid, "test": materials.texts.test}
        return TrainingSetup(
            model=model,
            stream=build_stream(experiment, materials),
            loss_function=build_translation_loss(
                config.loss,
                smoothing=config.label_smoothing,
                precision=config.precision,
                teachers=load_teachers(experiment, materials.tokenizer, device=device),
            ),
            validator=_build_validator(experiment, materials, device, beam=config.validation_beam_size),
            final_validator=_build_validator(experiment, materials, device, beam=experiment.decoding.beam),
            scorers={
                name: partial(score, texts, trees=materials.trees.get(name))
                for name, texts in sets.items()
                if texts is not None
            },
            describe_rows=materials.name,
            export_weights=partial(merge_lora, config=config.lora) if config.lora is not None else dict,
        )

    def build_model(self, folder: RunFolder, *, device: torch.device) -> nn.Module:
        return build_translation_model(self.experiment, folder.read_tokenizer(), device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Translator:
        tokenizer = folder.read_tokenizer()
        model = load_weights(build_translation_model(self.experiment, tokenizer, device=device), folder)
        return Translator(model, tokenizer, device=device, batch_tokens=batch_tokens, settings=self.experiment.decoding)


def build_stream(experiment: TranslationConfig, materials: ParallelData) -> EpochStream[Batch]:
    """The batches of a training."""
    seed = experiment.training.seed
    store = epoch_store(materials, experiment.data, experiment.tokenizer, seed=seed)
    trees = materials.trees.get("train")
    return pair_stream(store, budget=experiment.training.token_budget, seed=seed, trees=trees, weights=materials.times)


def score_translations(
    translator: Translator,
    texts: TextStore,
    *,
    metrics: Sequence[Metric],
    settings: SearchSettings,
    trees: SourceTrees | None = None,
) -> list[Score]:
    """Scores of the translations of a corpus against its targets; a source with several is translated once.

    `trees` are those of the sources.
    """
    rows, targets = _group_references(texts)
    sources = [texts.pair(row)[0] for row in rows]
    heads = None if trees is None else [trees.heads(row) for row in rows]
    with warnings.catch_warnings():
        # An untrained network rambles to the limit; here its scores say so, line by line warnings would not help.
        warnings.simplefilter("ignore", TranslationWarning)
        found = translator.hypotheses(sources, settings, trees=heads)
    outputs = [translations[0].text for translations in found]
    normalise = translator.tokenizer.target.normalize
    references = [[normalise(target) for target in column] for column in zip_longest(*targets, fillvalue="")]
    return [corpus_score(outputs, references, metric) for metric in metrics]


def _group_references(texts: TextStore) -> tuple[list[int], list[list[str]]]:
    """The first row of each source, and its targets: those that stand on one line of the corpus have one source."""
    rows: list[int] = []
    targets: list[list[str]] = []
    last = None
    for row, (_, target) in enumerate(texts.pairs()):
        if texts.line(row) != last:
            rows.append(row)
            targets.append([])
            last = texts.line(row)
        targets[-1].append(target)
    return rows, targets


def _build_validator(experiment: TranslationConfig, materials: ParallelData, device: torch.device, *, beam: int) -> Validator:
    """Judge by the loss, and by the first metric of translations found with a beam where they are wanted."""
    metric = experiment.metrics[0] if experiment.training.validate_bleu else None
    budget = experiment.training.token_budget
    chosen = experiment.decoding.model_copy(update={"beam": beam, "best": 1})
    settings = SearchSettings.model_validate(chosen.model_dump())
    trees = materials.trees.get("valid")

    def validate(model: nn.Module) -> Mapping[str, float]:
        batches = batches_in_order(materials.valid, budget=budget, trees=trees)
        scores = {"loss": measure_likelihood(model, batches, cross_entropy_loss(0.0), device=device).loss}
        if metric is not None:
            translator = Translator(model, materials.tokenizer, device=device, batch_tokens=budget)
            texts = materials.texts.valid
            scored = score_translations(translator, texts, metrics=[metric], settings=settings, trees=trees)
            scores[metric.kind] = scored[0].value
        return scores

    if metric is None:
        return Validator(validate, metric="loss", higher_is_better=False)
    return Validator(validate, metric=metric.kind, higher_is_better=higher_is_better(metric))
