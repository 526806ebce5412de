"""Completions of prompts, and their text while it is generated, up to the first stop string."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from dragoman.data.tokenizers import LanguageTokenizer, StreamingDecoder
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.html_tables import html_table
from dragoman.inference.prompts import Prompt

FinishReason = Literal["end", "stop", "length"]
MAX_NEW_TOKENS = 256
"""Default limit of a completion."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Generated continuation of a prompt.

    `prompt` is the normalized prompt, `text` its continuation, with the space between them if there is one. `tokens`
    are its subwords in readable form, those of the stop string included, which the text lacks. `finish_reason` says
    whether the end symbol, a stop string or the length limit ended it; `truncated` says that the prompt was longer than
    the context of the model, which ignored its beginning. `prompt_length` counts the tokens of the prompt as the model
    reads it; `token_texts` is the text that each token adds, and joined `text` with what follows its end.
    """

    prompt: str
    text: str
    hypothesis: Hypothesis
    tokens: tuple[str, ...]
    finish_reason: FinishReason
    truncated: bool = False
    prompt_length: int = 0
    token_texts: tuple[str, ...] = ()

    @property
    def log_prob(self) -> float:
        """Log-probability (natural logarithm) of all tokens, end symbol included."""
        return self.hypothesis.log_prob

    @property
    def score(self) -> float:
        """Log-probability after the length penalty; of a sample, the mean log-probability per token."""
        return self.hypothesis.score

    def to_dict(self) -> dict[str, Any]:
        """Return the object of this completion in the records of `dragoman generate --format jsonl`."""
        return {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "truncated": self.truncated,
            "score": self.score,
            "log_prob": self.log_prob,
            "tokens": list(self.tokens),
            "token_log_probs": list(self.hypothesis.token_log_probs),
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Completion(text={self.text!r}, score={self.score:z.4f}, finish_reason={self.finish_reason!r})"

    def _repr_html_(self) -> str:
        header = ["prompt", "completion", "score", "finish reason"]
        return html_table(header, [[self.prompt, self.text, self.score, self.finish_reason]])


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the completions of a prompt: number of tokens, stop strings that they end before, and samples."""

    max_new_tokens: int = MAX_NEW_TOKENS
    stop: Sequence[str] = ()
    num_samples: int = 1


@final
class TextStream:
    """Detokenizer that returns text as soon as later tokens cannot change it.

    The results of `take`, joined, are the final `text`. Where several stop strings occur, the text ends before the one
    that is complete first, and of those complete together before the longest: the result does not depend on how the
    text is cut into tokens.
    """

    def __init__(self, decoder: StreamingDecoder, stop: Sequence[str] = ()) -> None:
        self.text = ""
        self.stopped = False
        """Whether a stop string occurred; it is not part of the text."""
        self.token_texts: list[str] = []
        """Text that each token made certain; the last one includes the rest."""
        self._decoder = decoder
        self._stop = tuple(stop)
        self._taken = 0

    def add(self, token: int) -> bool:
        """Append a token and return whether a stop string is complete."""
        self.token_texts.append(self._decoder.add(token))
        self._append(self.token_texts[-1])
        return self.stopped

    def observe(self, token: int, _: float) -> bool:
        """Append a token, as an observer of an output."""
        return self.add(token)

    def finish(self) -> None:
        """Append what the decoder still holds: no more tokens come."""
        rest = self._decoder.finish()
        if rest:
            self.token_texts[-1] += rest
        self._append(rest)
        self._stop = ()

    @property
    def certain_length(self) -> int:
        """Length of the text without what may be the beginning of a stop string."""
        return len(self.text) - (0 if self.stopped else _partial_stop_length(self.text, self._stop))

    def take(self) -> str:
        """Return the certain text since the last call, without what may be the beginning of a stop string."""
        certain = self.certain_length
        piece = self.text[self._taken : certain]
        self._taken = max(self._taken, certain)
        return piece

    def _append(self, more: str) -> None:
        if self.stopped or not more:
            return
        longest = max(map(len, self._stop), default=0)
        since = max(0, len(self.text) - longest + 1)
        self.text += more
        end = find_first_stop(self.text, self._stop, since=since)
        if end is not None:
            self.text, self.stopped = self.text[:end], True


def text_stream(tokenizer: LanguageTokenizer, prompt: Prompt, limits: Limits) -> TextStream:
    """Build the detokenizer of a completion."""
    return TextStream(tokenizer.streaming_decoder(after=prompt.context), limits.stop)


def build_completion(
    tokenizer: LanguageTokenizer, prompt: Prompt, limits: Limits, hypothesis: Hypothesis
) -> Completion:
    """Detokenize a hypothesis, up to the first stop string."""
    text = text_stream(tokenizer, prompt, limits)
    for token in hypothesis.tokens:
        text.add(token)
    text.finish()
    reason: FinishReason = "stop" if text.stopped else "end" if hypothesis.finished else "length"
    tokens = tuple(tokenizer.ids_to_tokens(hypothesis.tokens))
    return Completion(
        prompt.text,
        text.text,
        hypothesis,
        tokens,
        reason,
        prompt.truncated,
        prompt_length=len(prompt.ids),
        token_texts=tuple(text.token_texts),
    )


def find_first_stop(text: str, stop: Sequence[str], *, since: int = 0) -> int | None:
    """Return the start of the stop string that is complete first and begins at `since` or later."""
    found = [(begin + len(one), begin) for one in stop if (begin := text.find(one, since)) >= 0]
    return min(found)[1] if found else None


def _partial_stop_length(text: str, stop: Sequence[str]) -> int:
    """Return the length of the longest end of a text that is a proper beginning of a stop string."""
    longest = max(map(len, stop), default=0) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((length for length in lengths if any(one.startswith(text[-length:]) for one in stop)), 0)
