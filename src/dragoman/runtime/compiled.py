"""The compiled core as a translator uses it: a bridge to `dragoman-cpu`, which knows arrays and nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from dragoman.data.corpora.conllu import Heads
from dragoman.decoding.config import Normalisation
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.rows import hypothesis_of
from dragoman.errors import DataError, RunError
from dragoman.models.arrays import Compute
from dragoman.models.searched import Best, not_finite
from dragoman.models.symbols import Symbols
from dragoman.runtime.network import Ids

CORE = "dragoman_cpu"
PACKAGE = "dragoman-cpu"


def is_installed() -> bool:
    """Whether the core is there."""
    return find_spec(CORE) is not None


def refusal(config: Mapping[str, Any]) -> str | None:
    """Why the core, which must be there, cannot compute a network of this configuration; None where it can."""
    reason: str | None = import_module(CORE).accepts(dict(config))
    return reason


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

        Raises RunError where the weights belong to another configuration.
        """
        vocabularies = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
        try:
            self._core = import_module(CORE).Model({**config, **vocabularies}, dict(weights), compute=compute)
        except ValueError as error:
            raise RunError(f"{where}: the weights belong to another configuration ({error})") from error
        self._config = config
        self._vocabulary = target_vocabulary
        self._symbols = Symbols()

    @property
    def maximum_length(self) -> int | None:
        positions = self._config["positions"]
        return int(positions["length"]) if positions["kind"] == "learned" else None

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
        ids = _rectangle([[*source, self._symbols.end] for source in sources], pad=self._symbols.pad)
        lengths = np.array([len(source) + 1 for source in sources], dtype=np.int32)
        return self._core.encode(ids, lengths, **({} if candidates is None else {"candidates": candidates}))

    def start(self, memory: Any, *, beam: int) -> Any:
        return self._core.start(memory, beam)

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
        with _refusing_what_is_no_number():
            found: Best[Any] = self._core.best(_ids(tokens), memory, state, width, forbidden)
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
        with _refusing_what_is_no_number():
            log_probs, ids, after = self._core.follow(_ids(tokens), lengths, memory, state, width, forbidden)
        return log_probs, ids, after

    def score(
        self,
        sources: Sequence[Ids],
        outputs: Sequence[Ids],
        *,
        normalisation: Normalisation,
        trees: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        memory = self.encode(sources, trees)
        state = self.start(memory, beam=1)
        begun = _rectangle([[self._symbols.begin, *output] for output in outputs], pad=self._symbols.pad)
        ended = [[*output, self._symbols.end] for output in outputs]
        expected = _rectangle(ended, pad=self._symbols.pad)
        columns = []
        for place in range(begun.shape[1]):
            logits, state = self._core.step(_ids(begun[:, place : place + 1]), memory, state)
            columns.append(_log_probs_of(expected[:, place], logits[:, 0]))
        rows = np.stack(columns, axis=1).tolist()
        return [
            hypothesis_of(list(zip(row, numbers, strict=False)), normalisation, symbols=self._symbols)
            for row, numbers in zip(ended, rows, strict=True)
        ]


@contextmanager
def _refusing_what_is_no_number() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        # The core refuses what is no input too, but that would be our fault.
        raise (not_finite() if "finite" in str(error) else error) from error


def _rectangle(rows: Sequence[Ids], *, pad: int) -> Int[np.ndarray, "batch places"]:
    """Ids padded after them."""
    padded = np.full((len(rows), max(map(len, rows))), pad, dtype=np.int32)
    for empty, row in zip(padded, rows, strict=True):
        empty[: len(row)] = row
    return padded


def _ids(tokens: Int[np.ndarray, "batch beam"]) -> Int[np.ndarray, "batch beam"]:
    """As the core takes them."""
    return np.ascontiguousarray(tokens, dtype=np.int32)


def _log_probs_of(
    symbols: Int[np.ndarray, " batch"], logits: Float[np.ndarray, "batch vocabulary"]
) -> Float[np.ndarray, " batch"]:
    most = logits.max(axis=1)
    normaliser = most + np.log(np.exp(logits - most[:, None]).sum(axis=1))
    return logits[np.arange(len(symbols)), symbols] - normaliser
