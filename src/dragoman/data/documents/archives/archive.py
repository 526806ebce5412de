"""Documents that are zip archives, such as DOCX and EPUB, read with bounds against hostile files.

Source: PKWARE APPNOTE.TXT 6.3. Members are never written to a disk, so that their paths lead nowhere.
"""

import copy
import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Final, final

from dragoman.data.documents.document import MAX_BYTES
from dragoman.errors import DataError, shorten

MAX_MEMBERS: Final = 20_000
"""Members of an archive."""
MAX_TEXT_BYTES: Final = 64 * 2**20
"""Size of one member whose text is translated."""
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods of documents; others are neither in OPC, nor in ODF, nor in OCF."""
_COMPOUND_FILE: Final = bytes.fromhex("d0cf11e0a1b11ae1")
"""Beginning of a Compound File Binary, as which Office writes encrypted files, and wrote all files before 2007."""
_ENCRYPTED = 0x1
"""Bit of the flags of a member."""


@final
class Archive:
    """Zip archive in memory, whose members are read on request."""

    def __init__(self, content: bytes, *, name: str) -> None:
        """Raise DataError if the archive is damaged, encrypted, or larger than the bounds."""
        self._content, self._name = content, name
        if content.startswith(_COMPOUND_FILE):
            raise DataError(
                f"{name}: is encrypted, or of Office before 2007. Save it in a current format, without a password."
            )
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError) as error:
            raise self._damaged(error) from error
        members = self._zip.infolist()
        if len(members) > MAX_MEMBERS:
            raise DataError(f"{name}: has {len(members):,} members; at most {MAX_MEMBERS:,} are read. Check the file.")
        if len({member.filename for member in members}) < len(members):
            raise self._damaged("two members have one name")
        if any(member.flag_bits & _ENCRYPTED for member in members):
            raise DataError(f"{name}: is encrypted, and cannot be read. Save it without a password.")
        size = sum(member.file_size for member in members)
        if size > MAX_BYTES:
            raise DataError(
                f"{name}: has {size:,} bytes unpacked; a document has at most {MAX_BYTES:,}. Split the file."
            )

    @property
    def names(self) -> list[str]:
        """Return the paths of all members, in the order of the archive."""
        return self._zip.namelist()

    def read(self, path: str) -> bytes:
        """Return a member. Raises DataError if it is missing, damaged, or larger than what it declares."""
        try:
            member = self._zip.getinfo(path)
        except KeyError:
            raise self._damaged(f"{shorten(path)} is missing") from None
        if member.file_size > MAX_TEXT_BYTES:
            raise DataError(
                f"{self._name}: {shorten(path)} has {member.file_size:,} bytes; a text has at most "
                f"{MAX_TEXT_BYTES:,}. Split the file."
            )
        return self._read(member)

    def replace(self, changed: Mapping[str, bytes]) -> bytes:
        """Return the archive with other content of some members; the same bytes without a change.

        All other members keep their content, order, dates and attributes.
        """
        if not changed:
            return self._content
        result = io.BytesIO()
        with zipfile.ZipFile(result, "w") as archive:
            archive.comment = self._zip.comment
            for member in self._zip.infolist():
                content = changed[member.filename] if member.filename in changed else self._read(member)
                archive.writestr(copy.copy(member), content)  # writing changes it
        return result.getvalue()

    def _read(self, member: zipfile.ZipInfo) -> bytes:
        if member.compress_type not in _METHODS:
            raise self._damaged(f"{shorten(member.filename)} has compression method {member.compress_type}")
        try:
            with self._zip.open(member) as file:
                content = file.read(member.file_size + 1)
        except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, OSError, EOFError) as error:
            raise self._damaged(error) from error
        if len(content) != member.file_size:
            raise self._damaged(f"{shorten(member.filename)} has not the size that it declares")
        return content

    def _damaged(self, reason: object) -> DataError:
        return DataError(f"{self._name}: damaged archive ({reason}). Restore the file from a copy.")
