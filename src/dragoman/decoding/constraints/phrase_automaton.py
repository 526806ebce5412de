"""Automaton that follows phrases in an output, token by token (Aho and Corasick, 1975)."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Literal, NamedTuple, final

import numpy as np

from dragoman.array_types import Int
from dragoman.models.special_symbols import EOS

PhraseKind = Literal["required", "once", "forbidden", "preferred"]
"""A phrase appears at least once, exactly once, never, or rather than not."""
MAX_PHRASES = 62
"""Phrases of an output: each is a bit of an integer of 64 bits."""
INSIDE, HYPHEN, BOUNDARY = 0, 1, 2
"""What a token means for the word before it: it continues the word, joins another one to it, or the word is over."""
_ROOT = 0
_REQUIRED: tuple[PhraseKind, ...] = ("required", "once")


@dataclass(frozen=True, slots=True)
class Phrase:
    """Token sequences, of which one has to appear in an output, or none may."""

    forms: tuple[tuple[int, ...], ...]
    kind: PhraseKind = "required"
    name: str = ""
    """Words that a message shows."""
    whole_words: bool = True
    """Whether a form counts only before a token that begins a word, a punctuation mark, or the end.

    Before a hyphen, `Jacke-` of `Jacke-Hose`, it counts where it may not appear, or not twice, and nowhere else.
    """
    bonus: float = 0.0
    """Log-probability that a preferred phrase is worth: an output without it ranks as if it were this much lower."""


class PhraseState(NamedTuple):
    """State of the phrases after an output."""

    node: int
    """The longest beginning of a form that the output ends with."""
    met: int
    """Phrases that have appeared: their bits."""


START = PhraseState(_ROOT, 0)


class Standing(NamedTuple):
    """Measures of a state by which hypotheses are chosen."""

    bank: float
    """Tokens of required phrases: those met, and the beginning of one more. -1 where a phrase forbids the state.

    The fraction is the number of required phrases that have appeared, divided by 64.
    """
    cost: float
    """What the output lacks of the bonuses of preferred phrases."""


IMPOSSIBLE = Standing(-1.0, 0.0)


@final
class PhraseAutomaton:
    """Automaton of the phrases of one output. Phrases may overlap in an output, and share tokens."""

    def __init__(self, phrases: Sequence[Phrase], boundaries: Int[np.ndarray, " vocabulary"]) -> None:
        """`boundaries` says of each token whether it is `INSIDE` a word, a `HYPHEN` or a `BOUNDARY`.

        Raises ValueError on invalid phrases.
        """
        if len(phrases) > MAX_PHRASES:
            raise ValueError(f"there are {len(phrases)} phrases, and an output can have {MAX_PHRASES}")
        if any(one.bonus and one.kind != "preferred" for one in phrases) or any(one.bonus < 0 for one in phrases):
            raise ValueError("a bonus is negative, or belongs to a phrase that is not preferred")
        if not all(form for one in phrases for form in one.forms) or not all(one.forms for one in phrases):
            raise ValueError("a phrase has no form, or a form without tokens")
        self.phrases = tuple(phrases)
        self.boundaries = boundaries
        self._needed = tuple(min(map(len, one.forms)) if one.kind in _REQUIRED else 0 for one in phrases)
        """Tokens of the shortest form of each required phrase."""
        self.required, self._once, self._forbidden, self._preferred = (
            self._bits(kinds) for kinds in (_REQUIRED, ("once",), ("forbidden",), ("preferred",))
        )
        self._counted = (0, self._once | self._forbidden, self.required | self._forbidden | self._preferred)
        """Phrases of whole words that count before a token that is `INSIDE` a word, a `HYPHEN` or a `BOUNDARY`."""
        self.alphabet = np.array(sorted({EOS, *(token for one in phrases for form in one.forms for token in form)}))
        """Tokens of the forms, and the end symbol. `other_tokens` has what other tokens mean."""
        self._children: list[dict[int, int]] = [{}]
        self._ends: list[tuple[int, int]] = [(0, 0)]
        """By node, the bits of phrases with a form that ends there: parts of words first, then whole words."""
        self._left: list[dict[int, int]] = [{}]
        """Phrases with forms that begin with the tokens of a node, and the tokens until the shortest has appeared."""
        for number, phrase in enumerate(phrases):
            for form in phrase.forms:
                self._add(form, number)
        self._shorter = [_ROOT] * len(self._children)
        """The longest proper end of a node's tokens that is a node."""
        self._link()
        self._after: dict[tuple[PhraseState, int], PhraseState | None] = {}
        self._standings: dict[PhraseState | None, Standing] = {None: IMPOSSIBLE}
        self._others: dict[PhraseState, tuple[Standing, ...]] = {}
        self._extra: dict[PhraseState, tuple[tuple[int, float, float], ...]] = {}
        self._next: dict[PhraseState, tuple[int, ...]] = {}

    @property
    def total(self) -> int:
        """Tokens of the shortest forms of all phrases; the bank of an output that has them."""
        return sum(self._needed)

    @property
    def has_bonus(self) -> bool:
        """Return whether an output can lack a bonus."""
        return any(one.bonus for one in self.phrases)

    def advance(self, state: PhraseState, token: int) -> PhraseState | None:
        """Return the state after a token; None where a phrase forbids the token."""
        key = state, token
        if key not in self._after:
            self._after[key] = self._advance(state, token)
        return self._after[key]

    def read(self, state: PhraseState, token: int) -> PhraseState:
        """Return the state after a token that is given, whether forbidden or not."""
        met = state.met | self._ended(state.node, token)
        node = self._follow(state.node, token)
        return PhraseState(node, met | self._ends[node][0])

    def standing(self, state: PhraseState | None) -> Standing:
        """Return what a state means for the choice of hypotheses; None is a state that a phrase forbids."""
        if state not in self._standings:
            assert state is not None, "None has a standing from the beginning"
            met = (state.met & self.required).bit_count()
            self._standings[state] = Standing(self._bank(state) + met / 64, self._cost(state))
        return self._standings[state]

    def other_tokens(self, state: PhraseState) -> tuple[Standing, ...]:
        """Return the standings after a token outside of the alphabet: `INSIDE` a word, a `HYPHEN`, a `BOUNDARY`."""
        if state not in self._others:
            ended = [self._ends[state.node][1] & counted for counted in self._counted]
            broken = self._forbidden | (self._once & state.met)
            after = (None if one & broken else PhraseState(_ROOT, state.met | one) for one in ended)
            self._others[state] = tuple(map(self.standing, after))
        return self._others[state]

    def extra_choices(self, state: PhraseState) -> tuple[tuple[int, float, float], ...]:
        """Return the `next_tokens` with the bank and the cost after each."""
        if state not in self._extra:
            pairs = ((token, self.standing(self.advance(state, token))) for token in self.next_tokens(state))
            self._extra[state] = tuple((token, *after) for token, after in pairs)
        return self._extra[state]

    def next_tokens(self, state: PhraseState) -> tuple[int, ...]:
        """Return the tokens that begin or continue a phrase that has not appeared."""
        if state not in self._next:
            wanted = (self.required | self._preferred) & ~state.met
            tokens = {
                token
                for node in self._ends_of(state.node)
                for token, child in self._children[node].items()
                if any(wanted >> number & 1 for number in self._left[child])
            }
            self._next[state] = tuple(sorted(tokens))
        return self._next[state]

    def unmet(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """Return the names of the phrases that an output, without its end symbol, lacks, repeats or may not have."""
        state, broken = START, 0
        for token in (*tokens, EOS):
            after = self.read(state, token)
            broken |= self._broken(state, token, after)
            state = after
        broken |= self.required & ~state.met
        return tuple(one.name for number, one in enumerate(self.phrases) if broken >> number & 1)

    def _bank(self, state: PhraseState) -> int:
        """Return how many tokens of required phrases an output has: those met, and the beginning of one more.

        Until all phrases have appeared, there is a token that makes it larger, or completes a whole word.
        """
        met = sum(count for number, count in enumerate(self._needed) if state.met >> number & 1)
        begun = (
            self._needed[number] - left
            for node in self._ends_of(state.node)
            for number, left in self._left[node].items()
            if not state.met >> number & 1
        )
        return met + max(0, *begun, 0)

    def _cost(self, state: PhraseState) -> float:
        """Return the bonuses of the preferred phrases that an output lacks; of a begun one, what its tokens lack."""
        lacking = {
            number: phrase.bonus
            for number, phrase in enumerate(self.phrases)
            if self._preferred >> number & 1 and not state.met >> number & 1
        }
        for node in self._ends_of(state.node):
            for number in lacking.keys() & self._left[node].keys():
                needed = min(map(len, self.phrases[number].forms))
                share = min(1.0, self._left[node][number] / needed)
                lacking[number] = min(lacking[number], self.phrases[number].bonus * share)
        return float(sum(lacking.values()))

    def is_met(self, state: PhraseState) -> bool:
        """Return whether all required phrases have appeared."""
        return state.met & self.required == self.required

    def _advance(self, state: PhraseState, token: int) -> PhraseState | None:
        after = self.read(state, token)
        is_over = token == EOS and not self.is_met(after)
        return None if is_over or self._broken(state, token, after) else after

    def _broken(self, state: PhraseState, token: int, after: PhraseState) -> int:
        """Return the phrases that a token completes where they may not, or not again, appear."""
        ended = self._ended(state.node, token)
        repeated = (ended & state.met) | (self._ends[after.node][0] & (state.met | ended))
        return (after.met & self._forbidden) | (repeated & self._once)

    def _ended(self, node: int, token: int) -> int:
        """Return the phrases that end before a token."""
        return self._ends[node][1] & self._counted[BOUNDARY if token == EOS else self.boundaries[token]]

    def _follow(self, node: int, token: int) -> int:
        """Return the longest beginning of a form that the tokens of a node and another one end with."""
        while node != _ROOT and token not in self._children[node]:
            node = self._shorter[node]
        return self._children[node].get(token, _ROOT)

    def _ends_of(self, node: int) -> Iterator[int]:
        """Yield a node, and the shorter ends of its tokens that are nodes, up to the root."""
        while node != _ROOT:
            yield node
            node = self._shorter[node]
        yield _ROOT

    def _bits(self, kinds: tuple[PhraseKind, ...]) -> int:
        return reduce(or_, (1 << number for number, one in enumerate(self.phrases) if one.kind in kinds), 0)

    def _add(self, form: Sequence[int], number: int) -> None:
        node, left = _ROOT, len(form)
        for token in form:
            if token not in self._children[node]:
                self._children[node][token] = len(self._children)
                self._children.append({})
                self._ends.append((0, 0))
                self._left.append({})
            node, left = self._children[node][token], left - 1
            self._left[node][number] = min(left, self._left[node].get(number, left))
        now, later = self._ends[node]
        bit = 1 << number
        self._ends[node] = (now, later | bit) if self.phrases[number].whole_words else (now | bit, later)

    def _link(self) -> None:
        """Find the shorter ends of all nodes, and add the phrases that end with them."""
        waiting = deque(self._children[_ROOT].values())
        while waiting:
            node = waiting.popleft()
            for token, child in self._children[node].items():
                self._shorter[child] = self._follow(self._shorter[node], token)
                waiting.append(child)
            now, later = self._ends[node]
            shorter = self._ends[self._shorter[node]]
            self._ends[node] = now | shorter[0], later | shorter[1]
