"""Prompts in, completions out: the way of a trained language model's user."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, assert_never, final

import torch

from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding import Hypothesis, LengthLimit, SamplingSettings, SearchSettings
from dragoman.decoding.sliding_cache import kept_of
from dragoman.errors import ConfigError, DataError, warn
from dragoman.inference.backends.decoder_only import Predicting, PredictingOnTensors
from dragoman.inference.chat import ChatTemplate, Message, prompt_of
from dragoman.inference.completion import Completer, Completion, Limits, Prompt
from dragoman.inference.perplexity import Given, Perplexity, score_given
from dragoman.models.special_symbols import Symbols

DEFAULTS = SamplingSettings()
TOKENS = 256
"""Most tokens of a completion, where nothing else is asked for."""
BATCH_TOKENS = 4096
STREAM_CHUNK = 256
"""Prompts of many that are sorted and batched together."""

Settings = SamplingSettings | SearchSettings


class GenerationWarning(UserWarning):
    """Something about one prompt that its writer should know; the message names the prompt."""


@final
class Generator:
    """A network that predicts the next token, and its tokenizer, for use.

    A network of running text goes on with a prompt; one of `pairs` (prompt and continuation) answers it. The network
    looks at `context` tokens at most: of longer texts the oldest are left out, as `decoding.sliding` says. What is
    drawn for a prompt does not depend on the prompts beside it.
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

        The model is a `runtime.predicting.Predicting`, or a `models.interfaces.Causal` of PyTorch, on `device` already.
        Raises ConfigError on a context that the network's positions do not reach.
        """
        self.network: Predicting = model if isinstance(model, Predicting) else PredictingOnTensors(model, device=device)
        """The model as searches and draws ask it."""
        longest = self.network.steps.maximum_length
        if context < 1 or (longest is not None and context > longest):
            most = longest or "any number of"
            raise ConfigError(f"context = {context}: the network can look at 1 to {most} tokens; choose within these")
        self.model = model
        self.tokenizer = tokenizer
        self.device = self.network.device
        self.context = context
        self.pairs = pairs
        self.template = template
        self.batch_tokens = batch_tokens
        self._symbols = Symbols()

    def generate(
        self,
        prompts: Sequence[str],
        settings: Settings = DEFAULTS,
        *,
        tokens: int = TOKENS,
        stop: Sequence[str] = (),
    ) -> list[Completion]:
        """One completion for each prompt, in order, drawn or (with `SearchSettings`) searched for.

        `tokens` is the most tokens of each; it ends before any of the `stop` strings. Raises ConfigError on settings
        that make no sense together or for this network.
        """
        return [found[0] for found in self.completions(prompts, settings, tokens=tokens, stop=stop)]

    def completions(
        self,
        prompts: Sequence[str],
        settings: Settings = DEFAULTS,
        *,
        samples: int = 1,
        tokens: int = TOKENS,
        stop: Sequence[str] = (),
        first: int = 0,
    ) -> list[list[Completion]]:
        """Several completions for each prompt: `samples` that are drawn, or the `settings.best` best ones.

        Draws are made of the seed, the number of the prompt (counted from `first`) and of the sample. A search keeps
        every hypothesis in the context: its prompts lose what leaves no room for `tokens`, and its stop strings cut
        what it has found.
        """
        limits = self._limits(settings, tokens=tokens, stop=stop)
        match settings:
            case SamplingSettings():
                if samples > 1 and settings.temperature == 0:
                    raise ConfigError(f"samples = {samples}: with temperature = 0 all would be the same; ask for 1")
                read = self._read(prompts, room=self.context, first=first, kept=kept_of(self.context))
                return self._completer.drawn(read, settings, limits, samples=samples, first=first)
            case SearchSettings():
                if samples > 1:
                    raise ConfigError(f"samples = {samples} has no effect on a search; set best = {samples} instead")
                read = self._read(prompts, room=self.context - tokens, first=first)
                return self._completer.searched(read, settings, limits)
            case _:
                assert_never(settings)

    def completions_of_many(
        self,
        prompts: Iterable[str],
        settings: Settings = DEFAULTS,
        *,
        samples: int = 1,
        tokens: int = TOKENS,
        stop: Sequence[str] = (),
        chunk: int = STREAM_CHUNK,
    ) -> Iterator[list[Completion]]:
        """What `completions` gives, for any number of prompts in the memory of `chunk` of them."""
        iterator, first = iter(prompts), 0
        while some := list(islice(iterator, chunk)):
            yield from self.completions(some, settings, samples=samples, tokens=tokens, stop=stop, first=first)
            first += len(some)

    def stream(
        self,
        prompt: str,
        settings: SamplingSettings = DEFAULTS,
        *,
        tokens: int = TOKENS,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """The text that `generate` gives for one prompt, in pieces that are given out as soon as they are certain."""
        limits = self._limits(settings, tokens=tokens, stop=stop)
        [read] = self._read([prompt], room=self.context, first=0, kept=kept_of(self.context))
        return self._completer.pieces(read, settings, limits)

    def chat(self, messages: Sequence[Message], settings: Settings = DEFAULTS, *, tokens: int = TOKENS) -> Completion:
        """The assistant's answer to a conversation, written out by the template of the network.

        Raises ConfigError where it has none, DataError on a conversation that cannot be answered.
        """
        if self.template is None:
            raise ConfigError("this network was trained without a chat template; use generate with a prompt")
        ends = () if self.pairs else tuple(filter(self._writable, self.template.stop))
        return self.generate([prompt_of(messages, self.template)], settings, tokens=tokens, stop=ends)[0]

    def score(
        self, texts: Sequence[str], *, prompts: Sequence[str] | None = None, overlap: int = 0
    ) -> list[Hypothesis]:
        """Each text with the log-probability that the network gives its tokens and its end; the score is their mean.

        A network of pairs needs the prompt of each text, which costs nothing. A text longer than the context is scored
        in windows, whose first tokens look back on `overlap` tokens of the window before. Raises DataError where
        prompts are missing or too many, ConfigError on an overlap that a window cannot have.
        """
        given = self._given(_checked(texts), prompts)
        with self.network.in_use():
            return score_given(
                self.network,
                given,
                context=self.context,
                overlap=overlap,
                batch_tokens=self.batch_tokens,
                symbols=self._symbols,
            )

    def perplexity(self, texts: Sequence[str], *, prompts: Sequence[str] | None = None, overlap: int = 0) -> Perplexity:
        """What predicting the texts costs, as `score` predicts them. Raises DataError where there is no text."""
        if not texts:
            raise DataError("there is no text to measure perplexity on; give one at least")
        scored = self.score(texts, prompts=prompts, overlap=overlap)
        return Perplexity(
            nats=-math.fsum(one.log_prob for one in scored),
            tokens=sum(one.length for one in scored),
            bytes=sum(len(self.tokenizer.target.normalise(text).encode()) for text in texts),
        )

    def prompts(self, texts: Sequence[str], *, room: int | None = None) -> list[Prompt]:
        """The texts as the network is given them; of more than `room` tokens, where it is said, it sees the last."""
        return self._read(texts, room=room, first=0)

    @property
    def _completer(self) -> Completer:
        side = self.tokenizer.target
        return Completer(self.network, side, context=self.context, batch_tokens=self.batch_tokens)

    def _limits(self, settings: Settings, *, tokens: int, stop: Sequence[str]) -> Limits:
        """What ends a completion, if it makes sense with the settings and for this network."""
        if isinstance(stop, str):
            raise TypeError("expected a list of stop strings, got one string; put it into a list")
        if tokens < 1:
            raise ConfigError(f"tokens = {tokens}: a completion has room for 1 token at least")
        if settings.minimum_length > tokens:
            raise ConfigError(f"minimum_length = {settings.minimum_length} is above tokens = {tokens}; raise tokens")
        if isinstance(settings, SearchSettings):
            if settings.maximum_length != LengthLimit():
                raise ConfigError("maximum_length has no effect on a completion; give the most tokens as tokens")
            if tokens >= self.context:
                raise ConfigError(
                    f"tokens = {tokens}: a search keeps its hypotheses in the context of {self.context} tokens, prompt "
                    f"included; ask for {self.context - 1} at most, or draw (temperature 0 for the most probable)"
                )
        for one in stop:
            if not self._writable(one):
                raise ConfigError(
                    f"stop = {one!r}: this network's tokenizer never writes that (it is empty, or white space, casing "
                    "or Unicode form is folded); leave it out"
                )
        return Limits(tokens, tuple(stop))

    def _writable(self, text: str) -> bool:
        return bool(text) and text in self.tokenizer.target.normalise(f"x{text}x")

    def _read(self, prompts: Sequence[str], *, room: int | None, first: int, kept: int | None = None) -> list[Prompt]:
        """The ids of prompts, which are numbered from `first` on and of which `room` tokens can be looked at.

        Of a longer one the last `kept` tokens are, where it slides through the context. Without `room` all of them are.
        """
        side, begin = self.tokenizer.source, self._symbols.begin
        texts = [side.normalise(text) for text in _checked(prompts)]
        encoded = [tuple(ids) for ids in side.encode_batch(texts)]
        # Drawing, running text leaves its beginning behind sooner or later, and nothing is said of it.
        if room is not None and (self.pairs or kept is None):
            besides = 1 if self.pairs else 0  # the begin symbol, which stands behind the prompt of a pair
            remedy = "shorten the prompt" if kept is not None else "shorten the prompt or ask for fewer tokens"
            for number, ids in enumerate(encoded, start=first + 1):
                if len(ids) + besides > room:
                    seen = (kept or room) - besides
                    found = f"prompt {number}: {len(ids)} tokens"
                    warn(f"{found}, of which the network can look at the last {seen} only; {remedy}", GenerationWarning)
        if self.pairs:
            return [Prompt(text, (*ids, begin), said=()) for text, ids in zip(texts, encoded, strict=True)]
        return [Prompt(text, (begin, *ids), said=ids) for text, ids in zip(texts, encoded, strict=True)]

    def _given(self, texts: Sequence[str], prompts: Sequence[str] | None) -> list[Given]:
        if self.pairs and (prompts is None or len(prompts) != len(texts)):
            raise DataError(f"{len(texts)} texts but {len(prompts or ())} prompts; this network needs one for each")
        if not self.pairs and prompts is not None:
            raise DataError("this network goes on with texts and knows no prompts apart from them; leave prompts out")
        begin, end, pad = self._symbols.begin, self._symbols.end, self._symbols.pad
        encoded = self.tokenizer.target.encode_batch(list(texts))
        before = self.tokenizer.source.encode_batch(list(prompts)) if prompts is not None else [[] for _ in texts]
        return [
            Given([*source, begin, *ids], [*[pad] * len(source), *ids, end])
            for source, ids in zip(before, encoded, strict=True)
        ]


def _checked(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise TypeError("expected a list of texts, got one text; put it into a list")
    return texts
