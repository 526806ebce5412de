"""The compiled core as translators and generators use it: a bridge to `dragoman-cpu`, which knows arrays alone."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, final

import numpy as np

from dragoman import cpu_library
from dragoman.cpu_library import INSTRUCTION_SET
from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import Normalisation
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.inference.backends.array_scoring import logits_of, normalisers, rectangle_of, score
from dragoman.inference.backends.protocol import Ids
from dragoman.models.quantization import Compute
from dragoman.models.search_protocols import Best, not_finite
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Float, Int

MOST_THREADS = 1024
THREADS = "DRAGOMAN_THREADS"
"""The environment variable that says how many threads the core works with, for who wants others than all cores."""


def refusal(config: Mapping[str, Any]) -> str | None:
    """Why the cpu_library, which must be loaded, cannot compute a network of this configuration; None where it can."""
    reason: str | None = import_module(cpu_library.CORE).accepts(dict(config))
    return reason


def instruction_sets() -> tuple[str, ...]:
    """What the cpu_library, which must be loaded, can use on this processor, best first."""
    return tuple(import_module(cpu_library.CORE).instruction_sets())


@final
class Core:
    """A network in the core: rows of ids in, and what `models.searched.Searched` says."""

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, np.ndarray],
        *,
        compute: Compute,
        vocabulary: int,
        where: str,
    ) -> None:
        """`config` is that of the model, with its vocabularies; `vocabulary` counts the logits."""
        forced = _forced()
        try:
            self._model = import_module(cpu_library.CORE).Model(dict(config), dict(weights), compute=compute, **forced)
        except ValueError as error:
            raise RunError(f"{where}: the weights belong to another configuration ({error})") from error
        self.compute = compute
        self._vocabulary = vocabulary
        self._pad = Symbols().pad
        positions = config["positions"]
        self.maximum_length = int(positions["length"]) if positions["kind"] == "learned" else None

    @property
    def instruction_set(self) -> str:
        """The instructions that it computes with, by the core's name for them."""
        return str(self._model.instruction_set)

    @property
    def threads(self) -> int:
        return int(self._model.threads)

    def encode(self, rows: Sequence[Ids], candidates: Sequence[Int[np.ndarray, "_"]] | None = None) -> Any:
        lengths = np.array([len(row) for row in rows], dtype=np.int32)
        chosen = {} if candidates is None else {"candidates": candidates}
        return self._model.encode(rectangle_of(rows, pad=self._pad), lengths, **chosen)

    def start(self, memory: Any, *, beam: int) -> Any:
        return self._model.start(memory, beam)

    def step(
        self, tokens: Int[np.ndarray, "batch beam"], memory: Any, state: Any
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], Any]:
        """All logits, and the state that comes next."""
        found: tuple[Float[np.ndarray, "batch beam vocabulary"], Any] = self._model.step(_ids(tokens), memory, state)
        return found

    def best(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: Any,
        state: Any,
        *,
        width: int,
        forbidden: Sequence[int] = (),
    ) -> Best[Any]:
        width = min(width, self._vocabulary - len(forbidden))
        try:
            found: Best[Any] = self._model.best(_ids(tokens), memory, state, width, _never(forbidden))
        except ValueError as error:
            raise _refused(error) from error
        return found

    def follow(
        self,
        tokens: Int[np.ndarray, "batch places"],
        lengths: Int[np.ndarray, " batch"],
        memory: Any,
        state: Any,
        *,
        width: int,
        forbidden: Sequence[int] = (),
    ) -> tuple[Float[np.ndarray, "rows width"], Int[np.ndarray, "rows width"], Any]:
        """What `best` gives after each of the first `lengths` tokens of each sentence, and the state after all."""
        width = min(width, self._vocabulary - len(forbidden))
        try:
            log_probs, ids, after = self._model.follow(_ids(tokens), lengths, memory, state, width, _never(forbidden))
        except ValueError as error:
            raise _refused(error) from error
        return log_probs, ids, after


@final
class Compiled:
    """Implements `runtime.network.Translating` for one network from source to target; PyTorch is not asked."""

    device = "cpu"
    structural = False
    joins_freely = True

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, np.ndarray],
        *,
        compute: Compute,
        source_vocabulary: int,
        target_vocabulary: int,
        where: str = "these weights",
    ) -> None:
        """`config` is that of the model, which the core does not refuse; `weights` as `models.arrays` reads them.

        Raises RunError where the weights belong to another configuration, ConfigError where the environment asks for
        instructions that are not there.
        """
        sizes = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
        self.core = Core({**config, **sizes}, weights, compute=compute, vocabulary=target_vocabulary, where=where)
        self.maximum_length = self.core.maximum_length
        self.start, self.step = self.core.start, self.core.step
        self.best, self.follow = self.core.best, self.core.follow
        self._symbols = Symbols()

    def in_use(self) -> AbstractContextManager[None]:
        return nullcontext()

    def encode(
        self,
        sources: Sequence[Ids],
        trees: Sequence[Heads] = (),
        candidates: Sequence[Int[np.ndarray, "_"]] | None = None,
    ) -> Any:
        if trees:
            raise DataError("trees have no effect on this network, which has no structural positions; leave them out")
        return self.core.encode([[*source, self._symbols.end] for source in sources], candidates)

    def score(
        self,
        sources: Sequence[Ids],
        outputs: Sequence[Ids],
        *,
        normalisation: Normalisation,
        trees: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        return score(self, sources, outputs, normalisation=normalisation, trees=trees)

    def log_probs(self, source: Ids, output: Ids) -> Float[np.ndarray, "steps vocabulary"]:
        """Of every token at every step of an output, that of its end symbol the last."""
        logits = np.concatenate(list(logits_of(self, self.encode([source]), [output])))
        return logits - normalisers(logits)[..., None]


def _forced() -> dict[str, Any]:
    """The options for what the environment asks for; raises ConfigError where it asks in vain."""
    forced: dict[str, Any] = {}
    if asked := os.environ.get(INSTRUCTION_SET):
        if asked not in instruction_sets():
            here = ", ".join(instruction_sets())
            raise ConfigError(
                f"{INSTRUCTION_SET} = {asked}: cannot be used here; choose one of {here}, or leave it out"
            )
        forced["instruction_set"] = asked
    if asked := os.environ.get(THREADS):
        if re.fullmatch("[1-9][0-9]{0,3}", asked) is None or int(asked) > MOST_THREADS:
            raise ConfigError(f"{THREADS} = {asked}: is no number of threads from 1 to {MOST_THREADS}; leave it out")
        forced["threads"] = int(asked)
    return forced


def _refused(error: ValueError) -> Exception:
    """What a refusal of the core is to a search: it refuses what is no input too, but that would be our fault."""
    return not_finite() if "finite" in str(error) else error


def _never(forbidden: Sequence[int]) -> Int[np.ndarray, "_"]:
    """As the core takes them: whole numbers of another size would be looked at one by one."""
    return np.array(forbidden, dtype=np.int32)


def _ids(tokens: Int[np.ndarray, "batch beam"]) -> Int[np.ndarray, "batch beam"]:
    """As the core takes them."""
    return np.ascontiguousarray(tokens, dtype=np.int32)
