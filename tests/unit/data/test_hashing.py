"""Keys of texts, sets of keys, fingerprints of files."""

import hashlib
import random

import pytest

from dragoman.data.hashing import HashSet, file_fingerprint, text_hash
from dragoman.errors import DataError


def test_a_key_is_that_of_the_text_whatever_its_spaces():
    assert text_hash(" a  dog\u00a0", "x") == text_hash("a dog", "x")
    keys = [text_hash("a dog", "x"), text_hash("a", "dog x"), text_hash("a dog x"), text_hash("A dog", "x")]
    assert len({*keys, text_hash("a dog", "x", seed=1), text_hash("a dog", "x", seed=-1)}) == 6
    assert all(0 <= key < 2**64 for key in keys)


def test_the_key_is_the_same_on_every_machine():
    assert text_hash("Two dogs", "Zwei Hunde") == int.from_bytes(
        hashlib.blake2b(b"Two dogs\tZwei Hunde", digest_size=8, salt=bytes(8)).digest(), "little"
    )


def test_a_key_set_behaves_like_a_set():
    generator, keys, twin = random.Random(7), HashSet(), set()
    for _ in range(20_000):
        # Few values, many with the same low bits, so that keys meet and places collide.
        key = generator.choice([generator.randrange(1, 3000), generator.randrange(1, 500) << 40])
        assert keys.add(key) == (key not in twin)
        twin.add(key)
    assert len(keys) == len(twin)
    assert all((key in keys) == (key in twin) for key in range(1, 4000))


def test_zero_and_the_greatest_key_can_be_held():
    keys = HashSet([0, 2**64 - 1])
    assert 0 in keys
    assert 2**64 - 1 in keys
    assert len(keys) == 2
    assert 2 not in keys


def test_a_file_is_known_by_its_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"text\n")
    assert file_fingerprint(tmp_path / "a") == hashlib.sha256(b"text\n").hexdigest()
    with pytest.raises(DataError, match="cannot be read"):
        file_fingerprint(tmp_path / "none")
    with pytest.raises(DataError, match="is a folder"):
        file_fingerprint(tmp_path)
    with pytest.raises(DataError, match=r"/dev/null: is a pipe or device"):
        file_fingerprint(type(tmp_path)("/dev/null"))
