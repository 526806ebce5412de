import asyncio
import json

import pytest

from dragoman.errors import ConfigError, RunError
from dragoman.serving.access.api_keys import ApiKeys, add_key
from dragoman.serving.access.character_usage import CharacterUsage
from dragoman.serving.http.errors import QuotaExceededError

MONTH = "2026-11"


def usage(**options) -> CharacterUsage:
    return CharacterUsage({"key anna": 10, "key bert": 0}, month=lambda: MONTH, **options)


def test_characters_up_to_the_limit_are_accepted():
    counts = usage()
    with counts.charge("key anna", 7), counts.charge("key anna", 3):
        pass
    assert counts.of("key anna") == (10, 10)
    with pytest.raises(QuotaExceededError, match="10 of 10 characters of this month are used, and the request has 1"):
        counts.check("key anna", 1)
    with counts.charge("key bert", 1_000):
        pass
    assert counts.of("key bert") == (1_000, 0)


def test_requests_that_are_answered_at_once_share_the_limit():
    counts = usage()
    with counts.charge("key anna", 6), pytest.raises(QuotaExceededError), counts.charge("key anna", 6):
        pass
    assert counts.of("key anna").characters == 6


def test_a_request_that_fails_is_free():
    counts = usage()
    with pytest.raises(ZeroDivisionError), counts.charge("key anna", 6):
        raise ZeroDivisionError
    assert counts.of("key anna").characters == 0


def test_a_request_whose_client_leaves_counts():
    counts = usage()
    with pytest.raises(asyncio.CancelledError), counts.charge("key anna", 6):
        raise asyncio.CancelledError
    assert counts.of("key anna").characters == 6


def test_clients_without_a_key_share_one_account():
    counts = usage(default_limit=5)
    with counts.charge("127.0.0.1", 3):
        pass
    assert counts.of("10.0.0.1") == (3, 5)


def test_a_new_month_begins_at_zero():
    month = [MONTH]
    counts = CharacterUsage({"key anna": 10}, month=lambda: month[0])
    with counts.charge("key anna", 10):
        month[0] = "2026-12"
        assert counts.of("key anna").characters == 0
    assert counts.of("key anna").characters == 0


def test_a_file_keeps_the_counts_and_no_address(tmp_path):
    counts = usage(file=tmp_path / "usage.json")
    with counts.charge("key anna", 4), counts.charge("127.0.0.1", 2):
        asyncio.run(counts.save())
    stored = json.loads((tmp_path / "usage.json").read_text())
    assert stored == {"month": MONTH, "characters": {"key anna": 4, "": 2}}
    assert usage(file=tmp_path / "usage.json").of("key anna").characters == 4


def test_a_request_that_ends_after_a_month_leaves_no_negative_count():
    month = [MONTH]
    counts = CharacterUsage({"key anna": 10}, month=lambda: month[0])
    charge = counts.charge("key anna", 10)
    charge.__enter__()
    month[0] = "2026-12"
    assert not charge.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert counts.of("key anna").characters == 0


@pytest.mark.parametrize("content", ["", "[]", '{"month": 3}', '{"month": "2026-11", "characters": {"a": "b"}}', "\0"])
def test_a_damaged_file_is_an_error(tmp_path, content):
    (tmp_path / "usage.json").write_text(content)
    with pytest.raises(ConfigError, match=r"usage\.json: "):
        usage(file=tmp_path / "usage.json")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(RunError, match="cannot be written"):
        usage(file=tmp_path / "none" / "usage.json")


def test_a_line_of_the_file_of_keys_may_have_a_quota(tmp_path):
    path = tmp_path / "keys"
    for name in ("anna", "bert"):
        add_key(path, name)
    text = path.read_text().replace("anna", "#\nanna")
    first, second, third = text.splitlines()
    path.write_text(f"{first}\n{second} 500\n{third}\n")
    assert ApiKeys.read(path).quotas(7) == {"anna": 500, "bert": 7}
    path.write_text(f"{second} -5\n")
    with pytest.raises(ConfigError, match="is no line NAME HASH or NAME HASH CHARACTERS"):
        ApiKeys.read(path)
