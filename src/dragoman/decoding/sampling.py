"""Sampling of outputs.

Each token is read off the cumulative distribution at a uniform number, which depends only on the seed, the keys of the
output and the position of the token, never on the other outputs of the batch.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Self

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding import logits_processors
from dragoman.decoding.beam_candidates import suppressed_tokens
from dragoman.decoding.config import AVERAGE_LOG_PROB, SamplingConfig
from dragoman.decoding.hypothesis import Hypothesis, build_hypothesis
from dragoman.decoding.logits_processors import Context, Logits, log_normalizer
from dragoman.models.protocols import Decoder, M, S
from dragoman.models.special_symbols import BOS, EOS, PAD
from dragoman.typing import Float, Int, Lengths


@dataclass(frozen=True)
class SamplingStart:
    """What precedes each output, one row per output."""

    tokens: Int[Tensor, " batch"]
    """The token before each output, which is not part of it."""
    context: Context
    """Earlier tokens for the filters that look back, padded before their first."""
    keys: tuple[tuple[int, int], ...]
    """Two numbers per output that, with the seed, determine its random numbers, such as prompt and sample number."""

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        """Return these outputs."""
        return type(self)(self.tokens[rows], self.context[rows], tuple(self.keys[row] for row in rows.tolist()))


@dataclass(frozen=True, slots=True)
class SampledToken:
    """Sampled token of an output (end symbol included) with its log-probability before filtering."""

    row: int
    token: int
    log_prob: float


@dataclass(frozen=True)
class _Active(Generic[M, S]):
    """Outputs still sampled: `rows` of all outputs. `start.tokens` are the latest tokens."""

    rows: Int[Tensor, " kept"]
    limits: Int[Tensor, " kept"]
    memory: M
    state: S
    start: SamplingStart

    def select(self, rows: Int[Tensor, " chosen"]) -> Self:
        return type(self)(
            self.rows[rows],
            self.limits[rows],
            self.memory.select(rows),
            self.state.select(rows),
            self.start.select(rows),
        )


def sample(
    model: Decoder[M, S],
    memory: M,
    *,
    limits: Lengths,
    config: SamplingConfig,
    start: SamplingStart | None = None,
) -> list[list[Hypothesis]]:
    """Sample one output per row of the memory; results have the form of `search`, their score is the mean log_prob.

    `limits` are the most tokens of each output, end symbol not counted. Without `start`, outputs follow the begin
    symbol and their rows are their keys. Raises RunError when logits are not finite.
    """
    outputs: list[list[tuple[int, float]]] = [[] for _ in range(len(limits))]
    for step in sample_tokens(model, memory, limits=limits, config=config, start=start):
        for one in step:
            outputs[one.row].append((one.token, one.log_prob))
    return [[build_hypothesis(output, AVERAGE_LOG_PROB)] for output in outputs]


def sample_tokens(
    model: Decoder[M, S],
    memory: M,
    *,
    limits: Lengths,
    config: SamplingConfig,
    start: SamplingStart | None = None,
    is_complete: Callable[[int, int], bool] = lambda _row, _token: False,
) -> Iterator[list[SampledToken]]:
    """Yield the tokens that `sample` draws: one list per step, in row order, without complete rows.

    A row is complete with its end symbol, at its limit unless the next token is the end symbol, where no token is
    possible, and where `is_complete` returns True for the row and its latest token.
    """
    start = start or _default_start(limits)
    rows = torch.arange(len(limits), device=limits.device)
    active = _Active(rows, limits, memory, _start(model, memory), start)
    for length in itertools.count():
        active, step = _step(model, active, length, config=config)
        continues = [one.token != EOS and not is_complete(one.row, one.token) for one in step]
        if step:
            yield step
        if not any(continues):
            return
        if len(continues) < len(active.rows) or not all(continues):
            kept = {one.row for one, goes_on in zip(step, continues, strict=True) if goes_on}
            active = _select(active, [index for index, row in enumerate(active.rows.tolist()) if row in kept])


def sample_next(
    logits: Logits,
    *,
    context: Context,
    suppress_tokens: Sequence[int],
    uniforms: Sequence[float],
    config: SamplingConfig,
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Return the next token of each row and its log-probability before filtering; minus infinity if none is possible.

    `uniforms` are one random number per row, which temperature 0 ignores.
    """
    normalizer = log_normalizer(logits[:, None])[:, 0]
    suppressed = torch.tensor(suppress_tokens, device=logits.device, dtype=torch.long)
    possible = filter_logits(logits.float().index_fill(1, suppressed, -math.inf), context, config=config)
    tokens = possible.argmax(dim=-1) if config.temperature == 0 else invert_cdf(possible, uniforms)
    log_probs = logits.gather(1, tokens[:, None])[:, 0].float() - normalizer
    return tokens, log_probs.masked_fill(possible.amax(dim=-1) == -math.inf, -math.inf)


