"""Ray on one machine or a cluster, and Ray Data as the runner of preprocessing tasks.

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
def ray_session(workers: int | None, *, feature: str) -> Iterator[None]:
    """Start Ray with `workers` cores, by default all, or connect to the cluster at `RAY_ADDRESS`; end it afterwards.

    Raises MissingExtraError, which names the feature, without Ray, and ConfigError if the cluster does not answer.
    """
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError(feature=feature, extra="ray") from error
    local = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": workers, "include_dashboard": False}
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its notes are about Ray itself
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray(\.|$)")
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
            context.execution_options.preserve_order = True
            yield
        finally:
            ray.shutdown()


@contextmanager
def ray_runner(workers: int | None) -> Iterator[TaskRunner]:
    """Start a runner with `workers` workers, by default one per core. Raises errors as `ray_session` does."""
    with ray_session(workers, feature="the engine ray"):
        yield functools.partial(_run_on_ray, workers)


def enter_worker(folder: str) -> None:
    """Prepare a worker process: relative paths start at the folder of the command."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a worker has one core
    with suppress(OSError):  # absolute paths need no folder; the reader reports a missing relative path
        os.chdir(folder)


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
    """Return the result of a task, or its error message, as a row of a data set."""
    number = int(row["id"])
    enter_worker(folder)
    try:
        answer: Tree = {"result": function(tasks[number])}
    except DragomanError as error:
        answer = {"error": str(error)}
    return {"number": number, "answer": json.dumps(answer)}
