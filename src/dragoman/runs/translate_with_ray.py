"""Translation of many lines on many machines, with Ray Data.

Each worker loads the model once, from a path that all machines see, and translates blocks of lines.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.data.preprocessing.ray_runner import enter_worker, ray_session
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import DataError, DragomanError, TextError, TextWarning
from dragoman.inference.backends.cpu_backend import THREADS
from dragoman.inference.translation_result import TranslationResult
from dragoman.inference.translator import Translator
from dragoman.runs.load import load

BLOCK_LINES = 1000
"""Lines that a worker translates at a time: seconds of work, and some hundred kilobytes."""


@dataclass(frozen=True)
class RayTranslation:
    """Work of each worker: `format_line` returns the output for the number of a line, from 0, and its translations."""

    run: Path
    loading: Mapping[str, Any]
    """Options of `dragoman.load`."""
    config: DecodingConfig
    options: Mapping[str, Any]
    """Options of `Translator.translate_stream`."""
    format_line: Callable[[int, TranslationResult], str]


def translate_with_ray(lines: Iterable[str], job: RayTranslation, *, workers: int | None) -> Iterator[str]:
    """Yield the output for each line, in order, from `workers` workers; by default, one for each core.

    Lines are read before the first output, and stay in the object store of Ray, which moves them to disk when its
    memory is full. Raises DataError as a translator does, and errors as `ray_session` does.
    """
    with ray_session(workers, feature="--ray"):
        import pyarrow
        import ray.data

        numbered = enumerate(lines)
        blocks = [
            ray.put(pyarrow.table({"number": [number for number, _ in block], "text": [text for _, text in block]}))
            for block in iter(lambda: list(islice(numbered, BLOCK_LINES)), [])
        ]
        if not blocks:
            return
        pool = ray.data.ActorPoolStrategy(size=workers or int(ray.cluster_resources()["CPU"]))
        on_gpu = str(job.loading.get("device", "")).startswith("cuda")
        translated = ray.data.from_arrow_refs(blocks).map_batches(
            _Worker,
            fn_constructor_args=(job, str(Path.cwd())),
            batch_size=None,
            batch_format="pyarrow",
            compute=pool,
            num_cpus=1,
            num_gpus=int(on_gpu),
        )
        for batch in translated.iter_batches(batch_size=None, batch_format="pyarrow"):
            for row in batch.to_pylist():
                for one in json.loads(row["warnings"]):
                    warnings.warn(TextWarning(**one), stacklevel=2)
                if row["error"]:
                    raise _read_error(json.loads(row["error"]))
                yield row["output"]


def _describe_error(error: DragomanError, first: int) -> dict[str, Any]:
    """Return an error of a block of lines, the first of which has the number `first`, from 0."""
    if isinstance(error, TextError):
        return {"unit": error.unit, "number": first + error.number, "message": error.message}
    return {"message": str(error)}


def _read_error(tree: dict[str, Any]) -> DataError:
    """Return the error that `_describe_error` has described."""
    return TextError(**tree) if "unit" in tree else DataError(tree["message"])


class _Worker:
    """Actor of Ray Data."""

    def __init__(self, job: RayTranslation, folder: str) -> None:
        enter_worker(folder)
        os.environ.setdefault(THREADS, "1")
        self._job = job
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the command has shown the warnings of this run
            self._translator = load(job.run, Translator, **job.loading)

    def __call__(self, block: Any) -> Any:
        """Return a table with the outputs of one with the columns `number` and `text`.

        The first row has the warnings about all texts, as JSON, and the message of an error.
        """
        import pyarrow

        numbers, texts = block["number"].to_pylist(), block["text"].to_pylist()
        outputs, error = [""] * len(texts), ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = self._translator.translate_stream(texts, self._job.config, **self._job.options)
                outputs = [self._job.format_line(*one) for one in zip(numbers, found, strict=True)]
            except DragomanError as raised:
                error = json.dumps(_describe_error(raised, numbers[0]))
        found_warnings = [one.message for one in caught if isinstance(one.message, TextWarning)]
        shown = [part for one in found_warnings for part in one.parts or [one]]
        about = json.dumps([{**one.to_dict(), "number": numbers[0] + one.number} for one in shown])
        rest = len(texts) - 1
        return pyarrow.table({"output": outputs, "warnings": [about] + ["[]"] * rest, "error": [error] + [""] * rest})
