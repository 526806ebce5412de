"""Generator: prompts in, completions out."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, assert_never, final

import torch

from dragoman.config import parse
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding import DecodingConfig, Hypothesis, SamplingConfig
from dragoman.decoding.sliding_context import tokens_after_slide
from dragoman.errors import ConfigError, DataError, warn
from dragoman.inference.backends.torch_backend import DecoderOnlyBackend, TorchDecoderOnlyBackend
from dragoman.inference.chat import ChatTemplate, Message, format_chat
from dragoman.inference.completion import Completer, Completion, Limits, Prompt
from dragoman.inference.perplexity import Perplexity, ScoringText, score_texts
from dragoman.models.special_symbols import BOS, EOS, PAD

DEFAULT_CONFIG = SamplingConfig()
MAX_NEW_TOKENS = 256
"""Default limit of a completion."""
BATCH_TOKENS = 4096
STREAM_CHUNK = 256
"""Prompts of a stream that are sorted and batched together."""

GenerationConfig = SamplingConfig | DecodingConfig


class GenerationWarning(UserWarning):
    """Warning about one prompt; the message names the prompt."""


@final
class Generator:
    """Decoder-only model with its tokenizer.

    A model of running text continues a prompt; one of `pairs` (prompt and continuation) answers it. The model attends
    to at most `context` tokens; of longer texts the oldest are dropped, as described in `decoding.sliding_context`. A
    sample does not depend on other prompts.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        device: torch.device | str = "cpu",
        context: int,
        pairs: bool = False,
        template: ChatTemplate | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        """`batch_tokens` bounds the tokens of prompts and outputs in a batch.

        The model is a `DecoderOnlyBackend`, or a `DecoderOnly` model of PyTorch on `device`. Raises ConfigError on a
        context beyond the model's positions.
        """
        self.backend: DecoderOnlyBackend = (
            model if isinstance(model, DecoderOnlyBackend) else TorchDecoderOnlyBackend(model, device=device)
        )
        longest = self.backend.decoder.max_length
        if context < 1 or (longest is not None and context > longest):
            most = longest or "any number of"
            raise ConfigError(f"context = {context}: the model attends to 1 to {most} tokens; choose within these")
        self.model = model
        self.tokenizer = tokenizer
        self.device = self.backend.device
        self.context = context
        self.pairs = pairs
        self.template = template
        self.batch_tokens = batch_tokens

    def generate(
        self,
        prompts: Sequence[str],
        config: GenerationConfig = DEFAULT_CONFIG,
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
        stop: Sequence[str] = (),
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        typical_p: float | None = None,
        repetition_penalty: float | None = None,
        seed: int | None = None,
    ) -> list[Completion]:
        """Return one completion for each prompt, in order, sampled or (with a `DecodingConfig`) searched for.

        A completion ends before any of the `stop` strings and has at most `max_new_tokens` tokens. Sampling options
        that are given replace those of `config`. Raises ConfigError on invalid options.
        """
        options = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "typical_p": typical_p,
            "repetition_penalty": repetition_penalty,
            "seed": seed,
        }
        given = {name: value for name, value in options.items() if value is not None}
        if given and isinstance(config, DecodingConfig):
            raise ConfigError(f"{next(iter(given))} has no effect on a search; remove it, or give a SamplingConfig")
        if given:
            config = parse(SamplingConfig, config.model_dump() | given)
        found = self.generate_n_best(prompts, config, max_new_tokens=max_new_tokens, stop=stop)
        return [completions[0] for completions in found]

    def generate_n_best(
        self,
        prompts: Sequence[str],
        config: GenerationConfig = DEFAULT_CONFIG,
        *,
        num_samples: int = 1,
        max_new_tokens: int = MAX_NEW_TOKENS,
        stop: Sequence[str] = (),
        first: int = 0,
    ) -> list[list[Completion]]:
        """Return several completions for each prompt: `num_samples` samples, or the `config.n_best` best.

        Samples depend on the seed and on the numbers of the prompt (from `first`) and of the sample. A search keeps
        every hypothesis in the context: its prompts lose what leaves no room for `max_new_tokens`, and its stop strings
        cut the hypotheses found.
        """
        limits = self._limits(config, max_new_tokens=max_new_tokens, stop=stop)
        match config:
            case SamplingConfig():
                if num_samples > 1 and config.temperature == 0:
                    raise ConfigError(
                        f"num_samples = {num_samples}: with temperature = 0 all samples are the same; choose 1"
                    )
                read = self._read(prompts, room=self.context, first=first, kept=tokens_after_slide(self.context))
                return self._completer.sample(read, config, limits, num_samples=num_samples, first=first)
            case DecodingConfig():
                if num_samples > 1:
                    raise ConfigError(
                        f"num_samples = {num_samples} has no effect on a search; set n_best = {num_samples} instead"
                    )
                read = self._read(prompts, room=self.context - max_new_tokens, first=first)
                return self._completer.search(read, config, limits)
            case _:
                assert_never(config)

    def generate_stream(
        self,
        prompts: Iterable[str],
        config: GenerationConfig = DEFAULT_CONFIG,
        *,
        num_samples: int = 1,
        max_new_tokens: int = MAX_NEW_TOKENS,
        stop: Sequence[str] = (),
        chunk: int = STREAM_CHUNK,
    ) -> Iterator[list[Completion]]:
        """Yield what `generate_n_best` returns, for any number of prompts in the memory of `chunk` of them."""
        iterator, first = iter(prompts), 0
        while some := list(islice(iterator, chunk)):
            yield from self.generate_n_best(
                some, config, num_samples=num_samples, max_new_tokens=max_new_tokens, stop=stop, first=first
            )
            first += len(some)

    def stream_text(
        self,
        prompt: str,
        config: SamplingConfig = DEFAULT_CONFIG,
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """Yield the text that `generate` returns for one prompt, in pieces, as soon as they are certain."""
        limits = self._limits(config, max_new_tokens=max_new_tokens, stop=stop)
        [read] = self._read([prompt], room=self.context, first=0, kept=tokens_after_slide(self.context))
        return self._completer.stream(read, config, limits)

    def chat(
        self,
        messages: Sequence[Message],
        config: GenerationConfig = DEFAULT_CONFIG,
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
    ) -> Completion:
        """Return the assistant's answer to a conversation, by the chat template of the model.

        Raises ConfigError where the model has none, DataError on a conversation that does not fit the template.
        """
        if self.template is None:
            raise ConfigError("this model was trained without a chat template; use generate with a prompt")
        stop = () if self.pairs else tuple(filter(self._can_generate, self.template.stop))
        prompt = format_chat(messages, self.template)
        return self.generate([prompt], config, max_new_tokens=max_new_tokens, stop=stop)[0]

    def score(
        self, texts: Sequence[str], *, prompts: Sequence[str] | None = None, overlap: int = 0
    ) -> list[Hypothesis]:
        """Score each text with the log-probability of its tokens and its end; the score is their mean.

        A model of pairs needs the prompt of each text, which is not scored. A text longer than the context is scored in
        windows, whose first tokens see `overlap` tokens of the window before. Raises DataError where prompts are
        missing or too many, ConfigError on an overlap that a window cannot have.
        """
        scoring = self._scoring_texts(_check_list(texts), prompts)
        with self.backend.inference_mode():
            return score_texts(
                self.backend, scoring, context=self.context, overlap=overlap, batch_tokens=self.batch_tokens
            )

    def perplexity(self, texts: Sequence[str], *, prompts: Sequence[str] | None = None, overlap: int = 0) -> Perplexity:
        """Measure perplexity on texts, predicted as `score` does. Raises DataError where there is no text."""
        if not texts:
            raise DataError("there is no text to measure perplexity on; give one at least")
        scored = self.score(texts, prompts=prompts, overlap=overlap)
        return Perplexity(
            nats=-math.fsum(one.log_prob for one in scored),
            tokens=sum(one.length for one in scored),
            bytes=sum(len(self.tokenizer.target.normalize(text).encode()) for text in texts),
        )

    def encode_prompts(self, texts: Sequence[str], *, room: int | None = None) -> list[Prompt]:
        """Return texts as the model reads them; with `room`, it attends to that many tokens at most."""
        return self._read(texts, room=room, first=0)

    @property
    def _completer(self) -> Completer:
        return Completer(self.backend, self.tokenizer.target, context=self.context, batch_tokens=self.batch_tokens)

    def _limits(self, config: GenerationConfig, *, max_new_tokens: int, stop: Sequence[str]) -> Limits:
        """Return the limits of a completion, checked against the configuration and the model."""
        if isinstance(stop, str):
            raise TypeError("expected a list of stop strings, got one string; put it into a list")
        if max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens = {max_new_tokens} is less than 1; choose 1 or more")
        if config.min_length > max_new_tokens:
            raise ConfigError(
                f"min_length = {config.min_length} is above max_new_tokens = {max_new_tokens}; raise max_new_tokens"
            )
        if isinstance(config, DecodingConfig):
            for name in ("max_length", "max_length_ratio", "max_length_offset"):
                if getattr(config, name) != DecodingConfig.model_fields[name].default:
                    raise ConfigError(f"{name} has no effect on a completion; set max_new_tokens instead")
            if max_new_tokens >= self.context:
                raise ConfigError(
                    f"max_new_tokens = {max_new_tokens}: a search keeps its hypotheses in the context of "
                    f"{self.context} tokens, prompt included; choose {self.context - 1} at most, "
                    "or sample (with temperature 0 for the most probable token)"
                )
        for one in stop:
            if not self._can_generate(one):
                raise ConfigError(
                    f"stop = {one!r}: the tokenizer of this model never generates it (it is empty, or its white space, "
                    "casing or Unicode form is normalized); remove it"
                )
        return Limits(max_new_tokens, tuple(stop))

    def _can_generate(self, text: str) -> bool:
        return bool(text) and text in self.tokenizer.target.normalize(f"x{text}x")

    def _read(self, prompts: Sequence[str], *, room: int | None, first: int, kept: int | None = None) -> list[Prompt]:
        """Encode prompts, numbered from `first`, and warn of those with more than `room` tokens.

        Of a longer prompt the model sees the last `kept` tokens where the context slides.
        """
        side = self.tokenizer.source
        texts = [side.normalize(text) for text in _check_list(prompts)]
        encoded = [tuple(ids) for ids in side.encode_batch(texts)]
        # When sampling, running text drops its beginning sooner or later anyway, without a warning.
        if room is not None and (self.pairs or kept is None):
            extra = 1 if self.pairs else 0  # the begin symbol, which follows the prompt of a pair
            remedy = "shorten the prompt" if kept is not None else "shorten the prompt or lower max_new_tokens"
            for number, ids in enumerate(encoded, start=first + 1):
                if len(ids) + extra > room:
                    seen = (kept or room) - extra
                    found = f"prompt {number}: {len(ids)} tokens"
                    warn(f"{found}, of which the model sees the last {seen} only; {remedy}", GenerationWarning)
        if self.pairs:
            return [Prompt(text, (*ids, BOS), context=()) for text, ids in zip(texts, encoded, strict=True)]
        return [Prompt(text, (BOS, *ids), context=ids) for text, ids in zip(texts, encoded, strict=True)]

    def _scoring_texts(self, texts: Sequence[str], prompts: Sequence[str] | None) -> list[ScoringText]:
        if self.pairs and (prompts is None or len(prompts) != len(texts)):
            raise DataError(f"{len(texts)} texts but {len(prompts or ())} prompts; this model needs one for each")
        if not self.pairs and prompts is not None:
            raise DataError("this model continues texts and has no separate prompts; leave prompts out")
        encoded = self.tokenizer.target.encode_batch(list(texts))
        before = self.tokenizer.source.encode_batch(list(prompts)) if prompts is not None else [[] for _ in texts]
        return [
            ScoringText([*source, BOS, *ids], [*[PAD] * len(source), *ids, EOS])
            for source, ids in zip(before, encoded, strict=True)
        ]


def _check_list(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise TypeError("expected a list of texts, got one text; put it into a list")
    return texts
