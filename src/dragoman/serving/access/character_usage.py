"""Characters that each client has sent in the current month, and how many it may send."""

import asyncio
import datetime
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, final

from pydantic import BaseModel, ValidationError

from dragoman.atomic_files import require_writable, write_atomically
from dragoman.errors import ConfigError, RunError
from dragoman.serving.http.errors import QuotaExceededError
from dragoman.untrusted_files import MEBIBYTE, FileKind

_FILE = FileKind(16 * MEBIBYTE, error=ConfigError, is_user_file=True)
SAVE_INTERVAL = 1.0
_logger = logging.getLogger(__name__)
EVERYONE = ""
"""Account of all clients without a key: no address of a client is written into a file."""


class Usage(NamedTuple):
    """Characters of the current month, and their limit; 0: any number."""

    characters: int
    limit: int


class _Month(BaseModel, extra="forbid"):
    """Content of the file: a month such as `2026-11`, in UTC, and the characters of each account."""

    month: str
    characters: dict[str, int]


def _this_month() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m")


@final
class CharacterUsage:
    """Counts of all accounts: each client in `limits` has its own, and all other clients together have one."""

    def __init__(
        self,
        limits: Mapping[str, int],
        *,
        default_limit: int = 0,
        file: Path | None = None,
        month: Callable[[], str] = _this_month,
    ) -> None:
        """Continue the counts of a file. Raises ConfigError if it is no such file, RunError if it is not writable."""
        if file is not None:
            require_writable(file)
        self._limits = {**limits, EVERYONE: default_limit}
        self._file = file
        self._this_month = month
        self._month = _Month(month=month(), characters={}) if file is None or not file.exists() else _read(file)
        self._is_saved = True

    def of(self, client: str) -> Usage:
        """Return the usage of a client in the current month."""
        if self._month.month != (month := self._this_month()):
            self._month = _Month(month=month, characters={})
        account = self._account(client)
        return Usage(self._month.characters.get(account, 0), self._limits[account])

    def check(self, client: str, count: int) -> None:
        """Raise QuotaExceededError if a client may not send as many further characters."""
        used, limit = self.of(client)
        if limit and used + count > limit:
            raise QuotaExceededError(
                f"Quota exceeded: {used:,} of {limit:,} characters of this month are used, "
                f"and the request has {count:,}."
            )

    @contextmanager
    def charge(self, client: str, count: int) -> Iterator[None]:
        """Count characters, unless the block fails; one that is canceled, because the client left, counts.

        Raises QuotaExceededError above the limit.
        """
        self.check(client, count)
        self._add(client, count)
        try:
            yield
        except Exception:
            self._add(client, -count)
            raise

    async def save_regularly(self) -> None:
        """Write the counts into the file every second in which they have changed."""
        while True:
            await asyncio.sleep(SAVE_INTERVAL)
            await self.save()

    async def save(self) -> None:
        """Write the counts into the file, if there is one and they have changed. The log has the errors."""
        if self._file is None or self._is_saved:
            return
        self._is_saved = True
        try:
            await asyncio.to_thread(write_atomically, self._file, self._month.model_dump_json())
        except RunError as error:
            self._is_saved = False
            _logger.error("the characters of the month are not saved: %s", error)

    def _add(self, client: str, count: int) -> None:
        used = self.of(client).characters
        self._month.characters[self._account(client)] = max(0, used + count)  # a month may end meanwhile
        self._is_saved = False

    def _account(self, client: str) -> str:
        return client if client in self._limits else EVERYONE


def _read(path: Path) -> _Month:
    try:
        return _Month.model_validate_json(_FILE.read_text(path))
    except ValidationError as error:
        raise ConfigError(f"{path}: is no file of counted characters. Name another one, or remove it.") from error
