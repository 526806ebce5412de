"""Language modeling of plain text, or of continuations of prompts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, final

import torch
from torch import nn

from dragoman.data.batching.batch_streams import BatchStream
from dragoman.data.batching.example_batches import PromptLayout, prompt_stream, prompts_in_order
from dragoman.data.batching.packing import TextBatch, window_stream, windows_in_order
from dragoman.data.chat_template import SOURCE_FIELD, PromptFormat
from dragoman.data.tokenizers import Direction, Tokenizer
from dragoman.data.tokenizers.tokenizer_pair import Pairs
from dragoman.errors import DataError
from dragoman.evaluation import Score
from dragoman.inference.generation.generator import Generator
from dragoman.inference.generation.prompts import begins_with_bos
from dragoman.inference.length_batches import BATCH_TOKENS
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.factory import build_decoder_only
from dragoman.tasks.build_training import TrainingSetup, measure_likelihood
from dragoman.tasks.config import LanguageModelingConfig, PlainTextConfig, PromptConfig
from dragoman.tasks.initial_weights import (
    OpenRun,
    export_weights,
    initialize_model,
    origin_notes,
    read_initial_tokenizer,
    read_initial_weights,
)
from dragoman.tasks.parallel_data import LengthLimits, ParallelData, epoch_store, prepare_parallel_data
from dragoman.tasks.plain_text_data import TextCorpus, prepare_text_data
from dragoman.tasks.task import CorpusAdvice, RunFiles, TaskDescription, format_list, load_model
from dragoman.training.losses import causal_lm_loss
from dragoman.training.step import seeded_rng
from dragoman.training.trainer import Validator

SAMPLE_TOKENS = 200
"""Tokens of the sample in the model card."""
HeldOutBatches = Mapping[str, Callable[[], Iterable[TextBatch]]]
"""For each held-out set, a function that yields its batches once."""


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
        python_usage='dragoman.load("RUN", dragoman.Generator).generate(["…"])',
        advice=CorpusAdvice(
            enough=1_000_000,
            outlook="a model of such a text imitates its style, and does not stay on a topic",
            remedy="Add text. A small corpus gives better results with tokenizer.kind=characters.",
        ),
    )

    def prepare_data(self, folder: RunFiles, *, report: Callable[[str], None]) -> TextCorpus | ParallelData:
        experiment, data = self.experiment, self.experiment.data
        if isinstance(data, PlainTextConfig):
            return prepare_text_data(experiment, data, folder, advice=self.description.advice, report=report)
        limits = LengthLimits(data.max_source_length, data.max_target_length)
        seed = experiment.training.seed
        outlook = "a few thousand pairs rarely give a model that answers new prompts"
        advice = replace(self.description.advice, enough=10_000, outlook=outlook)
        start, prompt = experiment.init_from, _words_around_source(experiment, data)
        pairs = prepare_parallel_data(
            data,
            folder,
            create_tokenizer=partial(_pair_tokenizer, experiment, open_run=folder.open),
            seed=seed,
            valid_limits=limits,
            advice=advice if start is None else None,
            prompt=prompt,
            report=report,
        )
        _check_sources(pairs, experiment, data)
        weights = read_initial_weights(start, experiment.model, folder, task=experiment.task)
        return replace(pairs, weights=weights, notes=(*pairs.notes, *origin_notes(start)))

    def setup_training(self, data: TextCorpus | ParallelData, *, device: torch.device) -> TrainingSetup[TextBatch]:
        experiment, config, tokenizer = self.experiment, self.experiment.training, data.tokenizer
        model = self._build(tokenizer, device=device)
        initialize_model(model, data.weights, config, where=str(experiment.init_from))
        generator = self._generator(model, tokenizer, device=device, batch_tokens=BATCH_TOKENS)
        if isinstance(data, TextCorpus):
            stream, sets = self._text_batches(data)
            signature, prompt = "windows:apart", ""
        else:
            stream, sets = self._prompt_batches(data)
            signature, prompt = "continuations:alone", generator.build_prompt(data.texts.valid.pair(0)[0])

        def validate(model: nn.Module) -> dict[str, float]:
            likelihood = measure_likelihood(model, sets["valid"](), causal_lm_loss(), device=device)
            return {"loss": likelihood.loss, "perplexity": likelihood.perplexity}

        def scores(name: str) -> list[Score]:
            likelihood = measure_likelihood(model, sets[name](), causal_lm_loss(), device=device)
            return likelihood.scores(
                signature=f"tokens:{likelihood.num_tokens}|{signature}|tokenizer:{tokenizer.fingerprint[:8]}",
                detail=f"(context {experiment.data.context_length})",
                characters=data.characters[name] if isinstance(data, TextCorpus) else None,
                unigram_loss=data.unigram_loss(name) if isinstance(data, TextCorpus) else None,
            )

        def write_sample() -> str:
            [completion] = generator.generate([prompt], experiment.generation, max_new_tokens=SAMPLE_TOKENS)
            return f"{completion.prompt}{completion.text}"

        validator = Validator(validate, metric="loss", higher_is_better=False)
        return TrainingSetup(
            model=model,
            stream=stream,
            loss_function=causal_lm_loss(config.label_smoothing, precision=config.precision),
            validator=validator,
            final_validator=validator,
            scorers={name: partial(scores, name) for name in sets},
            describe_rows=_describe_windows if isinstance(data, TextCorpus) else data.describe_rows,
            export_weights=export_weights(config),
            write_sample=write_sample,
        )

    def build_model(self, folder: RunFiles, *, device: torch.device) -> DecoderOnlyTransformer:
        return self._build(folder.read_tokenizer(), device=device)

    def load(self, folder: RunFiles, *, device: torch.device, batch_tokens: int) -> Generator:
        tokenizer = folder.read_tokenizer()
        model = load_model(partial(self._build, tokenizer), folder, device=device)
        return self._generator(model, tokenizer, device=device, batch_tokens=batch_tokens)

    def _build(self, tokenizer: Tokenizer, *, device: torch.device) -> DecoderOnlyTransformer:
        """Build the model with new weights, which are the same on every device for one seed."""
        with seeded_rng(self.experiment.training.seed, device=torch.device("cpu")):
            return build_decoder_only(self.experiment.model, vocabulary=len(tokenizer.source)).to(device)

    def _generator(
        self, model: DecoderOnlyTransformer, tokenizer: Tokenizer, *, device: torch.device, batch_tokens: int
    ) -> Generator:
        data = self.experiment.data
        return Generator(
            model,
            tokenizer,
            device=device,
            context=self.experiment.data.context_length,
            pairs=isinstance(data, PromptConfig) and not data.prompt.chat,
            template=self.experiment.chat_template,
            prompt_format=data.prompt if isinstance(data, PromptConfig) else PromptFormat(),
            batch_tokens=batch_tokens,
            config=self.experiment.generation,
        )

    def _text_batches(self, data: TextCorpus) -> tuple[BatchStream[TextBatch], HeldOutBatches]:
        config = self.experiment.training
        options = {"context_length": self.experiment.data.context_length, "budget": config.token_budget}
        return window_stream(data.stores["train"].texts, **options, seed=config.seed), {
            name: partial(windows_in_order, store.texts, **options) for name, store in data.held_out.items()
        }

    def _prompt_batches(self, data: ParallelData) -> tuple[BatchStream[TextBatch], HeldOutBatches]:
        experiment, test = self.experiment, data.texts.test
        assert isinstance(experiment.data, PromptConfig)
        budget, seed = experiment.training.token_budget, experiment.training.seed
        chat = experiment.data.prompt.chat
        layout = PromptLayout(separator=not chat, begins_with_bos=chat and begins_with_bos(data.tokenizer))
        sets: dict[str, Callable[[], Iterable[TextBatch]]] = {
            "valid": lambda: prompts_in_order(data.valid, layout, budget=budget)
        }
        if test is not None:
            limits, directions = data.valid_limits, data.directions
            sets["test"] = lambda: prompts_in_order(
                limits.tokenize(test, data.tokenizer, directions), layout, budget=budget
            )
        store = epoch_store(data, experiment.data, experiment.tokenizer, seed=seed)
        return prompt_stream(store, layout, budget=budget, seed=seed), sets


def _words_around_source(experiment: LanguageModelingConfig, data: PromptConfig) -> Direction:
    """Return the words before and after the source in a prompt."""
    before, _, after = data.prompt.build(SOURCE_FIELD, experiment.chat_template).partition(SOURCE_FIELD)
    return Direction(text=before, text_after=after)


def _check_sources(pairs: ParallelData, experiment: LanguageModelingConfig, data: PromptConfig) -> None:
    """Raise DataError, with the line, if a source contains a marker of the chat template."""
    if not data.prompt.chat:
        return
    reserved, texts = pairs.tokenizer.source.control_tokens, pairs.texts
    sets = {"train": texts.train, "valid": texts.valid, "test": texts.test}
    for name, store in sets.items():
        for row, (source, _) in enumerate(store or ()):
            assert store is not None
            try:
                data.prompt.build(source, experiment.chat_template, reserved=reserved)
            except DataError as error:
                raise DataError(f"data.{name}, line {store.line(row)}: {error}") from error


def _pair_tokenizer(experiment: LanguageModelingConfig, pairs: Pairs, *, open_run: OpenRun) -> Tokenizer:
    """Return the tokenizer of the initial run, or a new one of both sides."""
    if experiment.init_from is None:
        return Tokenizer.train(pairs, experiment.tokenizer)
    return read_initial_tokenizer(open_run(experiment.init_from), experiment.tokenizer, task=experiment.task)


def _describe_windows(rows: Sequence[int]) -> str:
    """Name the windows of a batch by their first tokens."""
    return f"{format_list([f'{row:,}' for row in rows], what='the windows from tokens')} of the training text on"
