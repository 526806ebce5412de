"""Translation, and other tasks with a source and a target text."""

import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, zip_longest
from typing import Any, ClassVar, final

import torch
from torch import nn

from dragoman.data.batching.batch_streams import EpochStream
from dragoman.data.batching.token_budget_batches import Batch, batches_in_order, pair_stream
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.datasets.source_token_features import StoredFeatures
from dragoman.data.document_context import ContextForm, split_context
from dragoman.data.tokenizers import SubwordTokenizer
from dragoman.data.tokenizers.normalization import TextNormalizer
from dragoman.decoding import DecodingConfig
from dragoman.evaluation import Score, corpus_score
from dragoman.evaluation.metrics import Metric, higher_is_better, require_metrics
from dragoman.inference.translation_options import LanguageOptions
from dragoman.inference.translation_result import TranslationWarning
from dragoman.inference.translator import Translator
from dragoman.models.ensemble import Ensemble
from dragoman.tasks.build_training import TrainingSetup, measure_likelihood
from dragoman.tasks.config import TranslationConfig, max_positions
from dragoman.tasks.initial_weights import (
    build_initial_model,
    build_translation_model,
    export_weights,
    initial_tokenizer,
    initial_weights,
    load_teachers,
    origin_notes,
)
from dragoman.tasks.parallel_data import LengthLimits, ParallelData, epoch_store, prepare_parallel_data
from dragoman.tasks.task import CorpusAdvice, RunFiles, TaskDescription, load_model
from dragoman.training.losses import build_translation_loss, cross_entropy_loss
from dragoman.training.trainer import Validator

MAX_VALID_LENGTH = 2048
"""Tokens per side; longer validation pairs are left out of the loss, whose memory grows quadratically."""

MIN_CHANGED_TARGETS = 0.01
"""Share of validation targets that a tokenizer may change without a note, about the noise of exact match."""
NORMALIZATION_REMEDIES = {
    "whitespace": "set tokenizer.whitespace=keep for a model that writes them",
    "casing": "set tokenizer.casing=preserve, or a metric with lowercase: true",
    "normalization": "set tokenizer.normalization=none, or write the targets in this Unicode form",
}

SPACE_NAMES = {"\t": "tab", "\x0b": "vertical tab", "\x0c": "form feed", "\r": "carriage return", "\x85": "next line"}
"""Names of white space that Unicode does not name."""


@final
@dataclass(frozen=True)
class TranslationTask:
    """Translation with an encoder-decoder model."""

    experiment: TranslationConfig

    description: ClassVar = TaskDescription(
        noun="translation model",
        loss_unit="target tokens",
        unit="tokens",
        command="dragoman translate RUN --input FILE",
        python_usage='dragoman.load("RUN", dragoman.Translator).translate(["…"])',
        advice=CorpusAdvice(
            enough=10_000,
            outlook="a few thousand pairs rarely give a useful translator",
            remedy=(
                "Add pairs, start from a finished run (--init-from RUN), or, for names and short phrases, set "
                "tokenizer.kind=characters."
            ),
        ),
    )

    def prepare_data(self, folder: RunFiles, *, report: Callable[[str], None]) -> ParallelData:
        experiment, limit = self.experiment, max_positions(self.experiment.model)
        require_metrics(experiment.metrics)
        longest = MAX_VALID_LENGTH if limit is None else min(MAX_VALID_LENGTH, limit[0] - 1)
        pairs = prepare_parallel_data(
            experiment.data,
            folder,
            create_tokenizer=partial(initial_tokenizer, experiment, open_run=folder.open),
            seed=experiment.training.seed,
            valid_limits=LengthLimits(longest, longest),
            advice=self.description.advice if experiment.init_from is None else None,
            report=report,
        )
        return replace(
            pairs,
            weights=initial_weights(experiment, pairs.tokenizer, folder),
            notes=(
                *pairs.notes,
                *_normalization_notes(pairs),
                *origin_notes(experiment.init_from),
            ),
        )

    def setup_training(self, data: ParallelData, *, device: torch.device) -> TrainingSetup[Batch]:
        experiment, config = self.experiment, self.experiment.training
        model = build_initial_model(experiment, data.tokenizer, data.weights, device=device)
        translator = Translator(model, data.tokenizer, device=device)
        score = partial(score_translations, translator, metrics=experiment.metrics, settings=experiment.decoding)
        sets = {"valid": data.texts.valid, "test": data.texts.test}
        return TrainingSetup(
            model=model,
            stream=build_stream(experiment, data),
            loss_function=build_translation_loss(
                config.loss,
                smoothing=config.label_smoothing,
                precision=config.precision,
                teachers=load_teachers(experiment, data.tokenizer, data.folder.open, device=device),
            ),
            validator=_build_validator(experiment, data, device, beam_size=config.validation_beam_size),
            final_validator=_build_validator(experiment, data, device, beam_size=experiment.decoding.beam_size),
            scorers={
                name: partial(
                    score, texts, source_features=data.source_features.get(name), languages=data.languages[name]
                )
                for name, texts in sets.items()
                if texts is not None
            },
            describe_rows=data.describe_rows,
            export_weights=export_weights(config),
        )

    def build_model(self, folder: RunFiles, *, device: torch.device) -> nn.Module:
        return build_translation_model(self.experiment, folder.read_tokenizer(), device=device)

    def load(self, folder: RunFiles, *, device: torch.device, batch_tokens: int) -> Translator:
        tokenizer = folder.read_tokenizer()
        model = load_model(partial(build_translation_model, self.experiment, tokenizer), folder, device=device)
        return Translator(model, tokenizer, device=device, batch_tokens=batch_tokens, config=self.experiment.decoding)


