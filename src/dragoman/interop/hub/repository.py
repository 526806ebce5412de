"""Description of a model on a Hub: its commit, its license, and names, sizes and checksums of its files.

Format: https://huggingface.co/docs/hub/api, `GET /api/models/NAME/revision/REVISION?blobs=true`.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from dragoman.errors import ConfigError, DataError, shorten
from dragoman.interop.hub.connection import Hub, HubError, model_path, require_library
from dragoman.interop.hub.file_patterns import is_safe
from dragoman.untrusted_files import MEBIBYTE, parse_json

MAX_DESCRIPTION: Final = 32 * MEBIBYTE
MAX_SIZE: Final = 2**42
"""Bytes of one file."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CHECKSUMS: Final = {"sha256": re.compile(r"[0-9a-f]{64}"), "git": re.compile(r"[0-9a-f]{40}")}
_LICENSE = re.compile(r"[\w.+-]{1,60}")


@final
@dataclass(frozen=True)
class HubFile:
    """File of a model on a Hub."""

    name: str
    size: int
    """Bytes."""
    checksum: str
    """SHA-256 of a large file, in 64 digits; or SHA-1 of a file as git computes it, in 40 digits."""

    def has_content_of(self, path: Path) -> bool:
        """Return whether a file has this checksum."""
        if len(self.checksum) == 64:
            digest = hashlib.sha256()
        else:
            digest = hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)
        with path.open("rb") as file:
            while chunk := file.read(MEBIBYTE):
                digest.update(chunk)
        return digest.hexdigest() == self.checksum


@final
@dataclass(frozen=True)
class Repository:
    """Model on a Hub at one commit."""

    name: str
    commit: str
    files: Mapping[str, HubFile]
    license: str | None = None


def read_repository(hub: Hub, name: str, revision: str | None) -> Repository:
    """Read the description of a model. Files with dangerous names or without a checksum are left out.

    Raises ConfigError for an invalid name, and HubError if there is none or the answer is invalid.
    """
    check_name(name)
    if revision is not None and not (revision.strip() and revision.isprintable()):
        raise ConfigError(f"revision = {shorten(revision)} is no revision. Give a branch, a tag or a commit.")
    content = bytearray()
    with hub.open(model_path(name, revision), name=name, revision=revision) as response:
        for chunk in response.iter_raw():
            content += chunk
            if len(content) > MAX_DESCRIPTION:
                raise _invalid(hub, name, "it is too long")
    try:
        tree = parse_json(bytes(content))
    except ValueError as error:
        raise _invalid(hub, name, str(error)) from error
    commit = tree.get("sha") if isinstance(tree, dict) else None
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise _invalid(hub, name, "it names no commit")
    card = tree.get("cardData")
    license_name = card.get("license") if isinstance(card, Mapping) else None
    is_license = isinstance(license_name, str) and _LICENSE.fullmatch(license_name)
    siblings = tree.get("siblings")
    files = [_file(one) for one in siblings] if isinstance(siblings, list) else []
    return Repository(
        name, commit, {one.name: one for one in files if one is not None}, license_name if is_license else None
    )


def check_name(name: str, *, needs_organization: bool = False) -> None:
    """Raise ConfigError if a name cannot be that of a model."""
    library = require_library()
    try:
        library.utils.validate_repo_id(name)
        is_valid = "/" in name or not needs_organization
    except library.errors.HFValidationError:
        is_valid = False
    if not is_valid:
        raise ConfigError(
            f"repository = {shorten(name)} is no name of a model on the Hub. Give ORGANIZATION/MODEL, in letters, "
            "digits, -, _ and single dots."
        )


def _file(tree: Any) -> HubFile | None:
    """Return a file of a description; None for one that cannot be downloaded safely."""
    if not isinstance(tree, Mapping):
        return None
    large = tree.get("lfs")
    name, size = tree.get("rfilename"), tree.get("size")
    kind, checksum = ("sha256", large.get("sha256")) if isinstance(large, Mapping) else ("git", tree.get("blobId"))
    if not isinstance(name, str) or not is_safe(name) or type(size) is not int or not 0 <= size <= MAX_SIZE:
        return None
    if not isinstance(checksum, str) or not _CHECKSUMS[kind].fullmatch(checksum):
        return None
    return HubFile(name, size, checksum)


def _invalid(hub: Hub, name: str, reason: str) -> HubError:
    return HubError(f"{hub.shown}: answers with no description of {name} ({reason}). Check HF_ENDPOINT.")


def check_sizes(name: str, files: Mapping[str, HubFile], *, small: tuple[str, ...], limit: int) -> None:
    """Raise DataError if one of the `small` files has more than `limit` bytes."""
    for one in small:
        if files[one].size > limit:
            raise DataError(
                f"{name}: {shorten(one)} has {files[one].size / MEBIBYTE:,.0f} MiB, and no import reads more than "
                f"{limit / MEBIBYTE:,.0f} MiB of such a file. Pull another model."
            )
