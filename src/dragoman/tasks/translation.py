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
from dragoman.nn.lora import merged
from dragoman.runs.folder import RunFolder
from dragoman.tasks.base import Description, Work, with_weights
from dragoman.tasks.compatibility import longest_places
from dragoman.tasks.config import Translation
from dragoman.tasks.initialization import (
    begin_network,
    first_tokenizer,
    first_weights,
    teachers_of,
    translation_network,
)
from dragoman.tasks.parallel_data import Limits, Pairs, gather_pairs, store_by_epoch
from dragoman.tasks.validation import likelihood
from dragoman.training.step import teacher_forced
from dragoman.training.trainer import Judge
from dragoman.training.translation_loss import build_objective

LONGEST_JUDGED = 2048
"""Tokens of a side above which a validation pair is left out of the loss, whose memory grows with their square."""


@final
@dataclass(frozen=True)
class TranslationTask:
    """Pairs of texts, an encoder-decoder network, and scores of what it writes."""

    experiment: Translation

    @property
    def description(self) -> Description:
        return Description(
            noun="translation model",
            counted="target tokens",
            unit="tokens",
            command="dragoman translate RUN --input FILE",
            python='translate(["…"])',
        )

    def gather(self, folder: RunFolder, *, tell: Callable[[str], None]) -> Pairs:
        experiment, limit = self.experiment, longest_places(self.experiment.model)
        longest = LONGEST_JUDGED if limit is None else min(LONGEST_JUDGED, limit[0] - 1)
        pairs = gather_pairs(
            experiment.data,
            folder,
            learn=partial(first_tokenizer, experiment),
            seed=experiment.training.seed,
            judged=Limits(longest, longest),
            tell=tell,
        )
        start = experiment.start
        begun = () if start is None else (f"begins with the weights and the tokenizer of {start.resolve().name}",)
        weights = first_weights(experiment, pairs.tokenizer, folder)
        return replace(pairs, weights=weights, notes=(*pairs.notes, *begun))

    def work(self, materials: Pairs, *, device: torch.device) -> Work[Batch]:
        experiment, config = self.experiment, self.experiment.training
        model = begin_network(experiment, materials.tokenizer, materials.weights, device=device)
        translator = Translator(model, materials.tokenizer, device=device)
        score = partial(translation_scores, translator, metrics=experiment.metrics, settings=experiment.decoding)
        sets = {"valid": materials.texts.valid, "test": materials.texts.test}
        return Work(
            model=model,
            stream=build_stream(experiment, materials),
            objective=build_objective(
                config.objective,
                smoothing=config.label_smoothing,
                precision=config.precision,
                teachers=teachers_of(experiment, materials.tokenizer, device=device),
            ),
            judge=_build_judge(experiment, materials, device, beam=config.validation_beam),
            last_judge=_build_judge(experiment, materials, device, beam=experiment.decoding.beam),
            scores={
                name: partial(score, texts, trees=materials.trees.get(name))
                for name, texts in sets.items()
                if texts is not None
            },
            name=materials.name,
            finished=partial(merged, config=config.adapters) if config.adapters is not None else dict,
        )

    def network(self, folder: RunFolder, *, device: torch.device) -> nn.Module:
        return translation_network(self.experiment, folder.read_tokenizer(), device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Translator:
        tokenizer = folder.read_tokenizer()
        model = with_weights(translation_network(self.experiment, tokenizer, device=device), folder)
        return Translator(model, tokenizer, device=device, batch_tokens=batch_tokens, settings=self.experiment.decoding)


def build_stream(experiment: Translation, materials: Pairs) -> EpochStream[Batch]:
    """The batches of a training."""
    seed = experiment.training.seed
    store = store_by_epoch(materials, experiment.data, experiment.tokenizer, seed=seed)
    trees = materials.trees.get("train")
    return pair_stream(store, budget=experiment.training.budget, seed=seed, trees=trees, times=materials.times)


def translation_scores(
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
    rows, targets = _with_references(texts)
    sources = [texts.pair(row)[0] for row in rows]
    heads = None if trees is None else [trees.heads(row) for row in rows]
    with warnings.catch_warnings():
        # An untrained network rambles to the limit; here its scores say so, line by line warnings would not help.
        warnings.simplefilter("ignore", TranslationWarning)
        found = translator.hypotheses(sources, settings, trees=heads)
    outputs = [translations[0].text for translations in found]
    normalise = translator.tokenizer.target.normalise
    references = [[normalise(target) for target in column] for column in zip_longest(*targets, fillvalue="")]
    return [corpus_score(outputs, references, metric) for metric in metrics]


def _with_references(texts: TextStore) -> tuple[list[int], list[list[str]]]:
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


def _build_judge(experiment: Translation, materials: Pairs, device: torch.device, *, beam: int) -> Judge:
    """Judge by the loss, and by the first metric of translations found with a beam where they are wanted."""
    metric = experiment.metrics[0] if experiment.training.translate else None
    budget = experiment.training.budget
    chosen = experiment.decoding.model_copy(update={"beam": beam, "best": 1})
    settings = SearchSettings.model_validate(chosen.model_dump())
    trees = materials.trees.get("valid")

    def validate(model: nn.Module) -> Mapping[str, float]:
        batches = batches_in_order(materials.valid, budget=budget, trees=trees)
        scores = {"loss": likelihood(model, batches, teacher_forced(0.0), device=device).loss}
        if metric is not None:
            translator = Translator(model, materials.tokenizer, device=device, batch_tokens=budget)
            texts = materials.texts.valid
            scored = translation_scores(translator, texts, metrics=[metric], settings=settings, trees=trees)
            scores[metric.kind] = scored[0].value
        return scores

    if metric is None:
        return Judge(validate, deciding="loss", higher_is_better=False)
    return Judge(validate, deciding=metric.kind, higher_is_better=higher_is_better(metric))
