"""Hashes of texts and fingerprints of files."""

import hashlib

import pytest

from dragoman.data.fingerprints import file_fingerprint, text_hash
from dragoman.errors import DataError


def test_text_hash_ignores_white_space():
    assert text_hash(" a  dog\u00a0", "x") == text_hash("a dog", "x")
    keys = [text_hash("a dog", "x"), text_hash("a", "dog x"), text_hash("a dog x"), text_hash("A dog", "x")]
    assert len({*keys, text_hash("a dog", "x", seed=1), text_hash("a dog", "x", seed=-1)}) == 6
    assert all(0 <= key < 2**64 for key in keys)


def test_text_hash_is_blake2b():
    assert text_hash("Two dogs", "Zwei Hunde") == int.from_bytes(
        hashlib.blake2b(b"Two dogs\tZwei Hunde", digest_size=8, salt=bytes(8)).digest(), "little"
    )


def test_file_fingerprint_is_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"text\n")
    assert file_fingerprint(tmp_path / "a") == hashlib.sha256(b"text\n").hexdigest()
    with pytest.raises(DataError, match="cannot be read"):
        file_fingerprint(tmp_path / "none")
    with pytest.raises(DataError, match="is a folder"):
        file_fingerprint(tmp_path)
    with pytest.raises(DataError, match=r"/dev/null: is a pipe or device"):
        file_fingerprint(type(tmp_path)("/dev/null"))
