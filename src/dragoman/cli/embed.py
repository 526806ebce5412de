"""`dragoman embed`: a vector for each text."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.atomic_files import require_writable, write_atomically
from dragoman.cli import messages, text_io
from dragoman.cli.load_run import load_as
from dragoman.cli.options import InputFile, RunArgument, TextsOption, shared_options
from dragoman.data.readers.line_reader import ReadWarnings

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

ARRAY = ".npy"


@shared_options(("device", "batch_tokens"), into="loading")
def embed(
    run: RunArgument,
    *,
    text: TextsOption = None,
    input_: InputFile = "-",
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="Output file (atomic): an array if it ends in .npy."),
    ] = "-",
    loading: dict[str, Any],
) -> None:
    """Write a vector for each text.

    The output is one JSON object per line, or with the ending .npy an array of NumPy with a row for each text.
    """
    from dragoman.inference import Embedder

    is_array = Path(output).suffix == ARRAY
    if is_array:
        require_writable(Path(output))
    embedder = load_as(Embedder, run, **loading)
    warnings = ReadWarnings()
    texts = text_io.read_given(text, input_, warnings)
    options = {"chunk": 1} if not text and text_io.is_typed(input_) else {}
    vectors = embedder.embed_stream(texts, **options)
    total = len(text) if text else text_io.count_lines(input_)
    if is_array:
        _write_array(vectors, output, warnings, size=embedder.size, total=total)
    else:
        lines = text_io.json_records({"embedding": one.tolist()} for one in vectors)
        text_io.write_lines(lines, output, warnings, total=total)


def _write_array(
    vectors: Iterable[np.ndarray], output: str, warnings: ReadWarnings, *, size: int, total: int | None
) -> None:
    """Write the vectors as the rows of an array, after the last one."""
    import numpy as np

    with closing(text_io.with_progress(vectors, "lines", output=output, total=total)) as shown:
        rows = list(shown)
    content = io.BytesIO()
    np.save(content, np.stack(rows) if rows else np.zeros((0, size), dtype=np.float32))
    write_atomically(Path(output), content.getbuffer())
    messages.summarize_warnings(len(rows))
    text_io.report_repairs(warnings)
