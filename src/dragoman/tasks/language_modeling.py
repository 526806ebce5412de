"""From running text, or from prompts and their continuations, to a generator of text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch

from dragoman.data.batching.epochs import Stream
from dragoman.data.batching.packing import TextBatch, window_stream, windows_in_order
from dragoman.data.batching.prompts import prompt_stream, prompts_in_order
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.inference.backends.decoder_only import Predicting
from dragoman.inference.generator import BATCH_TOKENS, Generator
from dragoman.models.decoder_only import CausalTransformer
from dragoman.models.factory import build_causal
from dragoman.runs.folder import RunFolder
from dragoman.tasks.base import Description, Work, with_weights
from dragoman.tasks.config import LanguageModelling, Prompts, RunningText
from dragoman.tasks.parallel_data import Limits, Pairs, gather_pairs, store_by_epoch
from dragoman.tasks.prepared_data import listed
from dragoman.tasks.text_data import Part, Texts, gather_texts
from dragoman.tasks.validation import by_loss, likelihood
from dragoman.training.language_modeling_losses import next_token
from dragoman.training.seeding import seeded

SPECIMEN = 200
"""Most tokens of the specimen in the model card."""


@final
@dataclass(frozen=True)
class _Supply:
    """What differs between running text and pairs."""

    stream: Stream[TextBatch]
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
class LanguageModellingTask:
    """Text, a decoder-only network, and how well it predicts."""

    experiment: LanguageModelling

    @property
    def description(self) -> Description:
        return Description(
            noun="language model",
            counted="predicted tokens",
            unit="tokens",
            command="dragoman generate RUN --prompt TEXT",
            python='generate(["…"])',
        )

    def gather(self, folder: RunFolder, *, tell: Callable[[str], None]) -> Texts | Pairs:
        experiment, data = self.experiment, self.experiment.data
        if isinstance(data, RunningText):
            return gather_texts(data, experiment.tokenizer, folder, tell=tell)
        limits = Limits(data.longest_source, data.longest_target)
        seed = experiment.training.seed
        return gather_pairs(
            data,
            folder,
            learn=lambda pairs: Tokenizer.train(pairs, experiment.tokenizer),
            seed=seed,
            judged=limits,
            joined=True,
            tell=tell,
        )

    def work(self, materials: Texts | Pairs, *, device: torch.device) -> Work[TextBatch]:
        config, tokenizer = self.experiment.training, materials.tokenizer
        model = build_network(self.experiment, tokenizer, device=device)
        generator = generator_of(self.experiment, model, tokenizer, device=device, batch_tokens=BATCH_TOKENS)
        supply = self._of_texts(materials) if isinstance(materials, Texts) else self._of_pairs(materials)
        judge = by_loss(supply.sets["valid"], next_token(), device=device)

        def scores(name: str) -> list[Score]:
            found = likelihood(model, supply.sets[name](), next_token(), device=device)
            facts = f"tokens:{found.predictions}|{supply.way}|tokenizer:{tokenizer.fingerprint[:8]}"
            characters = supply.characters[name]() if name in supply.characters else None
            return found.scores(facts=facts, detail=f"(context {self.experiment.data.context})", characters=characters)

        return Work(
            model=model,
            stream=supply.stream,
            objective=next_token(config.label_smoothing, precision=config.precision),
            judge=judge,
            last_judge=judge,
            scores={name: partial(scores, name) for name in supply.sets},
            name=supply.name,
            specimen=lambda: _specimen(generator, supply.prompt, self.experiment),
        )

    def network(self, folder: RunFolder, *, device: torch.device) -> CausalTransformer:
        return build_network(self.experiment, folder.read_tokenizer(), device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Generator:
        tokenizer = folder.read_tokenizer()
        model = with_weights(build_network(self.experiment, tokenizer, device=device), folder)
        return generator_of(self.experiment, model, tokenizer, device=device, batch_tokens=batch_tokens)

    def _of_texts(self, materials: Texts) -> _Supply:
        config, context = self.experiment.training, self.experiment.data.context
        cut = {"context": context, "budget": config.budget}

        def once(part: Part) -> Iterable[TextBatch]:
            return windows_in_order(part.store.texts, **cut)

        def name(rows: Sequence[int]) -> str:
            return f"{listed([f'{row:,}' for row in rows], what='the windows from tokens')} of the training text on"

        return _Supply(
            stream=window_stream(materials.train.store.texts, **cut, seed=config.seed),
            sets={name: partial(once, part) for name, part in materials.held_out.items()},
            characters={
                name: partial(part.characters, materials.tokenizer) for name, part in materials.held_out.items()
            },
            way="windows:apart",
            name=name,
            prompt="",
        )

    def _of_pairs(self, materials: Pairs) -> _Supply:
        experiment, texts = self.experiment, materials.texts
        config = experiment.training
        assert isinstance(experiment.data, Prompts)

        def once(store: TokenStore) -> Iterable[TextBatch]:
            return prompts_in_order(store, budget=config.budget)

        def of_test(test: TextStore) -> Iterable[TextBatch]:
            return once(materials.judged.within(test, materials.tokenizer))

        sets = {"valid": partial(once, materials.valid)}
        store = store_by_epoch(materials, experiment.data, experiment.tokenizer, seed=config.seed)
        return _Supply(
            stream=prompt_stream(store, budget=config.budget, seed=config.seed),
            sets=sets if texts.test is None else {**sets, "test": partial(of_test, texts.test)},
            characters={},
            way="continuations:alone",
            name=materials.name,
            prompt=texts.valid.pair(0)[0],
        )


def build_network(experiment: LanguageModelling, tokenizer: Tokenizer, *, device: torch.device) -> CausalTransformer:
    """The network with its first weights, the same on every device for one seed."""
    with seeded(experiment.training.seed, device=torch.device("cpu")):
        model = build_causal(experiment.model, vocabulary=len(tokenizer.source))
    return model.to(device)


def generator_of(
    experiment: LanguageModelling,
    model: CausalTransformer | Predicting,
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
        context=experiment.data.context,
        pairs=isinstance(experiment.data, Prompts),
        template=experiment.template,
        batch_tokens=batch_tokens,
    )


def _specimen(generator: Generator, prompt: str, experiment: LanguageModelling) -> str:
    """What the network writes, from the prompt on."""
    [completion] = generator.generate([prompt], experiment.generation, tokens=SPECIMEN)
    return f"{completion.prompt}{completion.text}"
