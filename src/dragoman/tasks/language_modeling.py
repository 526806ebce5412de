"""From running text, or from prompts and their continuations, to a generator of text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch

from dragoman.data.batching.epochs import BatchStream
from dragoman.data.batching.packing import TextBatch, window_stream, windows_in_order
from dragoman.data.batching.prompts import prompt_stream, prompts_in_order
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.inference.backends.decoder_only import Predicting
from dragoman.inference.generator import BATCH_TOKENS, Generator
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.factory import build_decoder_only
from dragoman.runs.folder import RunFolder
from dragoman.tasks.base import TaskDescription, TrainingSetup, load_weights
from dragoman.tasks.config import LanguageModelingConfig, PromptConfig, PlainTextConfig
from dragoman.tasks.parallel_data import LengthLimits, ParallelData, prepare_parallel_data, epoch_store
from dragoman.tasks.prepared_data import format_list
from dragoman.tasks.text_data import TextPart, TextCorpus, prepare_text_data
from dragoman.tasks.validation import loss_validator, measure_likelihood
from dragoman.training.losses import causal_lm_loss
from dragoman.training.step import seeded_rng

SAMPLE_TOKENS = 200
"""Most tokens of the specimen in the model card."""


@final
@dataclass(frozen=True)
class _Batches:
    """What differs between running text and pairs."""

    stream: BatchStream[TextBatch]
    sets: Mapping[str, Callable[[], Iterable[TextBatch]]]
    """All batches of each held-out set, once."""
    characters: Mapping[str, Callable[[], int]]
    """The length of the text of a set, where all of it is predicted."""
    way: str
    """How the sets are cut, in a signature."""
    name: Callable[[Sequence[int]], str]
    prompt: str
    """What the specimen goes on from."""


@final
@dataclass(frozen=True)
class LanguageModelingTask:
    """Text, a decoder-only network, and how well it predicts."""

    experiment: LanguageModelingConfig

    @property
    def description(self) -> TaskDescription:
        return TaskDescription(
            noun="language model",
            loss_unit="predicted tokens",
            unit="tokens",
            command="dragoman generate RUN --prompt TEXT",
            python_usage='generate(["…"])',
        )

    def prepare_data(self, folder: RunFolder, *, tell: Callable[[str], None]) -> TextCorpus | ParallelData:
        experiment, data = self.experiment, self.experiment.data
        if isinstance(data, PlainTextConfig):
            return prepare_text_data(data, experiment.tokenizer, folder, tell=tell)
        limits = LengthLimits(data.max_source_length, data.max_target_length)
        seed = experiment.training.seed
        return prepare_parallel_data(
            data,
            folder,
            learn=lambda pairs: Tokenizer.train(pairs, experiment.tokenizer),
            seed=seed,
            judged=limits,
            joined=True,
            tell=tell,
        )

    def setup_training(self, materials: TextCorpus | ParallelData, *, device: torch.device) -> TrainingSetup[TextBatch]:
        config, tokenizer = self.experiment.training, materials.tokenizer
        model = build_language_model(self.experiment, tokenizer, device=device)
        generator = build_generator(self.experiment, model, tokenizer, device=device, batch_tokens=BATCH_TOKENS)
        supply = self._of_texts(materials) if isinstance(materials, TextCorpus) else self._of_pairs(materials)
        judge = loss_validator(supply.sets["valid"], causal_lm_loss(), device=device)

        def scores(name: str) -> list[Score]:
            found = measure_likelihood(model, supply.sets[name](), causal_lm_loss(), device=device)
            facts = f"tokens:{found.predictions}|{supply.way}|tokenizer:{tokenizer.fingerprint[:8]}"
            characters = supply.characters[name]() if name in supply.characters else None
            return found.scores(facts=facts, detail=f"(context {self.experiment.data.context_length})", characters=characters)

        return TrainingSetup(
            model=model,
            stream=supply.stream,
            loss_function=causal_lm_loss(config.label_smoothing, precision=config.precision),
            validator=judge,
            final_validator=judge,
            scorers={name: partial(scores, name) for name in supply.sets},
            describe_rows=supply.name,
            write_sample=lambda: _write_sample(generator, supply.prompt, self.experiment),
        )

    def build_model(self, folder: RunFolder, *, device: torch.device) -> DecoderOnlyTransformer:
        return build_language_model(self.experiment, folder.read_tokenizer(), device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Generator:
        tokenizer = folder.read_tokenizer()
        model = load_weights(build_language_model(self.experiment, tokenizer, device=device), folder)
        return build_generator(self.experiment, model, tokenizer, device=device, batch_tokens=batch_tokens)

    def _of_texts(self, materials: TextCorpus) -> _Batches:
        config, context = self.experiment.training, self.experiment.data.context_length
        cut = {"context_length": context, "budget": config.token_budget}

        def once(part: TextPart) -> Iterable[TextBatch]:
            return windows_in_order(part.store.texts, **cut)

        def name(rows: Sequence[int]) -> str:
            return f"{format_list([f'{row:,}' for row in rows], what='the windows from tokens')} of the training text on"

        return _Batches(
            stream=window_stream(materials.train.store.texts, **cut, seed=config.seed),
            sets={name: partial(once, part) for name, part in materials.held_out.items()},
            characters={
                name: partial(part.characters, materials.tokenizer) for name, part in materials.held_out.items()
            },
            way="windows:apart",
            name=name,
            prompt="",
        )

    def _of_pairs(self, materials: ParallelData) -> _Batches:
        experiment, texts = self.experiment, materials.texts
        config = experiment.training
        assert isinstance(experiment.data, PromptConfig)

        def once(store: TokenStore) -> Iterable[TextBatch]:
            return prompts_in_order(store, budget=config.token_budget)

        def of_test(test: TextStore) -> Iterable[TextBatch]:
            return once(materials.judged.within(test, materials.tokenizer))

        sets = {"valid": partial(once, materials.valid)}
        store = epoch_store(materials, experiment.data, experiment.tokenizer, seed=config.seed)
        return _Batches(
            stream=prompt_stream(store, budget=config.token_budget, seed=config.seed),
            sets=sets if texts.test is None else {**sets, "test": partial(of_test, texts.test)},
            characters={},
            way="continuations:alone",
            name=materials.name,
            prompt=texts.valid.pair(0)[0],
        )


def build_language_model(experiment: LanguageModelingConfig, tokenizer: Tokenizer, *, device: torch.device) -> DecoderOnlyTransformer:
    """The network with its first weights, the same on every device for one seed."""
    with seeded_rng(experiment.training.seed, device=torch.device("cpu")):
        model = build_decoder_only(experiment.model, vocabulary=len(tokenizer.source))
    return model.to(device)


def build_generator(
    experiment: LanguageModelingConfig,
    model: DecoderOnlyTransformer | Predicting,
    tokenizer: Tokenizer,
    *,
    device: torch.device,
    batch_tokens: int,
) -> Generator:
    """The network for use, whatever computes it."""
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
    """What the network writes, from the prompt on."""
    [completion] = generator.generate([prompt], experiment.generation, tokens=SAMPLE_TOKENS)
    return f"{completion.prompt}{completion.text}"
