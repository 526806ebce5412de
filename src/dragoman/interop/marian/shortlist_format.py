"""Marian's binary lexical shortlists: candidate target tokens per source token.

Little-endian: `u64 magic, checksum, first, best, offsets, ids`, then as many `u64` offsets and `u32` ids. The ids from
`offset[i]` to `offset[i + 1]` are candidates of the source token `i`. The first `first` target tokens are candidates
always; with a shared vocabulary, so are the tokens of the source; and more tokens from `first` on fill up the number of
candidates to a multiple of 8. The checksum covers what follows it (`marian/src/data/shortlist.cpp`).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np

from dragoman.array_types import Int
from dragoman.atomic_files import write_atomically
from dragoman.untrusted_files import MEBIBYTE, FileKind

SHORTLIST_FILE: Final = FileKind(1024 * MEBIBYTE, "get the file again from where it came")
MAGIC: Final = 0xF11A48D5013417F5
_HEADER = struct.Struct("<6Q")
_CHECKED_FROM: Final = 16
"""Place of the first byte that the checksum covers."""
_HASH_CONSTANT: Final = 0x9E3779B9
_MASK: Final = 2**64 - 1


@final
@dataclass(frozen=True)
class MarianShortlist:
    """Shortlist in the order of the other program: the candidates of token `i` are `ids[offsets[i]:offsets[i + 1]]`."""

    first: int
    """Number of target tokens that are candidates always."""
    best: int
    """Most candidates per token, as the file says."""
    offsets: Int[np.ndarray, " bounds"]
    ids: Int[np.ndarray, " candidates"]

    def candidates(self, source: Sequence[int]) -> set[int]:
        """Return the candidates of a source for a shared vocabulary, as Marian chooses them."""
        found = {*range(self.first), *source}
        for token in source:
            if token + 1 < len(self.offsets):
                found |= set(self.ids[self.offsets[token] : self.offsets[token + 1]].tolist())
        more = self.first
        while len(found) % 8:
            found.add(more)
            more += 1
        return found


def read_shortlist(path: Path) -> MarianShortlist:
    """Read a file. Raises DataError if it is damaged."""
    content = SHORTLIST_FILE.read_bytes(path)
    try:
        magic, expected, first, best, num_offsets, num_ids = _HEADER.unpack_from(content)
        if magic != MAGIC:
            raise ValueError("it is no shortlist of Marian")
        if num_offsets < 1 or len(content) != _HEADER.size + 8 * num_offsets + 4 * num_ids:
            raise ValueError(f"{len(content):,} bytes do not hold {num_offsets:,} offsets and {num_ids:,} ids")
        offsets = np.frombuffer(content, "<u8", num_offsets, _HEADER.size)
        ids = np.frombuffer(content, "<u4", num_ids, _HEADER.size + 8 * num_offsets)
        if offsets[-1] > num_ids or (offsets[1:] < offsets[:-1]).any() or first > 2**31:
            raise ValueError("its offsets are not in order")
        if checksum(content[_CHECKED_FROM:]) != expected:
            raise ValueError("it is not what its checksum says")
    except (ValueError, struct.error) as error:
        raise SHORTLIST_FILE.damaged(path, str(error)) from error
    return MarianShortlist(first, best, offsets.astype(np.int64), ids.astype(np.int64))


def write_shortlist(path: Path, shortlist: MarianShortlist) -> None:
    """Write a file atomically."""
    body = struct.pack("<4Q", shortlist.first, shortlist.best, len(shortlist.offsets), len(shortlist.ids))
    body += shortlist.offsets.astype("<u8").tobytes() + shortlist.ids.astype("<u4").tobytes()
    write_atomically(path, struct.pack("<2Q", MAGIC, checksum(body)), body)


def checksum(content: bytes) -> int:
    """Return the hash of the complete 64-bit words of a content, which `boost::hash_combine` chains."""
    seed = 0
    for word in np.frombuffer(content, "<u8", len(content) // 8).tolist():
        seed ^= (word + _HASH_CONSTANT + (seed << 6) + (seed >> 2)) & _MASK
    return seed
