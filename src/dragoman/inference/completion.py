"""Sampling and search of completions, from prompt ids to text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from torch import Tensor

from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.decoding import (
    DecodingConfig,
    Hypothesis,
    SampledToken,
    SamplingConfig,
    SamplingStart,
    SlidingContext,
    sample_tokens,
    search,
)
from dragoman.decoding.config import AVERAGE_LOG_PROB
from dragoman.decoding.hypothesis import build_hypothesis
from dragoman.inference.backends.torch_backend import DecoderOnlyBackend, pad_batch
from dragoman.inference.batching import batch_by_length
from dragoman.inference.text_stream import TextStream
from dragoman.typing import Int

FinishReason = Literal["end", "stop", "length"]


@dataclass(frozen=True, slots=True)
class Completion:
    """Generated continuation of a prompt.

    `prompt` is the normalized prompt, `text` its continuation, with the space between them if there is one. `tokens`
    are its subwords in readable form, those of the stop string included, which the text lacks. `finish_reason` says
    whether the end symbol, a stop string or the length limit ended it.
    """

    prompt: str
    text: str
    hypothesis: Hypothesis
    tokens: tuple[str, ...]
    finish_reason: FinishReason

    @property
    def score(self) -> float:
        """Log-probability after the length penalty; of a sample, the mean log-probability per token."""
        return self.hypothesis.score

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Completion(text={self.text!r}, score={self.score:.4f}, finish_reason={self.finish_reason!r})"


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt as the model reads it."""

    text: str
    ids: tuple[int, ...]
    """With the begin symbol, before or after the prompt."""
    context: tuple[int, ...]
    """Ids that form one text with the output: repetition filters look back on them, and spaces separate them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a completion: number of tokens, and stop strings that it ends before."""

    max_new_tokens: int
    stop: tuple[str, ...] = ()