def filter_logits(logits: Logits, context: Context, *, config: SamplingConfig) -> Logits:
    """Return the logits of the distribution that tokens are sampled from."""
    if config.repetition_penalty != 1:
        logits = logits_processors.apply_repetition_penalty(logits, context, config.repetition_penalty, pad=PAD)
    if config.no_repeat_ngram_size is not None:
        logits = logits_processors.block_repeated_ngrams(logits, context, config.no_repeat_ngram_size)
    if config.temperature not in (0, 1):
        logits = logits_processors.apply_temperature(logits, config.temperature)
    if config.top_k is not None:
        logits = logits_processors.filter_top_k(logits, config.top_k)
    if config.top_p is not None:
        logits = logits_processors.filter_top_p(logits, config.top_p)
    if config.min_p is not None:
        logits = logits_processors.filter_min_p(logits, config.min_p)
    if config.typical_p is not None:
        logits = logits_processors.filter_typical_p(logits, config.typical_p)
    return logits


def invert_cdf(logits: Logits, uniforms: Sequence[float]) -> Int[Tensor, " rows"]:
    """Return for each row the token at which the cumulative distribution first exceeds the number in [0, 1)."""
    exact = logits.cpu() if logits.device.type == "mps" else logits  # Apple's devices have no double precision
    cumulative = exact.double().softmax(dim=-1).cumsum(dim=-1)
    numbers = torch.tensor(uniforms, dtype=torch.double, device=cumulative.device)[:, None] * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, numbers, right=True)[:, 0]
    return tokens.clamp(max=logits.shape[1] - 1).to(logits.device)


def uniform_number(seed: int, keys: tuple[int, int], step: int) -> float:
    """Return a number in [0, 1) that depends on the arguments only (Philox generator, Salmon et al., 2011)."""
    first, second = keys
    key = np.array([seed, first], dtype=np.uint64)
    counter = np.array([step, second, 0, 0], dtype=np.uint64)
    return (int(np.random.Philox(key=key, counter=counter).random_raw()) >> 11) * 2.0**-53


@torch.inference_mode()
def _start(model: Decoder[M, S], memory: M) -> S:
    return model.start(memory, beam_size=1)


@torch.inference_mode()
def _step(
    model: Decoder[M, S], active: _Active[M, S], length: int, *, config: SamplingConfig
) -> tuple[_Active[M, S], list[SampledToken]]:
    """Extend every output of `length` tokens by one, and return the tokens of the outputs that continue."""
    before = active.start
    logits, state = model.step(before.tokens[:, None], active.memory, active.state)
    tokens, log_probs = sample_next(
        logits[:, 0],
        context=before.context,
        suppress_tokens=suppressed_tokens(length, min_length=config.min_length, allow_unk=config.allow_unk),
        uniforms=[uniform_number(config.seed, keys, length) for keys in before.keys],
        config=config,
    )
    cut = ((active.limits <= length) & (tokens != EOS)) | (log_probs == -math.inf)
    columns = zip(*(column.tolist() for column in (active.rows, tokens, log_probs, cut)), strict=True)
    sampled = [SampledToken(row, token, log_prob) for row, token, log_prob, is_cut in columns if not is_cut]
    after = SamplingStart(tokens, torch.cat([before.context, tokens[:, None]], dim=1), before.keys)
    return _Active(active.rows, active.limits, active.memory, state, after), sampled


@torch.inference_mode()
def _select(active: _Active[M, S], indices: list[int]) -> _Active[M, S]:
    return active.select(torch.tensor(indices, device=active.rows.device))


def _default_start(limits: Lengths) -> SamplingStart:
    tokens = torch.full_like(limits, BOS)
    return SamplingStart(tokens, tokens[:, None], tuple((row, 0) for row in range(len(limits))))
