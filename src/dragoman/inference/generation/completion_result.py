"""Completions of prompts, and their text while it is generated, up to the first stop string: whole, or in pieces."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal, NamedTuple, final

from dragoman.data.tokenizers import LanguageTokenizer, StreamingDecoder
from dragoman.decoding.hypothesis import Hypothesis, TokenAlternatives, TokenObserver
from dragoman.html_tables import html_table
from dragoman.inference.generation.generation_options import Limits
from dragoman.inference.generation.prompts import Prompt

FinishReason = Literal["end", "stop", "length"]


class GeneratedToken(NamedTuple):
    """Token of a completion, and the text that it adds."""

    id: int
    text: str
    log_prob: float
    alternatives: TokenAlternatives = ()
    """Most probable ids at its place with their log-probabilities, best first, where they were asked for."""


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

    @property
    def generated(self) -> tuple[GeneratedToken, ...]:
        """Tokens without the end symbol; those of the stop string are among them."""
        found = self.hypothesis
        alternatives = found.alternatives or repeat(())
        return tuple(map(GeneratedToken, found.tokens, self.token_texts, found.token_log_probs, alternatives))

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

    def observe(self, token: int, *_: object) -> bool:
        """Append a token, as an observer of an output."""
        return self.add(token)

    def finish(self) -> None:
        """Append what the decoder still holds: no more tokens come."""
        rest = self._decoder.finish()
        if self.token_texts:
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


@dataclass(frozen=True, slots=True)
class CompletionPiece:
    """Part of a completion: text that later tokens cannot change, and the tokens generated since the piece before.

    The texts of all pieces, joined, are that of the completion. `text` is empty where tokens end in the middle of a
    character or in what may become a stop string.
    """

    number: int
    """Number of the completion in its call, from 0."""
    text: str
    tokens: tuple[GeneratedToken, ...]
    completion: Completion | None = None
    """The whole completion, in its last piece."""


@final
class CompletionStream:
    """Sends the pieces of one completion from the thread that generates it.

    An output that is started again, as after an error of another request, sends only what was not sent before.
    """

    def __init__(self, number: int, build_text: Callable[[], TextStream], send: Callable[[CompletionPiece], None]):
        self._number = number
        self._build_text = build_text
        self._send = send
        self._sent_text = self._sent_tokens = 0

    def start(self) -> TokenObserver:
        """Return the observer of the output."""
        text, tokens = self._build_text(), list[GeneratedToken]()

        def observe(token: int, log_prob: float, alternatives: TokenAlternatives) -> bool:
            is_complete = text.add(token)
            tokens.append(GeneratedToken(token, text.token_texts[-1], log_prob, alternatives))
            certain = text.text[: text.certain_length]
            if len(certain) > self._sent_text:
                self._send(self._piece(certain, tokens))
            return is_complete

        return observe

    def last_piece(self, completion: Completion) -> CompletionPiece:
        """Return what was not sent of a completion."""
        return self._piece(completion.text, completion.generated, completion)

    def _piece(
        self, text: str, tokens: Sequence[GeneratedToken], completion: Completion | None = None
    ) -> CompletionPiece:
        """Return what follows the pieces before, up to the end of a text and its tokens."""
        begin, first = self._sent_text, self._sent_tokens
        self._sent_text, self._sent_tokens = max(begin, len(text)), max(first, len(tokens))
        return CompletionPiece(self._number, text[begin:], tuple(tokens[first:]), completion)


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


def token_texts(tokenizer: LanguageTokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    """Return the text that each token adds; the last one includes the rest."""
    text = TextStream(tokenizer.streaming_decoder())
    for token in ids:
        text.add(token)
    text.finish()
    return tuple(text.token_texts)


def find_first_stop(text: str, stop: Sequence[str], *, since: int = 0) -> int | None:
    """Return the start of the stop string that is complete first and begins at `since` or later."""
    found = [(begin + len(one), begin) for one in stop if (begin := text.find(one, since)) >= 0]
    return min(found)[1] if found else None


def _partial_stop_length(text: str, stop: Sequence[str]) -> int:
    """Return the length of the longest end of a text that is a proper beginning of a stop string."""
    longest = max(map(len, stop), default=0) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((length for length in lengths if any(one.startswith(text[-length:]) for one in stop)), 0)
