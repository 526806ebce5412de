"""Language modeling of plain text, or of continuations of prompts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, final

import torch

from dragoman.data.batching.batch_streams import BatchStream
from dragoman.data.batching.packing import TextBatch, window_stream, windows_in_order
from dragoman.data.batching.prompt_batches import prompt_stream, prompts_in_order
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.inference.generator import Generator
from dragoman.inference.length_batches import BATCH_TOKENS
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.factory import build_decoder_only
from dragoman.tasks.build_training import TrainingSetup, loss_validator, measure_likelihood
from dragoman.tasks.config import LanguageModelingConfig, PlainTextConfig, PromptConfig
from dragoman.tasks.parallel_data import LengthLimits, ParallelData, epoch_store, prepare_parallel_data
from dragoman.tasks.plain_text_data import TextCorpus, TextPart, prepare_text_data
from dragoman.tasks.task import RunFiles, TaskDescription, format_list, load_weights
from dragoman.training.losses import causal_lm_loss
from dragoman.training.step import seeded_rng

_CPU = torch.device("cpu")
SAMPLE_TOKENS = 200
"""Tokens of the sample in the model card."""


@final
@dataclass(frozen=True)
class _Batches:
    """Batches of plain text or of prompts."""

    stream: BatchStream[TextBatch]
    sets: Mapping[str, Callable[[], Iterable[TextBatch]]]
    """For each held-out set, a function that yields its batches once."""
    characters: Mapping[str, Callable[[], int]]
    """For each set in which all text is predicted, a function that counts its characters."""
    signature: str
    describe_rows: Callable[[Sequence[int]], str]
    prompt: str
    """Prompt of the sample in the model card."""


@final
@dataclass(frozen=True)
class LanguageModelingTask:
    """Language modeling with a decoder-only model."""

    experiment: LanguageModelingConfig

    description: ClassVar = TaskDescription(
        noun="language model",
        loss_unit="predicted tokens",
        unit="tokens",
        command="dragoman generate RUN --prompt TEXT",
        python_usage='generate(["…"])',
    )

    def prepare_data(self, folder: RunFiles, *, report: Callable[[str], None]) -> TextCorpus | ParallelData:
        experiment, data = self.experiment, self.experiment.data
        if isinstance(data, PlainTextConfig):
            return prepare_text_data(data, experiment.tokenizer, folder, report=report)
        limits = LengthLimits(data.max_source_length, data.max_target_length)
        seed = experiment.training.seed
        return prepare_parallel_data(
            data,
            folder,
            create_tokenizer=lambda pairs: Tokenizer.train(pairs, experiment.tokenizer),
            seed=seed,
            valid_limits=limits,
            decoder_only=True,
            report=report,
        )

    def setup_training(self, data: TextCorpus | ParallelData, *, device: torch.device) -> TrainingSetup[TextBatch]:
        config, tokenizer = self.experiment.training, data.tokenizer
        model = build_language_model(self.experiment, tokenizer, device=device)
        generator = build_generator(self.experiment, model, tokenizer, device=device, batch_tokens=BATCH_TOKENS)
        batches = self._text_batches(data) if isinstance(data, TextCorpus) else self._prompt_batches(data)
        judge = loss_validator(batches.sets["valid"], causal_lm_loss(), device=device)

        def scores(name: str) -> list[Score]:
            likelihood = measure_likelihood(model, batches.sets[name](), causal_lm_loss(), device=device)
            signature = f"tokens:{likelihood.num_tokens}|{batches.signature}|tokenizer:{tokenizer.fingerprint[:8]}"
            characters = batches.characters[name]() if name in batches.characters else None
            return likelihood.scores(
                signature=signature, detail=f"(context {self.experiment.data.context_length})", characters=characters
            )

        return TrainingSetup(
            model=model,
            stream=batches.stream,
            loss_function=causal_lm_loss(config.label_smoothing, precision=config.precision),
            validator=judge,
            final_validator=judge,
            scorers={name: partial(scores, name) for name in batches.sets},
            describe_rows=batches.describe_rows,
            write_sample=lambda: _write_sample(generator, batches.prompt, self.experiment),
        )

    def build_model(self, folder: RunFiles, *, device: torch.device) -> DecoderOnlyTransformer:
        return build_language_model(self.experiment, folder.read_tokenizer(), device=device)

    def load(self, folder: RunFiles, *, device: torch.device, batch_tokens: int) -> Generator:
        tokenizer = folder.read_tokenizer()
        model = load_weights(build_language_model(self.experiment, tokenizer, device=device), folder)
        return build_generator(self.experiment, model, tokenizer, device=device, batch_tokens=batch_tokens)

    def _text_batches(self, data: TextCorpus) -> _Batches:
        config, context = self.experiment.training, self.experiment.data.context_length
        cut = {"context_length": context, "budget": config.token_budget}

        def once(part: TextPart) -> Iterable[TextBatch]:
            return windows_in_order(part.store.texts, **cut)

        def describe_rows(rows: Sequence[int]) -> str:
            return (
                f"{format_list([f'{row:,}' for row in rows], what='the windows from tokens')} of the training text on"
            )

        return _Batches(
            stream=window_stream(data.train.store.texts, **cut, seed=config.seed),
            sets={name: partial(once, part) for name, part in data.held_out.items()},
            characters={name: partial(part.num_characters, data.tokenizer) for name, part in data.held_out.items()},
            signature="windows:apart",
            describe_rows=describe_rows,
            prompt="",
        )

    def _prompt_batches(self, data: ParallelData) -> _Batches:
        experiment, texts = self.experiment, data.texts
        config = experiment.training
        assert isinstance(experiment.data, PromptConfig)

        def once(store: TokenStore) -> Iterable[TextBatch]:
            return prompts_in_order(store, budget=config.token_budget)

        def of_test(test: TextStore) -> Iterable[TextBatch]:
            return once(data.valid_limits.tokenize(test, data.tokenizer))

        sets = {"valid": partial(once, data.valid)}
        store = epoch_store(data, experiment.data, experiment.tokenizer, seed=config.seed)
        return _Batches(
            stream=prompt_stream(store, budget=config.token_budget, seed=config.seed),
            sets=sets if texts.test is None else {**sets, "test": partial(of_test, texts.test)},
            characters={},
            signature="continuations:alone",
            describe_rows=data.describe_rows,
            prompt=texts.valid.pair(0)[0],
        )


def build_language_model(
    experiment: LanguageModelingConfig, tokenizer: Tokenizer, *, device: torch.device
) -> DecoderOnlyTransformer:
    """Build the model with new weights, which are the same on every device for one seed."""
    with seeded_rng(experiment.training.seed, device=torch.device("cpu")):
        model = build_decoder_only(experiment.model, vocabulary=len(tokenizer.source))
    return model.to(device)


def build_generator(
    experiment: Any,
    model: DecoderOnlyTransformer | CpuBackend,
    tokenizer: Tokenizer,
    *,
    device: torch.device = _CPU,
    batch_tokens: int,
) -> Generator:
    """Build the generator of a model or of a backend."""
    assert isinstance(experiment, LanguageModelingConfig)
    return Generator(
        model,
        tokenizer,
        device=device,
        context=experiment.data.context_length,
        pairs=isinstance(experiment.data, PromptConfig),
        template=experiment.chat_template,
        batch_tokens=batch_tokens,
    )


def _write_sample(generator: Generator, prompt: str, experiment: LanguageModelingConfig) -> str:
    """Return the prompt with a generated continuation."""
    [completion] = generator.generate([prompt], experiment.generation, max_new_tokens=SAMPLE_TOKENS)
    return f"{completion.prompt}{completion.text}"
