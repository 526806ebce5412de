"""Scores and perplexity of texts under a decoder-only model."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding.config import AVERAGE_LOG_PROB
from dragoman.decoding.hypothesis import Hypothesis, TokenAlternatives
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import perplexity
from dragoman.inference.backends.cpu_backend import pad_ids
from dragoman.inference.backends.protocol import InferenceBackend
from dragoman.inference.concurrent_calls import Turn, hand_over
from dragoman.inference.generation.prompts import GenerationWarning
from dragoman.inference.length_batches import run_in_batches, warn_unknown
from dragoman.models.special_symbols import BOS, EOS
from dragoman.number_words import counted


@final
@dataclass(frozen=True, slots=True)
class Perplexity:
    """Cost of predicting texts; end symbols count as tokens, begin symbols do not."""

    nats: float
    """Negative log-probability (natural logarithm) of all tokens."""
    tokens: int
    bytes: int
    """UTF-8 bytes of the texts as they are given, which do not depend on the tokenizer.

    A tokenizer that folds case, characters or white space leaves less to predict than these bytes contain.
    """

    @property
    def nats_per_token(self) -> float:
        """Cross-entropy, equal to the validation loss without label smoothing."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Exponential of the cross-entropy; infinite beyond 1e304."""
        return perplexity(self.nats_per_token)

    @property
    def bits_per_byte(self) -> float:
        """Cost per byte in bits; infinite where the texts are empty."""
        return self.nats / math.log(2) / self.bytes if self.bytes else math.inf

    def to_dict(self) -> dict[str, float | None]:
        """Return the record of `dragoman score --perplexity --format jsonl`, with None for infinite numbers."""
        names = ("perplexity", "nats_per_token", "bits_per_byte", "tokens", "bytes")
        numbers = {name: getattr(self, name) for name in names}
        return {name: number if math.isfinite(number) else None for name, number in numbers.items()}


class ScoringText(NamedTuple):
    """Target to score, with its end symbol, after a prompt with the begin symbol."""

    prompt: list[int]
    target: list[int]


def scoring_texts(
    tokenizer: Tokenizer, texts: list[str], prompts: list[str] | None, *, pairs: bool
) -> list[ScoringText]:
    """Return texts to score, each after its prompt. Raises DataError where prompts are missing or too many."""
    if pairs and (prompts is None or len(prompts) != len(texts)):
        raise DataError(
            f"{counted(len(texts), 'texts')} but {len(prompts or ())} prompts; this model needs one for each"
        )
    if not pairs and prompts is not None:
        raise DataError("this model continues texts and has no separate prompts; leave prompts out")
    encoded = tokenizer.target.encode_batch(texts)
    warn_unknown(texts, encoded, tokenizer.target, category=GenerationWarning, unit="text")
    before: list[list[int]] = [[] for _ in texts]
    if prompts is not None:
        before = tokenizer.source.encode_batch(prompts)
        warn_unknown(prompts, before, tokenizer.source, category=GenerationWarning, unit="prompt")
    return [ScoringText([*source, BOS], [*ids, EOS]) for source, ids in zip(before, encoded, strict=True)]


class ScoringWindow(NamedTuple):
    """Positions `begin` to `end` of a text; those before `scored` are context only."""

    begin: int
    scored: int
    end: int


def scoring_windows(length: int, *, context: int, overlap: int = 0) -> list[ScoringWindow]:
    """Split a text of `length` positions into windows of at most `context`, so that each position is scored once.

    The first scored positions of a window see `overlap` positions before them: 0 is cheapest and gives the lowest
    scores, `context - 1` gives each position the full context, with one window per position. Raises ConfigError
    where the overlap leaves nothing to score.
    """
    if not 0 <= overlap < context:
        raise ConfigError(
            f"overlap = {overlap}: a window of {context} tokens can share 0 to {context - 1} tokens with the one before"
        )
    found: list[ScoringWindow] = []
    scored = 0
    while scored < length:
        begin = max(0, scored - overlap)
        end = min(begin + context, length)
        found.append(ScoringWindow(begin, scored, end))
        scored = end
    return found


def score_texts(
    backend: InferenceBackend[Any, Any],
    texts: Sequence[ScoringText],
    *,
    context: int,
    overlap: int,
    batch_tokens: int,
    turn: Turn = nullcontext,
) -> list[Hypothesis]:
    """Score the target of each text as an output; the score is the mean log-probability."""
    windows = [
        (row, window)
        for row, (prompt, target) in enumerate(texts)
        for window in scoring_windows(len(prompt) + len(target) - 1, context=context, overlap=overlap)
        if window.end >= len(prompt)
    ]

    def run(some: list[tuple[int, ScoringWindow]]) -> list[Hypothesis]:
        prompts, targets = zip(*(_cut(texts[row], window) for row, window in some), strict=True)
        return backend.score(prompts, targets, penalty=AVERAGE_LOG_PROB)

    lengths = [one.end - one.begin for _, one in windows]
    scored = run_in_batches(windows, lengths, run, batch_tokens=batch_tokens, turn=turn)
    log_probs: list[list[float]] = [[] for _ in texts]
    for (row, _), one in zip(windows, scored, strict=True):
        log_probs[row] += one.token_log_probs
    totals = map(math.fsum, log_probs)
    return [
        Hypothesis(tuple(text.target[:-1]), total, total / len(row), tuple(row), finished=True)
        for text, row, total in zip(texts, log_probs, totals, strict=True)
    ]


def most_probable_tokens(
    backend: InferenceBackend[Any, Any], texts: Sequence[Sequence[int]], *, count: int
) -> list[list[TokenAlternatives]]:
    """Return the most probable tokens after each token of texts but the last, step by step."""
    memory = backend.encode([ids[:1] for ids in texts])
    state = backend.start(memory, beam_size=1)
    tokens = pad_ids(texts)
    found: list[list[TokenAlternatives]] = [[] for _ in texts]
    for position in range(tokens.shape[1] - 1):
        hand_over()
        log_probs, ids, state = backend.top_k(tokens[:, position : position + 1], memory, state, k=count)
        for row, text in enumerate(texts):
            if position + 1 < len(text):
                found[row].append(tuple(zip(ids[row, 0].tolist(), log_probs[row, 0].tolist(), strict=True)))
    return found


def _cut(text: ScoringText, window: ScoringWindow) -> ScoringText:
    """Return the tokens of a window up to the first scored one as a prompt, and the scored tokens as its target."""
    begin, shift = max(window.scored, len(text.prompt) - 1), len(text.prompt) - 1
    tokens = text.prompt + text.target
    return ScoringText(tokens[window.begin : begin + 1], text.target[begin - shift : window.end - shift])
