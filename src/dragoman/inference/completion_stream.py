"""Completions in pieces, while they are generated in a thread of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from dragoman.decoding.hypothesis import TokenObserver
from dragoman.inference.completion_result import Completion, TextStream


@dataclass(frozen=True, slots=True)
class CompletionPiece:
    """Part of a completion: text that later tokens cannot change, and the tokens generated since the piece before.

    The texts of all pieces, joined, are that of the completion. `text` is empty where tokens end in the middle of a
    character or in what may become a stop string; `token_texts` are as in `Completion`, and `token_log_probs` have an
    entry for each of them.
    """

    number: int
    """Number of the completion in its call, from 0."""
    text: str
    token_texts: tuple[str, ...]
    token_log_probs: tuple[float, ...]
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
        text, log_probs = self._build_text(), list[float]()

        def observe(token: int, log_prob: float) -> bool:
            log_probs.append(log_prob)
            is_complete = text.add(token)
            certain = text.text[: text.certain_length]
            if len(certain) > self._sent_text:
                self._send(self._piece(certain, text.token_texts, log_probs))
            return is_complete

        return observe

    def last_piece(self, completion: Completion) -> CompletionPiece:
        """Return what was not sent of a completion."""
        log_probs = completion.hypothesis.token_log_probs[: len(completion.token_texts)]
        return self._piece(completion.text, completion.token_texts, log_probs, completion)

    def _piece(
        self, text: str, tokens: Sequence[str], log_probs: Sequence[float], completion: Completion | None = None
    ) -> CompletionPiece:
        """Return what follows the pieces before, up to the end of a text and its tokens."""
        begin, first = self._sent_text, self._sent_tokens
        self._sent_text, self._sent_tokens = max(begin, len(text)), max(first, len(tokens))
        return CompletionPiece(self._number, text[begin:], tuple(tokens[first:]), tuple(log_probs[first:]), completion)
