"""Keys of clients, of which the server keeps only hashes.

The file has a line `NAME HASH` for each key, or `NAME HASH CHARACTERS` where the key may send only so many characters
a month; HASH is the hexadecimal SHA-256 of the key. A key has 256 random bits,
therefore a plain hash is as safe as a slow one, and a comparison reveals nothing about keys that differ.
"""

import hmac
import re
import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Self, final

from dragoman.atomic_files import write_atomically
from dragoman.errors import ConfigError
from dragoman.untrusted_files import MEBIBYTE, FileKind

PREFIX = "dgm_"
"""Beginning of every key, by which secret scanners find it."""
_LINE = re.compile(
    r"(?P<name>[\w.@-]{1,64})\s+(?P<hash>[0-9a-f]{64})(?:\s+(?P<quota>[1-9][0-9]{0,17}))?",
)
_FILE = FileKind(16 * MEBIBYTE, error=ConfigError, is_user_file=True)


@final
class ApiKeys:
    """Hashes of keys by the names of their owners."""

    def __init__(self, hashes: Mapping[str, str], quotas: Mapping[str, int] | None = None) -> None:
        self._hashes = dict(hashes)
        self._quotas = dict(quotas or {})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of keys. Raises ConfigError on an invalid line, which it does not show."""
        hashes: dict[str, str] = {}
        quotas: dict[str, int] = {}
        for number, line in enumerate(_FILE.read_text(path).splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line.strip())
            if match is None or match["name"] in hashes:
                raise ConfigError(
                    f"{path}:{number}: is no line NAME HASH or NAME HASH CHARACTERS with a new name. "
                    "Add a key with: dragoman serve --add-key"
                )
            hashes[match["name"]] = match["hash"]
            if match["quota"] is not None:
                quotas[match["name"]] = int(match["quota"])
        return cls(hashes, quotas)

    def quotas(self, default: int) -> dict[str, int]:
        """Return the characters that each owner may send in a month."""
        return {name: self._quotas.get(name, default) for name in self._hashes}

    def owner(self, key: str) -> str | None:
        """Return the name of the owner of a key; None for an unknown one. All keys take the same time."""
        given = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        found = None
        for name, known in self._hashes.items():
            if hmac.compare_digest(known, given):
                found = name
        return found


def add_key(path: Path, name: str) -> str:
    """Make a key, append its hash to a file and return it; the key itself is stored nowhere.

    Raises ConfigError if the name is invalid or has a key already.
    """
    key = PREFIX + secrets.token_urlsafe(32)
    line = f"{name} {sha256(key.encode()).hexdigest()}"
    if _LINE.fullmatch(line) is None:
        raise ConfigError(f"{name!r:.80} is no name of a key. Use up to 64 letters, digits and `.@-_`.")
    before = _FILE.read_text(path) if path.exists() else ""
    if any(one.split()[0] == name for one in before.splitlines() if one.strip()):
        raise ConfigError(f"{path}: {name} has a key already. Choose another name, or remove its line first.")
    write_atomically(path, f"{before}{'' if before.endswith(chr(10)) or not before else chr(10)}{line}\n".encode())
    path.chmod(0o600)
    return key
