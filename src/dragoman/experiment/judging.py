"""How a run is judged: loss on held-out text, and scores of its translations."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from dragoman.data.batching import batches_in_order
from dragoman.data.store import TextStore, TokenStore
from dragoman.data.tokenizer import Tokenizer
from dragoman.decoding import SearchSettings
from dragoman.evaluation import Score, corpus_score
from dragoman.evaluation.metrics import Metric, higher_is_better
from dragoman.runtime.translator import TranslationWarning, Translator
from dragoman.training.loop import Judge
from dragoman.training.update import teacher_forced


def mean_loss(model: Any, store: TokenStore, *, budget: int, device: torch.device) -> float:
    """Negative log-likelihood a target token, in nats."""
    objective = teacher_forced(0.0)
    nll, tokens = 0.0, 0
    for batch in batches_in_order(store, budget=budget):
        nll += float(objective(model, batch.to(device)).negative_log_likelihood)
        tokens += int(batch.target_lengths.sum())
    return nll / tokens


def translation_scores(
    translator: Translator, texts: TextStore, *, metrics: Sequence[Metric], settings: SearchSettings
) -> list[Score]:
    """Scores of the translations of a corpus against its targets."""
    pairs = list(texts.pairs())
    with warnings.catch_warnings():
        # An untrained network rambles to the limit; here its scores say so, line by line warnings would not help.
        warnings.simplefilter("ignore", TranslationWarning)
        found = translator.hypotheses([source for source, _ in pairs], settings)
    outputs = [translations[0].text for translations in found]
    normalise = translator.tokenizer.target.normalise
    references = [normalise(target) for _, target in pairs]
    return [corpus_score(outputs, [references], metric) for metric in metrics]


def build_judge(
    *,
    tokenizer: Tokenizer,
    texts: TextStore,
    store: TokenStore,
    metric: Metric | None,
    settings: SearchSettings,
    budget: int,
    device: torch.device,
) -> Judge:
    """Judge by the loss, or by the metric of translations found with `settings` where one is given."""

    def validate(model: nn.Module) -> Mapping[str, float]:
        scores = {"loss": mean_loss(model, store, budget=budget, device=device)}
        if metric is not None:
            translator = Translator(model, tokenizer, device=device, batch_tokens=budget)  # type: ignore[arg-type]
            scored = translation_scores(translator, texts, metrics=[metric], settings=settings)
            scores[metric.kind] = scored[0].value
        return scores

    if metric is None:
        return Judge(validate, deciding="loss", higher_is_better=False)
    return Judge(validate, deciding=metric.kind, higher_is_better=higher_is_better(metric))