def build_torch_ensemble(members: Sequence[Any]) -> nn.Module:
    """Build an ensemble of PyTorch models, which averages their token probabilities."""
    return Ensemble(members).eval()


def build_stream(experiment: TranslationConfig, data: ParallelData) -> EpochStream[Batch]:
    """Return the stream of training batches."""
    seed = experiment.training.seed
    return pair_stream(
        epoch_store(data, experiment.data, experiment.tokenizer, seed=seed),
        budget=experiment.training.token_budget,
        seed=seed,
        source_features=data.source_features.get("train"),
        weights=data.corpus_weights,
    )


def _normalization_notes(pairs: ParallelData) -> Iterator[str]:
    """Describe each setting of the tokenizer that changes many references, apart from runs of plain spaces."""
    tokenizer = pairs.tokenizer.target
    if not isinstance(tokenizer, SubwordTokenizer):
        return
    targets = [target for _, target in pairs.texts.valid]
    for key, remedy in NORMALIZATION_REMEDIES.items():
        value = getattr(tokenizer.normalizer, key)
        changed = changed_targets(targets, **{key: value})
        if len(changed) >= MIN_CHANGED_TARGETS * len(targets):
            which = f" ({', '.join(_space_names(changed))})" if key == "whitespace" else ""
            yield (
                f"tokenizer.{key} = {value} changes {len(changed):,} of {len(targets):,} validation targets{which}, so "
                f"no translation can match them exactly: {remedy}"
            )


def changed_targets(targets: Iterable[str], **normalization: Any) -> list[str]:
    """Return the targets that a setting of a tokenizer changes; runs of plain spaces do not count."""
    faithful = TextNormalizer(normalization="none", casing="preserve", whitespace="keep")
    normalizer = replace(faithful, **normalization)
    spaced = (" ".join(filter(None, target.split(" "))) for target in targets)
    return [target for target in spaced if normalizer.normalize(target) != target]


def _space_names(texts: Iterable[str]) -> list[str]:
    """Return the names of the white space in texts, such as `no-break space`, apart from plain spaces."""
    found = sorted({character for text in texts for character in text if character.isspace()} - {" "})
    return [SPACE_NAMES.get(one) or unicodedata.name(one, f"control character {ord(one)}").lower() for one in found]


def score_translations(
    translator: Translator,
    texts: TextStore,
    *,
    metrics: Sequence[Metric],
    settings: DecodingConfig,
    source_features: StoredFeatures | None = None,
    languages: LanguageOptions | None = None,
) -> list[Score]:
    """Translate a corpus and score it against its targets, unnormalized as `dragoman evaluate` reads them.

    A source with several targets is translated once; with document context, its last sentence is scored. `languages`
    are those of the corpus, for a model of several.
    """
    groups = [list(rows) for _, rows in groupby(range(len(texts)), key=texts.line)]  # a line may have several targets
    split = split_context if ContextForm.of(translator.tokenizer) is not None else _without_context
    joined = [split(texts.pair(rows[0])[0]) for rows in groups]
    sources, context = [source for _, source in joined], [before for before, _ in joined]
    targets = [[split(texts.pair(row)[1])[1] for row in rows] for rows in groups]
    heads = None if source_features is None else [source_features.heads(rows[0]) for rows in groups]
    with warnings.catch_warnings():
        # An untrained model reaches the length limit; its scores say so, and a warning per line would not help.
        warnings.simplefilter("ignore", TranslationWarning)
        own = context if any(context) else None
        results = translator.translate(sources, settings, source_features=heads, context=own, **(languages or {}))
    outputs = [translations[0].text for translations in results]
    references = [list(column) for column in zip_longest(*targets, fillvalue="")]
    return [corpus_score(outputs, references, metric) for metric in metrics]


def _without_context(text: str) -> tuple[list[str], str]:
    return [], text


def _build_validator(
    experiment: TranslationConfig, data: ParallelData, device: torch.device, *, beam_size: int
) -> Validator:
    """Build a validator of the loss, and of the first metric if translations are validated."""
    metric = experiment.metrics[0] if experiment.training.validate_bleu else None
    budget = experiment.training.token_budget
    tree = experiment.decoding.model_dump() | {"beam_size": beam_size, "n_best": 1}
    settings = DecodingConfig.model_validate(tree)
    source_features = data.source_features.get("valid")

    def validate(model: nn.Module) -> Mapping[str, float]:
        batches = batches_in_order(data.valid, budget=budget, source_features=source_features)
        scores = {"loss": measure_likelihood(model, batches, cross_entropy_loss(0.0), device=device).loss}
        if metric is not None:
            translator = Translator(model, data.tokenizer, device=device, batch_tokens=budget)
            options: Any = {"metrics": [metric], "settings": settings, "source_features": source_features}
            options |= {"languages": data.languages["valid"]}
            [score] = score_translations(translator, data.texts.valid, **options)
            scores[metric.kind] = score.value
        return scores

    if metric is None:
        return Validator(validate, metric="loss", higher_is_better=False)
    return Validator(validate, metric=metric.kind, higher_is_better=higher_is_better(metric))
