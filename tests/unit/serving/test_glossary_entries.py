"""Entries of stored glossaries as text."""

import pytest

from dragoman.serving.glossaries.entries import MAX_TERM_BYTES, read_entries, write_tsv
from dragoman.serving.http.errors import RequestError

PAIR = ("en", "pt-br")


@pytest.mark.parametrize(
    ("text", "kind", "entries"),
    [
        ("dog\tHund\n\ncat \t Katze\r\n", "tsv", (("dog", "Hund"), ("cat", "Katze"))),
        ('"dog, big",Dogge\n\nsaid ""x"",y', "csv", (("dog, big", "Dogge"), ('said ""x""', "y"))),
        ("dog,Hund,EN,PT-BR\ncat,Katze,en-us,pt", "csv", (("dog", "Hund"), ("cat", "Katze"))),
        ('"a ""b""",c', "csv", (('a "b"', "c"),)),
        (f"{'ä' * (MAX_TERM_BYTES // 2)}\tx", "tsv", (("ä" * (MAX_TERM_BYTES // 2), "x"),)),
    ],
)
def test_entries_are_read(text, kind, entries):
    assert read_entries(text, kind, PAIR) == entries


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", "tsv", "no entries"),
        ("dog\tHund\ndog\tKöter", "tsv", "row 2 has the source term 'dog' a second time"),
        ("dog Hund", "tsv", "row 1 has 1 columns"),
        ("\n\ndog\tHund\t", "tsv", "row 3 has 3 columns"),
        ("dog\t ", "tsv", "row 1 has an empty term"),
        ("a\u2028b\tc", "tsv", "row 1 has a control character"),
        ("a\rb\tc", "tsv", "row 1 has a control character"),
        ("a\ud800\tc", "tsv", "row 1 has a control character"),
        (f"{'ä' * (MAX_TERM_BYTES // 2)}x\ty", "tsv", "row 1 has a term of more than 1024 bytes"),
        ("dog,Hund,en,fr", "csv", "row 1 is for the language pair 'en' to 'fr', not en to pt-br"),
        ("dog,Hund,en", "csv", "row 1 has 3 columns"),
        ('dog,"Hund', "csv", "row 1 is not valid CSV"),
    ],
)
def test_invalid_rows_are_refused_with_their_number(text, kind, message):
    with pytest.raises(RequestError, match=message) as error:
        read_entries(text, kind, PAIR)
    assert error.value.status == 400


def test_written_entries_are_read_again():
    entries = (("dog", "Hund"), ("a  b", 'c "d", e'))
    assert read_entries(write_tsv(entries), "tsv", PAIR) == entries
