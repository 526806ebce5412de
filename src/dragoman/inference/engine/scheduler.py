"""The batch that runs: requests enter it while there is room, take their steps together, and leave when they are over.

It knows no threads and waits for nobody. What is found for a request does not depend on the others: where the network
refuses a batch, each request in it is searched for by itself, and those alone fail that fail by themselves.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from dragoman.decoding.config import SearchSettings
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.search import search, search_of
from dragoman.decoding.search_protocol import Search
from dragoman.errors import DragomanError
from dragoman.inference.backends.protocol import Translating
from dragoman.inference.engine.request import Request
from dragoman.models.special_symbols import Symbols

REFILL = 0.25
"""The share of the room that must be free before others enter: entering costs a pass of its own."""


class Finished(NamedTuple):
    """A request that is over, with the hypotheses found, best first, or with what went wrong."""

    request: Request
    hypotheses: list[Hypothesis]
    error: Exception | None = None


REFUSALS = (DragomanError, ValueError, IndexError, MemoryError)
"""What a network makes of a request that it can make nothing of, or not with so many beside it."""


@dataclass
class _Group:
    """The requests of one kind of search, by the names that the search gave them."""

    search: Search[Any]
    inside: dict[int, Request] = field(default_factory=dict)


@final
class Running:
    """Requests that are searched for together: those of the same settings share every step."""

    def __init__(self, network: Translating[Any, Any], *, room: int, refill: float = REFILL) -> None:
        """`room` bounds the source tokens of what runs; a request that is longer by itself runs alone."""
        self._network = network
        self._room = room
        self._refill = refill
        self._symbols = Symbols()
        self._groups: dict[SearchSettings, _Group] = {}
        self._tokens = 0

    def __len__(self) -> int:
        """How many requests are in it."""
        return sum(len(group.inside) for group in self._groups.values())

    def take_from(self, waiting: deque[Request]) -> list[Finished]:
        """Let the first of those that wait enter, as many as there is room for; those that fail at once are over."""
        return self.enter(self.called(waiting))

    def called(self, waiting: deque[Request]) -> list[Request]:
        """The first of those that wait, as many as there is room for, which is theirs from here on."""
        called: list[Request] = []
        while waiting and self._has_room(waiting, already=len(called)):
            request = waiting.popleft()
            self._tokens += request.tokens
            called.append(request)
        return called

    def enter(self, called: Sequence[Request]) -> list[Finished]:
        """Begin the searches of those that were called; those that fail at once are over."""
        finished = []
        for settings in dict.fromkeys(request.settings for request in called):
            finished += self._enter(settings, [request for request in called if request.settings == settings])
        return finished

    def step(self) -> list[Finished]:
        """A step for everyone; what is over with it. Searches that nobody asks for any more are forgotten."""
        finished = []
        self._groups = {settings: group for settings, group in self._groups.items() if group.inside}
        for group in self._groups.values():
            try:
                found = group.search.step()
            except REFUSALS:
                finished += self._one_by_one(self._dissolved(group))
                continue
            finished += [self._left(group.inside.pop(name), hypotheses) for name, hypotheses in found.items()]
        return finished

    def drop(self, requests: Collection[Request]) -> None:
        """Let requests leave that nobody waits for any more."""
        for group in self._groups.values():
            names = [name for name, request in group.inside.items() if request in requests]
            if names:
                group.search.drop(names)
            for name in names:
                self._tokens -= group.inside.pop(name).tokens

    def _has_room(self, waiting: deque[Request], *, already: int) -> bool:
        """Whether the first of those that wait enters: what is begun goes on until the room is full."""
        if self._tokens == 0:
            return True
        if self._tokens + waiting[0].tokens > self._room:
            return False
        free = self._room - self._tokens
        return bool(already) or free >= self._refill * self._room

    def _enter(self, settings: SearchSettings, requests: Sequence[Request]) -> list[Finished]:
        try:
            if settings not in self._groups:
                self._groups[settings] = _Group(search_of(self._network, settings=settings, symbols=self._symbols))
            group = self._groups[settings]
            names = group.search.add(self._memory(requests), limits=np.array([one.limit for one in requests]))
        except REFUSALS:
            return self._one_by_one(requests)
        group.inside |= dict(zip(names, requests, strict=True))
        return []

    def _dissolved(self, group: _Group) -> list[Request]:
        """The requests of a group that the network refused, out of it."""
        requests = list(group.inside.values())
        group.search.drop(list(group.inside))
        group.inside.clear()
        return requests

    def _one_by_one(self, requests: Sequence[Request]) -> list[Finished]:
        return [self._alone(request) for request in requests]

    def _alone(self, request: Request) -> Finished:
        try:
            [found] = search(
                self._network,
                self._memory([request]),
                limits=np.array([request.limit]),
                settings=request.settings,
                symbols=self._symbols,
            )
        except REFUSALS as error:
            return self._left(request, [], error)
        return self._left(request, found)

    def _memory(self, requests: Sequence[Request]) -> Any:
        trees = [request.heads for request in requests if request.heads is not None]
        return self._network.encode([request.ids for request in requests], trees)

    def _left(self, request: Request, hypotheses: list[Hypothesis], error: Exception | None = None) -> Finished:
        self._tokens -= request.tokens
        return Finished(request, hypotheses, error)
