"""Keys: the owner of a key is found, and the search tells nothing of other keys."""

import hmac
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.serving.access.api_keys import ApiKeys, add_key


def hashed(keys: dict[str, str]) -> ApiKeys:
    return ApiKeys({name: sha256(key.encode()).hexdigest() for name, key in keys.items()})


KEYS = {"anna": "dgm_anna", "berta": "dgm_berta", "clara": "dgm_clara"}


@given(st.text(max_size=23) | st.sampled_from([*KEYS.values(), "dgm_", "dgm_annaa"]))
def test_only_a_whole_key_has_an_owner(given):
    assert hashed(KEYS).owner(given) == next((name for name, key in KEYS.items() if key == given), None)


@pytest.mark.parametrize("key", ["", "dgm_anna", "dgm_clara", "dgm_ann", "x" * 10_000, "\ud800"])
def test_every_key_is_compared_with_all_hashes_in_constant_time(key, monkeypatch):
    compared = []
    original = hmac.compare_digest

    def compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return original(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    hashed(KEYS).owner(key)
    assert compared == [(64, 64)] * len(KEYS)


def test_a_file_of_keys_holds_hashes_only(tmp_path):
    path = tmp_path / "keys"
    keys = {name: add_key(path, name) for name in KEYS}
    assert not any(key in path.read_text() for key in keys.values())
    read = ApiKeys.read(path)
    assert {name: read.owner(key) for name, key in keys.items()} == {name: name for name in KEYS}
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("line", ["anna", "anna abc", "anna " + "0" * 63, "a b " + "0" * 64, "anna " + "g" * 64])
def test_a_wrong_line_is_named_but_not_shown(tmp_path, line):
    path = tmp_path / "keys"
    path.write_text(f"# keys\n{line}\n")
    with pytest.raises(ConfigError, match=":2: is no line") as raised:
        ApiKeys.read(path)
    assert line not in str(raised.value)
