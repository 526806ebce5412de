"""Automaton that follows phrases in an output, token by token (Aho and Corasick, 1975)."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Literal, NamedTuple, Self, final

import numpy as np

from dragoman.array_types import Bool, Int
from dragoman.models.special_symbols import EOS

PhraseKind = Literal["required", "once", "forbidden", "preferred"]
"""A phrase appears at least once, exactly once, never, or rather than not."""
MAX_PHRASES = 62
"""Phrases of an output: each is a bit of an integer of 64 bits."""
INSIDE, HYPHEN, BOUNDARY = 0, 1, 2
"""Effect of a token on the word before it: it continues the word, joins another one to it, or the word is over."""
_ENDS_WORD = 4
"""Bit of the class of a token after which a word may begin."""
START = 0
"""State before the first token."""
FORBIDDEN = -1
"""State after a token that a phrase forbids."""
_ROOT, _EDGE = 0, 1
"""Nodes without tokens: of forms that may follow any token, and of forms that may not follow a part of a word."""
_REQUIRED: tuple[PhraseKind, ...] = ("required", "once")


@dataclass(frozen=True, slots=True)
class Phrase:
    """Token sequences, of which one has to appear in an output, or none may."""

    forms: tuple[tuple[int, ...], ...]
    """Sequences that the search tries to write."""
    kind: PhraseKind = "required"
    name: str = ""
    """Words that a message shows."""
    whole_words: bool = True
    """Whether a form counts only between the ends of words.

    Before a hyphen, `Jacke-` of `Jacke-Hose`, it counts only where it may not appear: the next token decides whether
    the hyphen joins two words.
    """
    bonus: float = 0.0
    """Log-probability that a preferred phrase is worth: an output without it ranks as if it were this much lower."""
    other_forms: tuple[tuple[int, ...], ...] = ()
    """Sequences that count, too, such as those after a bracket."""
    texts: tuple[str, ...] = ()
    """The forms as an output has them, by which callers check texts."""


class TokenEdges(NamedTuple):
    """First and last characters of the tokens of a vocabulary, as far as words are concerned."""

    starts: Int[np.ndarray, " vocabulary"]
    """Effect of each token on the word before it: `INSIDE`, `HYPHEN` or `BOUNDARY`."""
    ends: Bool[np.ndarray, " vocabulary"]
    """Whether a word may begin after each token."""


@final
class PhraseAutomaton:
    """Automaton of the phrases of one output. Phrases may overlap in an output, and share tokens.

    A state is a number; states are found as outputs reach them.
    """

    def __init__(self, phrases: Sequence[Phrase], edges: TokenEdges) -> None:
        """`edges` are those of the tokens of the vocabulary. Raises ValueError on invalid phrases."""
        if len(phrases) > MAX_PHRASES:
            raise ValueError(f"there are {len(phrases)} phrases, and an output can have {MAX_PHRASES}")
        if any(one.bonus and one.kind != "preferred" for one in phrases) or any(one.bonus < 0 for one in phrases):
            raise ValueError("a bonus is negative, or belongs to a phrase that is not preferred")
        sequences = [form for one in phrases for form in (*one.forms, *one.other_forms)]
        if not all(sequences) or not all(one.forms for one in phrases):
            raise ValueError("a phrase has no form, or a form without tokens")
        self.phrases = tuple(phrases)
        self.edges = edges
        self.starts = np.ascontiguousarray(edges.starts).data  # faster to index than an array
        self._ends_word = np.ascontiguousarray(edges.ends).data
        self._needed = tuple(min(map(len, one.forms)) if one.kind in _REQUIRED else 0 for one in phrases)
        """Tokens of the shortest form of each required phrase."""
        self.required, self._once, self._forbidden, self._preferred = (
            self._bits(kinds) for kinds in (_REQUIRED, ("once",), ("forbidden",), ("preferred",))
        )
        self._counted = (0, self._forbidden, self.required | self._forbidden | self._preferred)
        """Phrases of whole words that count before a token that is `INSIDE` a word, a `HYPHEN` or a `BOUNDARY`."""
        self._restricts = bool(self._once | self._forbidden)
        self.alphabet = frozenset({EOS, *(token for form in sequences for token in form)})
        """Tokens of the forms, and the end symbol. `others` has what other tokens mean."""
        self.has_bonus = any(one.bonus for one in phrases)
        """Whether an output can lack a bonus."""
        self.banks: list[float] = []
        """By state, the tokens of required phrases: those met, and the beginning of one more.

        The fraction is the number of required phrases that have appeared, divided by 64.
        """
        self.costs: list[float] = []
        """By state, what the output lacks of the bonuses of preferred phrases."""
        self._children: list[dict[int, int]] = [{}, {}]
        self._ends: list[tuple[int, int]] = [(0, 0), (0, 0)]
        """By node, the phrases with a form that ends there: at once first, then if the next token ends the word."""
        self._left: list[dict[int, int]] = [{}, {}]
        """Phrases with forms that begin with the tokens of a node, and the tokens until the shortest has appeared."""
        for number, phrase in enumerate(phrases):
            for form in phrase.forms:
                self._add(form, number)
            for form in phrase.other_forms:
                self._add(form, number, is_proposed=False)
        self._shorter = [_ROOT] * len(self._children)
        """The longest proper end of a node's tokens that is a node."""
        self._belongs = [0] * len(self._children)
        """By node, the phrases with forms that begin with its tokens: their bits."""
        self._begun: list[tuple[tuple[int, int], ...]] = [()] * len(self._children)
        """By node, the required phrases that its tokens end with a beginning of, and the tokens that this is worth."""
        self._link()
        self._states: dict[tuple[int, int], int] = {}
        self._nodes: list[int] = []
        """By state, the longest beginning of a form that the output ends with."""
        self._met: list[int] = []
        """By state, the phrases that have appeared: their bits."""
        self._after: list[dict[int, int]] = []
        """By state, the states after tokens of the alphabet that were looked up, and after `~` the kinds of others."""
        self._continuations: dict[int, dict[int, int]] = {}
        self._worth: dict[int, float] = {}
        self._others: dict[int, tuple[int, ...]] = {}
        self._state(_EDGE, 0)

    def __reduce__(self) -> tuple[type[Self], tuple[Sequence[Phrase], TokenEdges]]:
        return type(self), (self.phrases, self.edges)  # states are found again

    @property
    def total(self) -> int:
        """Tokens of the shortest forms of all phrases; the bank of an output that has them."""
        return sum(self._needed)

    def advance(self, state: int, token: int) -> int:
        """Return the state after a token; FORBIDDEN where a phrase forbids the token."""
        symbol = token if token in self.alphabet else ~self._class(token)
        after = self._after[state].get(symbol)
        return self._advance(state, symbol) if after is None else after

    def read(self, state: int, token: int) -> int:
        """Return the state after a token that is given, whether forbidden or not."""
        after = self.advance(state, token)
        if after != FORBIDDEN:
            return after
        symbol = token if token in self.alphabet else ~self._class(token)
        return self._read(state, symbol, self._ended(state, symbol))

    def others(self, state: int) -> tuple[int, ...]:
        """Return the states after a token outside of the alphabet: `INSIDE` a word, a `HYPHEN`, a `BOUNDARY`.

        Whether a word may begin after the token changes neither the bank nor the cost of the state.
        """
        found = self._others.get(state)
        if found is None:
            kinds = (INSIDE, HYPHEN, BOUNDARY)
            if self._ends[self._nodes[state]][1]:
                found = tuple([self._advance(state, ~kind) for kind in kinds])
            else:
                found = (self._advance(state, ~INSIDE),) * len(kinds)
            self._others[state] = found
        return found

    def continuations(self, state: int) -> dict[int, int]:
        """Return the states after the tokens that begin or continue a phrase that has not appeared."""
        found = self._continuations.get(state)
        if found is None:
            wanted = (self.required | self._preferred) & ~self._met[state]
            tokens = {
                token
                for node in self._ends_of(self._nodes[state])
                for token, child in self._children[node].items()
                if wanted & self._belongs[child]
            }
            pairs = ((token, self.advance(state, token)) for token in sorted(tokens))
            found = self._continuations[state] = {token: after for token, after in pairs if after != FORBIDDEN}
        return found

    def unmet(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """Return the names of the phrases that an output, without its end symbol, lacks, repeats or may not have."""
        state, broken = START, 0
        for token in (*tokens, EOS):
            after = self.read(state, token)
            broken |= self._broken(state, after, self._ended(state, token))
            state = after
        broken |= self.required & ~self._met[state]
        return tuple(one.name for number, one in enumerate(self.phrases) if broken >> number & 1)

    def _ended(self, state: int, symbol: int) -> int:
        """Return the phrases that end before a token of the alphabet or `~` the kind of another one."""
        ended = self._ends[self._nodes[state]][1]
        return ended and ended & self._counted[self._kind(symbol)]

    def _kind(self, symbol: int) -> int:
        if symbol < 0:
            return ~symbol & ~_ENDS_WORD
        return BOUNDARY if symbol == EOS else self.starts[symbol]

    def _class(self, token: int) -> int:
        """Return the class of a token outside of the alphabet."""
        return self.starts[token] | (_ENDS_WORD if self._ends_word[token] else 0)

    def _state(self, node: int, met: int) -> int:
        """Return the state of an output that ends with the tokens of a node."""
        key = node, met
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = len(self._states)
            self._nodes.append(node)
            self._met.append(met)
            self._after.append({})
            self.banks.append(self._bank(node, met))
            self.costs.append(self._cost(node, met) if self.has_bonus else 0.0)
        return found

    def _advance(self, state: int, symbol: int) -> int:
        """Find the state after a token of the alphabet, or after `~` the kind of another one."""
        ended = self._ended(state, symbol)
        after = self._read(state, symbol, ended)
        is_over = symbol == EOS and self._met[after] & self.required != self.required
        if is_over or (self._restricts and self._broken(state, after, ended)):
            after = FORBIDDEN
        self._after[state][symbol] = after
        return after

    def _read(self, state: int, symbol: int, ended: int) -> int:
        node = self._next_node(self._nodes[state], symbol)
        return self._state(node, self._met[state] | ended | self._ends[node][0])

    def _bank(self, node: int, met: int) -> float:
        """Return how many tokens of required phrases an output has: those met, and the beginning of one more.

        Until all phrases have appeared, there is a token that makes it larger, or completes a whole word. The fraction
        is the number of phrases that have appeared, divided by 64.
        """
        if met not in self._worth:
            own = [count for number, count in enumerate(self._needed) if met >> number & 1]
            self._worth[met] = sum(own) + (met & self.required).bit_count() / 64
        begun = 0
        for number, progress in self._begun[node]:
            if progress > begun and not met >> number & 1:
                begun = progress
        return begun + self._worth[met]

    def _cost(self, node: int, met: int) -> float:
        """Return the bonuses of the preferred phrases that an output lacks; of a begun one, what its tokens lack."""
        lacking = {
            number: phrase.bonus
            for number, phrase in enumerate(self.phrases)
            if self._preferred >> number & 1 and not met >> number & 1
        }
        for end in self._ends_of(node):
            for number in lacking.keys() & self._left[end].keys():
                needed = min(map(len, self.phrases[number].forms))
                share = min(1.0, self._left[end][number] / needed)
                lacking[number] = min(lacking[number], self.phrases[number].bonus * share)
        return float(sum(lacking.values()))

    def _broken(self, state: int, after: int, ended: int) -> int:
        """Return the phrases that a token completes where they may not, or not again, appear.

        What a given beginning of an output completes does not forbid the tokens after it.
        """
        met, at_once = self._met[state], self._ends[self._nodes[after]][0]
        repeated = (ended & met) | (at_once & (met | ended))
        return ((ended | at_once) & self._forbidden) | (repeated & self._once)

    def _next_node(self, node: int, symbol: int) -> int:
        """Return the longest beginning of a form that the tokens of a node and another one end with."""
        while symbol not in self._children[node] and node != _ROOT:
            node = self._shorter[node]
        after = self._children[node].get(symbol)
        return self._empty_node(symbol) if after is None else after

    def _empty_node(self, symbol: int) -> int:
        """Return the node of an output that ends with no beginning of a form."""
        ends = ~symbol & _ENDS_WORD if symbol < 0 else self._ends_word[symbol]
        return _EDGE if ends else _ROOT

    def _ends_of(self, node: int) -> Iterator[int]:
        """Yield a node, and the shorter ends of its tokens that are nodes, up to the root."""
        while node != _ROOT:
            yield node
            node = self._shorter[node]
        yield _ROOT

    def _bits(self, kinds: tuple[PhraseKind, ...]) -> int:
        return reduce(or_, (1 << number for number, one in enumerate(self.phrases) if one.kind in kinds), 0)

    def _add(self, form: Sequence[int], number: int, *, is_proposed: bool = True) -> None:
        is_whole = self.phrases[number].whole_words
        node, left = _EDGE if is_whole and self.starts[form[0]] != BOUNDARY else _ROOT, len(form)
        for token in form:
            if token not in self._children[node]:
                self._children[node][token] = len(self._children)
                self._children.append({})
                self._ends.append((0, 0))
                self._left.append({})
            node, left = self._children[node][token], left - 1
            if is_proposed:
                self._left[node][number] = min(left, self._left[node].get(number, left))
        now, later = self._ends[node]
        bit = 1 << number
        self._ends[node] = (now, later | bit) if is_whole and not self._ends_word[form[-1]] else (now | bit, later)

    def _link(self) -> None:
        """Find the shorter ends of all nodes, and add the phrases that end with them."""
        self._shorter[_EDGE] = _ROOT
        for token, node in self._children[_ROOT].items():
            self._shorter[node] = self._empty_node(token)
        for token, node in self._children[_EDGE].items():
            self._shorter[node] = self._next_node(_ROOT, token)
        waiting = deque([*self._children[_ROOT].values(), *self._children[_EDGE].values()])
        while waiting:
            node = waiting.popleft()
            for token, child in self._children[node].items():
                self._shorter[child] = self._next_node(self._shorter[node], token)
                waiting.append(child)
            now, later = self._ends[node]
            shorter = self._ends[self._shorter[node]]
            self._ends[node] = now | shorter[0], later | shorter[1]
        for node, left in enumerate(self._left):
            self._belongs[node] = sum(1 << number for number in left)
            begun = (
                (number, self._needed[number] - own)
                for end in self._ends_of(node)
                for number, own in self._left[end].items()
            )
            self._begun[node] = tuple(pair for pair in begun if pair[1] > 0)