@final
class Completer:
    """Samples and searches completions in batches, and detokenizes them."""

    def __init__(
        self, backend: DecoderOnlyBackend, tokenizer: LanguageTokenizer, *, context: int, batch_tokens: int
    ) -> None:
        self._backend = backend
        self._sliding = SlidingContext(backend.decoder, context=context)
        self._tokenizer = tokenizer
        self._device = backend.device
        self._context = context
        self._batch_tokens = batch_tokens

    def sample(
        self, prompts: Sequence[Prompt], config: SamplingConfig, limits: Limits, *, num_samples: int, first: int
    ) -> list[list[Completion]]:
        """Sample `num_samples` completions for each prompt; prompts are numbered from `first`."""
        units = [(row, number) for row in range(len(prompts)) for number in range(num_samples)]
        lengths = [min(len(prompts[row].ids) + limits.max_new_tokens, self._context) for row, _ in units]
        found: dict[tuple[int, int], Completion] = {}
        with self._backend.inference_mode():
            for indices in batch_by_length(lengths, batch_tokens=self._batch_tokens):
                some = [units[index] for index in indices]
                keys = [(first + row, number) for row, number in some]
                batch = self._sample_batch([prompts[row] for row, _ in some], config, limits, keys=keys)
                found |= dict(zip(some, batch, strict=True))
        return [[found[row, number] for number in range(num_samples)] for row in range(len(prompts))]

    def stream(self, prompt: Prompt, config: SamplingConfig, limits: Limits) -> Iterator[str]:
        """Yield the text of the first sample for a prompt while it is generated.

        Between the pieces the caller is not in inference mode.
        """
        text = self._text_stream(prompt, limits)
        with self._backend.inference_mode():
            steps = self._steps([prompt], [text], config, limits, keys=[(0, 0)])
        running = True
        while running:
            with self._backend.inference_mode():
                running = next(steps, None) is not None
            if not running:
                text.finish()
            if piece := text.take():
                yield piece

    def search(self, prompts: Sequence[Prompt], config: DecodingConfig, limits: Limits) -> list[list[Completion]]:
        """Return the best completions of each prompt; prompts lose what leaves no room for the most new tokens."""
        room = self._context - limits.max_new_tokens
        shown = [prompt.ids[-room:] for prompt in prompts]
        lengths = [len(ids) + limits.max_new_tokens for ids in shown]
        found: dict[int, list[Completion]] = {}
        with self._backend.inference_mode():
            for rows in batch_by_length(lengths, batch_tokens=self._batch_tokens):
                model, memory = self._backend.encode_prompts([shown[row] for row in rows])
                hypotheses = search(
                    model,
                    memory,
                    limits=np.full(len(rows), limits.max_new_tokens),
                    config=config,
                    start_tokens=np.array([prompts[row].ids[-1] for row in rows]),
                )
                for row, best in zip(rows, hypotheses, strict=True):
                    found[row] = [self._detokenize(prompts[row], one, limits) for one in best]
        return [found[row] for row in range(len(prompts))]

    def _sample_batch(
        self, prompts: Sequence[Prompt], config: SamplingConfig, limits: Limits, *, keys: Sequence[tuple[int, int]]
    ) -> list[Completion]:
        texts = [self._text_stream(prompt, limits) for prompt in prompts]
        outputs: list[list[tuple[int, float]]] = [[] for _ in prompts]
        for step in self._steps(prompts, texts, config, limits, keys=keys):
            for one in step:
                outputs[one.row].append((one.token, one.log_prob))
        hypotheses = [build_hypothesis(output, AVERAGE_LOG_PROB) for output in outputs]
        return [self._completion(*each) for each in zip(prompts, hypotheses, texts, strict=True)]

    def _steps(
        self,
        prompts: Sequence[Prompt],
        texts: Sequence[TextStream],
        config: SamplingConfig,
        limits: Limits,
        *,
        keys: Sequence[tuple[int, int]],
    ) -> Iterator[list[SampledToken]]:
        """Sample step by step, until each output ends or its text contains a stop string.

        A prompt given several times is encoded once.
        """
        different = {prompt: index for index, prompt in enumerate(dict.fromkeys(prompts))}
        shown, lengths = pad_batch([prompt.ids[-self._context - 1 :] for prompt in different], device=self._device)
        rows = torch.tensor([different[prompt] for prompt in prompts], device=self._device)
        memory = self._sliding.encode(shown, lengths).select(rows)
        context = self._pad_context(prompts if config.needs_context else [Prompt("", (), ())] * len(prompts))
        return sample_tokens(
            self._sliding,
            memory,
            limits=torch.full((len(prompts),), limits.max_new_tokens, device=self._device),
            config=config,
            start=SamplingStart(self._latest(prompts), context, tuple(keys)),
            is_complete=lambda row, token: texts[row].add(token),
        )

    def _detokenize(self, prompt: Prompt, hypothesis: Hypothesis, limits: Limits) -> Completion:
        text = self._text_stream(prompt, limits)
        for token in hypothesis.tokens:
            text.add(token)
        return self._completion(prompt, hypothesis, text)

    def _completion(self, prompt: Prompt, hypothesis: Hypothesis, text: TextStream) -> Completion:
        text.finish()
        reason: FinishReason = "stop" if text.stopped else "end" if hypothesis.finished else "length"
        tokens = tuple(self._tokenizer.ids_to_tokens(hypothesis.tokens))
        return Completion(prompt.text, text.text, hypothesis, tokens, reason)

    def _text_stream(self, prompt: Prompt, limits: Limits) -> TextStream:
        return TextStream(self._tokenizer.streaming_decoder(after=prompt.context), limits.stop)

    def _latest(self, prompts: Sequence[Prompt]) -> Int[Tensor, " batch"]:
        return torch.tensor([prompt.ids[-1] for prompt in prompts], device=self._device)

    def _pad_context(self, prompts: Sequence[Prompt]) -> Int[Tensor, "batch places"]:
        """Return the contexts of the prompts, padded before their first tokens."""
        backwards, _ = pad_batch([prompt.context[::-1] for prompt in prompts], device=self._device)
        return backwards.flip(1)
