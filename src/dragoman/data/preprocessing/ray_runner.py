"""Ray Data as the runner of preprocessing tasks, on one machine or a cluster.

Workers write their results to files, which all machines must see at the same paths.
"""

import functools
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from dragoman.config_trees import Tree
from dragoman.data.preprocessing.pipeline import TaskRunner
from dragoman.errors import ConfigError, DataError, DragomanError, MissingExtraError

_T = TypeVar("_T")


@contextmanager
def ray_runner(workers: int | None) -> Iterator[TaskRunner]:
    """Start a runner with `workers` workers, by default one per core, here or on the cluster at `RAY_ADDRESS`.

    Raises MissingExtraError without Ray, and ConfigError if the cluster does not answer.
    """
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError(feature="the engine ray", extra="ray") from error
    local = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": workers, "include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ray.init(logging_level=logging.ERROR, log_to_driver=False, configure_logging=True, **local)
        except ConnectionError as error:
            raise ConfigError(
                f"RAY_ADDRESS = {os.environ.get('RAY_ADDRESS')}: no Ray cluster answers; start one with "
                "`ray start --head`, or unset RAY_ADDRESS"
            ) from error
        try:
            logging.getLogger("ray.data").setLevel(logging.ERROR)
            context = ray.data.DataContext.get_current()
            context.enable_progress_bars = False
            context.print_on_execution_start = False
            yield functools.partial(_run_on_ray, workers)
        finally:
            ray.shutdown()


def _run_on_ray(workers: int | None, function: Callable[[_T], Tree], tasks: Sequence[_T]) -> list[Tree]:
    """Return the result of the function for each task, in order. Raises DataError as the function does."""
    import ray.data

    if not tasks:
        return []
    rows = ray.data.range(len(tasks), override_num_blocks=len(tasks))
    pool = ray.data.TaskPoolStrategy(size=workers)
    done = rows.map(functools.partial(_run_task, function, list(tasks), str(Path.cwd())), num_cpus=1, compute=pool)
    answers = sorted(done.take_all(), key=lambda row: int(row["number"]))
    results = [dict(json.loads(row["answer"])) for row in answers]
    if errors := [tree["error"] for tree in results if "error" in tree]:
        raise DataError(errors[0])
    return [tree["result"] for tree in results]


def _run_task(function: Callable[[_T], Tree], tasks: Sequence[_T], folder: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a task, or its error message, as a row of a data set.

    Relative paths start at the folder of the command.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a worker has one core
    number = int(row["id"])
    with suppress(OSError):  # absolute paths need no folder; the reader reports a missing relative path
        os.chdir(folder)
    try:
        answer: Tree = {"result": function(tasks[number])}
    except DragomanError as error:
        answer = {"error": str(error)}
    return {"number": number, "answer": json.dumps(answer)}
