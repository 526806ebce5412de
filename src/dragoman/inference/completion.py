"""From the ids of prompts to completions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from torch import Tensor

from dragoman.data.tokenizers import Side
from dragoman.decoding import (
    Average,
    Beginnings,
    Drawn,
    Hypothesis,
    SamplingSettings,
    SearchSettings,
    Sliding,
    draw,
    search,
)
from dragoman.decoding.greedy_state import hypothesis_of
from dragoman.inference.backends.decoder_only import Predicting
from dragoman.inference.length_batches import batches_by_length
from dragoman.inference.padding import rectangle
from dragoman.inference.text_stream import Writer
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Int

Ending = Literal["end", "stop", "length"]


@dataclass(frozen=True, slots=True)
class Completion:
    """What a network writes after a prompt.

    `prompt` is the prompt as the network saw it, and `text` what follows it, with the space between them if there is
    one. `tokens` are its pieces in readable form, among them those that spell the stop string, which the text lacks.
    `ending` says whether the network ended it, a stop string did, or the most tokens allowed.
    """

    prompt: str
    text: str
    hypothesis: Hypothesis
    tokens: tuple[str, ...]
    ending: Ending


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a network is given to go on from."""

    text: str
    ids: tuple[int, ...]
    """With the begin symbol, wherever it stands."""
    said: tuple[int, ...]
    """Those that the output is a part of one text with: repetition looks back on them, and spaces come between."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a completion ends at the latest: at so many tokens, and before any of the stop strings."""

    tokens: int
    stop: tuple[str, ...] = ()


@final
class Completer:
    """Draws and searches in batches, and writes out as text what is found."""

    def __init__(self, network: Predicting, side: Side, *, context: int, batch_tokens: int) -> None:
        self._network = network
        self._sliding = Sliding(network.steps, context=context)
        self._side = side
        self._device = network.device
        self._context = context
        self._batch_tokens = batch_tokens
        self._symbols = Symbols()

    def drawn(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, limits: Limits, *, samples: int, first: int
    ) -> list[list[Completion]]:
        """So many samples for each prompt, numbered from `first` on."""
        units = [(row, sample) for row in range(len(prompts)) for sample in range(samples)]
        lengths = [min(len(prompts[row].ids) + limits.tokens, self._context) for row, _ in units]
        found: dict[tuple[int, int], Completion] = {}
        with self._network.in_use():
            for places in batches_by_length(lengths, budget=self._batch_tokens):
                some = [units[place] for place in places]
                numbers = [(first + row, sample) for row, sample in some]
                batch = self._drawn_batch([prompts[row] for row, _ in some], settings, limits, numbers=numbers)
                found |= dict(zip(some, batch, strict=True))
        return [[found[row, sample] for sample in range(samples)] for row in range(len(prompts))]

    def pieces(self, prompt: Prompt, settings: SamplingSettings, limits: Limits) -> Iterator[str]:
        """The text of the first sample for a prompt, as it comes to be.

        Between the pieces the caller is not in inference mode, and the network is as it was.
        """
        writer = self._writer(prompt, limits)
        with self._network.in_use():
            steps = self._steps([prompt], [writer], settings, limits, numbers=[(0, 0)])
        going = True
        while going:
            with self._network.in_use():
                going = next(steps, None) is not None
            if not going:
                writer.finish()
            if piece := writer.take():
                yield piece

    def searched(self, prompts: Sequence[Prompt], settings: SearchSettings, limits: Limits) -> list[list[Completion]]:
        """The best completions for each prompt, of which what leaves no room for the most tokens is left out."""
        room = self._context - limits.tokens
        shown = [prompt.ids[-room:] for prompt in prompts]
        found: dict[int, list[Completion]] = {}
        with self._network.in_use():
            for rows in batches_by_length([len(ids) + limits.tokens for ids in shown], budget=self._batch_tokens):
                network, memory = self._network.read([shown[row] for row in rows])
                hypotheses = search(
                    network,
                    memory,
                    limits=np.full(len(rows), limits.tokens),
                    settings=settings,
                    symbols=self._symbols,
                    first=np.array([prompts[row].ids[-1] for row in rows]),
                )
                for row, best in zip(rows, hypotheses, strict=True):
                    found[row] = [self._written(prompts[row], one, limits) for one in best]
        return [found[row] for row in range(len(prompts))]

    def _drawn_batch(
        self,
        prompts: Sequence[Prompt],
        settings: SamplingSettings,
        limits: Limits,
        *,
        numbers: Sequence[tuple[int, int]],
    ) -> list[Completion]:
        writers = [self._writer(prompt, limits) for prompt in prompts]
        outputs: list[list[tuple[int, float]]] = [[] for _ in prompts]
        for step in self._steps(prompts, writers, settings, limits, numbers=numbers):
            for one in step:
                outputs[one.row].append((one.token, one.log_prob))
        hypotheses = [hypothesis_of(output, Average(), symbols=self._symbols) for output in outputs]
        return [self._completion(*each) for each in zip(prompts, hypotheses, writers, strict=True)]

    def _steps(
        self,
        prompts: Sequence[Prompt],
        writers: Sequence[Writer],
        settings: SamplingSettings,
        limits: Limits,
        *,
        numbers: Sequence[tuple[int, int]],
    ) -> Iterator[list[Drawn]]:
        """What is drawn after each prompt, step by step, until its writer has come to a stop string.

        A prompt that is there several times is read once.
        """
        different = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
        shown, lengths = rectangle([prompt.ids[-self._context - 1 :] for prompt in different], device=self._device)
        places = torch.tensor([different[prompt] for prompt in prompts], device=self._device)
        memory = self._sliding.encode(shown, lengths).keep(places)
        said = self._said(prompts if settings.looks_back else [Prompt("", (), ())] * len(prompts))
        return draw(
            self._sliding,
            memory,
            limits=torch.full((len(prompts),), limits.tokens, device=self._device),
            settings=settings,
            symbols=self._symbols,
            beginnings=Beginnings(self._latest(prompts), said, tuple(numbers)),
            is_over=lambda row, token: writers[row].add(token),
        )

    def _written(self, prompt: Prompt, hypothesis: Hypothesis, limits: Limits) -> Completion:
        writer = self._writer(prompt, limits)
        for token in hypothesis.tokens:
            writer.add(token)
        return self._completion(prompt, hypothesis, writer)

    def _completion(self, prompt: Prompt, hypothesis: Hypothesis, writer: Writer) -> Completion:
        writer.finish()
        ending: Ending = "stop" if writer.stopped else "end" if hypothesis.finished else "length"
        return Completion(prompt.text, writer.text, hypothesis, tuple(self._side.tokens(hypothesis.tokens)), ending)

    def _writer(self, prompt: Prompt, limits: Limits) -> Writer:
        return Writer(self._side.decoder(after=prompt.said), limits.stop)

    def _latest(self, prompts: Sequence[Prompt]) -> Int[Tensor, " batch"]:
        return torch.tensor([prompt.ids[-1] for prompt in prompts], device=self._device)

    def _said(self, prompts: Sequence[Prompt]) -> Int[Tensor, "batch places"]:
        """What the prompts say, padded before it."""
        backwards, _ = rectangle([prompt.said[::-1] for prompt in prompts], device=self._device)
        return backwards.flip(1)
