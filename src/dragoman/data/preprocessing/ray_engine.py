"""Ray Data as the engine of what is prepared in blocks: the processes of one machine, or those of a cluster.

Tasks go to the workers, and what they make goes to files, which all machines must see under the same paths.
"""

import functools
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, final

from dragoman.config import Tree
from dragoman.errors import ConfigError, DataError, DragomanError, MissingExtraError

T = TypeVar("T")


@contextmanager
def ray_runner(workers: int | None) -> "Iterator[RayRunner]":
    """An engine of so many workers, by default one a core: those of this machine, or of the cluster that
    `RAY_ADDRESS` names.

    Raises MissingExtraError without Ray, and ConfigError where there is no such cluster.
    """
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError(feature="the engine ray", extra="ray") from error
    elsewhere = "RAY_ADDRESS" in os.environ
    own = {} if elsewhere else {"num_cpus": workers, "include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ray.init(logging_level=logging.ERROR, log_to_driver=False, configure_logging=True, **own)
        except ConnectionError as error:
            raise ConfigError(
                f"RAY_ADDRESS = {os.environ.get('RAY_ADDRESS')}: no cluster of Ray answers there; start one by "
                "`ray start --head`, or leave RAY_ADDRESS out"
            ) from error
        try:
            logging.getLogger("ray.data").setLevel(logging.ERROR)
            context = ray.data.DataContext.get_current()
            context.enable_progress_bars = False
            context.print_on_execution_start = False
            yield RayRunner(workers)
        finally:
            ray.shutdown()


@final
class RayRunner:
    """Implements `data.blockwise.Engine`."""

    def __init__(self, workers: int | None) -> None:
        self._workers = workers

    def run(self, function: Callable[[T], Tree], tasks: Sequence[T]) -> list[Tree]:
        """What the function gives for each task, in the order of the tasks. Raises DataError as the function does."""
        import ray.data

        if not tasks:
            return []
        rows = ray.data.range(len(tasks), override_num_blocks=len(tasks))
        pool = ray.data.TaskPoolStrategy(size=self._workers)
        done = rows.map(functools.partial(_answered, function, list(tasks), str(Path.cwd())), num_cpus=1, compute=pool)
        answers = sorted(done.take_all(), key=lambda row: int(row["number"]))
        found = [dict(json.loads(row["answer"])) for row in answers]
        if refused := [tree["refused"] for tree in found if "refused" in tree]:
            raise DataError(refused[0])
        return [tree["given"] for tree in found]


def _answered(function: Callable[[T], Tree], tasks: Sequence[T], folder: str, row: dict[str, Any]) -> dict[str, Any]:
    """The answer to a task as a row of a data set, or the message of what a person can mend.

    Paths are as they are seen from the folder where the command was given.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a worker has one core
    number = int(row["id"])
    with suppress(OSError):  # whole paths need no folder, and others are told about where they are not found
        os.chdir(folder)
    try:
        answer: Tree = {"given": function(tasks[number])}
    except DragomanError as error:
        answer = {"refused": str(error)}
    return {"number": number, "answer": json.dumps(answer)}
