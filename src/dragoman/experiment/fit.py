"""From materials to a finished run: train, choose the weights, score, write the card."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

from dragoman.decoding import SearchSettings
from dragoman.evaluation import Score
from dragoman.experiment.build import build_model
from dragoman.experiment.card import write_card
from dragoman.experiment.config import Experiment
from dragoman.experiment.environment import environment
from dragoman.experiment.judging import build_judge, translation_scores
from dragoman.experiment.materials import Materials, build_stream
from dragoman.experiment.run import RunFolder
from dragoman.files import write_atomically
from dragoman.models.weights import save_tensors
from dragoman.runtime.translator import Translator
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.events import Observer
from dragoman.training.loop import InterruptionError, Judge, Run, train
from dragoman.training.observers import MetricsFile, all_of
from dragoman.training.optimisers import build_optimiser
from dragoman.training.selection import choose
from dragoman.training.update import teacher_forced


@dataclass(frozen=True)
class Outcome:
    """A finished run: which candidate was taken, its scores by set, and the time and tokens it took."""

    chosen: str
    scores: dict[str, list[Score]]
    seconds: float
    updates: int
    tokens: int


def fit(
    experiment: Experiment,
    folder: RunFolder,
    materials: Materials,
    *,
    device: torch.device,
    observers: list[Observer],
    interrupted: Callable[[], bool],
) -> Outcome:
    """Train from the beginning or from the latest checkpoint, to the end.

    Raises InterruptionError where `interrupted` says so, after everything is saved.
    """
    config = experiment.training
    _write_environment(experiment, folder, materials, device)
    run = _begin(experiment, folder, materials, device)
    observe = all_of([MetricsFile(folder.metrics), *observers])
    train(
        run,
        config,
        objective=teacher_forced(config.label_smoothing, precision=config.precision),
        judge=_judge(experiment, materials, device, beam=config.validation_beam),
        observe=observe,
        device=device,
        interrupted=interrupted,
    )
    judge = _judge(experiment, materials, device, beam=experiment.decoding.beam)
    choice = choose(run, judge, interrupted=interrupted)
    observe(choice.event)
    translator = Translator(run.model, materials.tokenizer, device=device)  # type: ignore[arg-type]
    scores = _final_scores(experiment, materials, translator, between=lambda: _leave(run, interrupted))
    progress = run.progress
    outcome = Outcome(choice.event.name, scores, progress.seconds, progress.update, progress.tokens)
    _write_scores(folder, outcome)
    write_card(folder, experiment, materials, outcome, parameters=sum(p.numel() for p in run.model.parameters()))
    save_tensors(folder.weights, choice.weights)  # last, for where they are, the run is finished
    return outcome


def _begin(experiment: Experiment, folder: RunFolder, materials: Materials, device: torch.device) -> Run:
    config = experiment.training
    model = build_model(experiment, materials.tokenizer, device=device)
    return Run(
        model=model,
        optimiser=build_optimiser(config.optimiser, model),
        stream=build_stream(experiment, materials),
        checkpoints=Checkpoints(folder.checkpoints, keep=config.keep),
        progress=Progress(),
        name=materials.name,
    )


def _write_environment(experiment: Experiment, folder: RunFolder, materials: Materials, device: torch.device) -> None:
    """Where the run began; going on elsewhere does not change it."""
    if not folder.environment.exists():
        facts = environment(
            device=device,
            seed=experiment.training.seed,
            tokenizer=materials.tokenizer,
            corpora=materials.texts.fingerprints,
        )
        write_atomically(folder.environment, json.dumps(facts, indent=2) + "\n")


def _leave(run: Run, interrupted: Callable[[], bool]) -> None:
    if interrupted():
        raise InterruptionError(run.progress.update)


def _judge(experiment: Experiment, materials: Materials, device: torch.device, *, beam: int) -> Judge:
    settings = experiment.decoding.model_copy(update={"beam": beam, "best": 1})
    return build_judge(
        tokenizer=materials.tokenizer,
        texts=materials.texts.valid,
        store=materials.valid,
        metric=experiment.metrics[0] if experiment.training.translate else None,
        settings=SearchSettings.model_validate(settings.model_dump()),
        budget=experiment.training.batch_tokens,
        device=device,
    )


def _final_scores(
    experiment: Experiment, materials: Materials, translator: Translator, *, between: Callable[[], None]
) -> dict[str, list[Score]]:
    metrics, settings = experiment.metrics, experiment.decoding
    scores: dict[str, list[Score]] = {}
    for name, texts in (("valid", materials.texts.valid), ("test", materials.texts.test)):
        if texts is not None:
            between()
            scores[name] = translation_scores(translator, texts, metrics=metrics, settings=settings)
    return scores


def _write_scores(folder: RunFolder, outcome: Outcome) -> None:
    tree = {
        "weights": outcome.chosen,
        "seconds": round(outcome.seconds, 1),
        "updates": outcome.updates,
        "target_tokens": outcome.tokens,
        "scores": {name: [asdict(score) for score in scores] for name, scores in outcome.scores.items()},
    }
    write_atomically(folder.scores, json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
