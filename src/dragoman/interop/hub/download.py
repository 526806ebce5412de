"""Download of a file: parts that are there already stay, and the result has the size and checksum that the Hub lists.

`huggingface_hub` starts an interrupted file anew and compares sizes only; its session sends the requests.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dragoman.errors import DataError
from dragoman.interop.hub.connection import BusyHubError, Hub, file_path
from dragoman.interop.hub.repository import HubFile, Repository

PARTIAL: Final = ".partial"
"""Ending of a file that is not complete."""
ATTEMPTS: Final = 5
"""Requests without a new byte after which a download fails."""
WAIT = 1.0
"""Seconds before the second attempt; they double for each further one."""

Progress = Callable[[int], None]
"""Function of the bytes of a file that are there; fewer than before if the file starts anew."""


def download(hub: Hub, repository: Repository, file: HubFile, path: Path, on_progress: Progress) -> None:
    """Download a file to a path, whose folder is made, or continue its download.

    Raises HubError if the Hub cannot be reached or refuses, and DataError if it sends another file than it lists.
    """
    if path.exists():
        if file.has_content_of(path):
            on_progress(file.size)
            return
        path.unlink()
    partial = path.with_name(path.name + PARTIAL)
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.touch()
    if partial.stat().st_size > file.size:
        partial.write_bytes(b"")
    failures = 0
    while (before := partial.stat().st_size) < file.size:
        on_progress(before)
        try:
            _receive(hub, repository, file, partial, on_progress)
        except BusyHubError:
            failures = 0 if partial.stat().st_size > before else failures + 1
            if failures == ATTEMPTS:
                raise
            time.sleep(WAIT * 2 ** max(failures - 1, 0))
    if not file.has_content_of(partial):
        partial.unlink()
        raise DataError(f"{repository.name}: {file.name} differs from its checksum on the Hub. Run again.")
    partial.rename(path)
    on_progress(file.size)


def _receive(hub: Hub, repository: Repository, file: HubFile, partial: Path, on_progress: Progress) -> None:
    """Append the bytes of one response to a partial file. Raises BusyHubError if the response ends early."""
    start = partial.stat().st_size
    path = file_path(repository.name, repository.commit, file.name)
    with hub.open(path, name=repository.name, start=start) as response, partial.open("ab") as target:
        if start and not _continues(response, start):
            target.truncate(start := 0)
        for chunk in response.iter_raw():
            start += len(chunk)
            if start > file.size:
                target.truncate(0)
                raise DataError(
                    f"{repository.name}: the Hub sends more than the {file.size:,} bytes of {file.name} that it lists. "
                    "Run again."
                )
            target.write(chunk)
            on_progress(start)
    if start < file.size:
        raise BusyHubError(
            f"{repository.name}: the download of {file.name} ended after {start:,} of {file.size:,} bytes. Run again "
            "to continue it."
        )


def _continues(response: Any, start: int) -> bool:
    """Return whether a response begins at the byte that was asked for; servers may send the whole file."""
    content_range = response.headers.get("Content-Range", "")
    return response.status_code == 206 and content_range.startswith(f"bytes {start}-")
