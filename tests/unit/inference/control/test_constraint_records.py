"""Constraints of files and requests."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Constraint
from dragoman.errors import DataError
from dragoman.inference.control.constraint_records import read_constraint, read_constraint_file

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["forms", "kind", "bonus", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_a_line_has_the_constraints_of_a_text(tmp_path):
    rows = [["Jacke", {"forms": ["rot", "roten"], "kind": "once", "whole_words": False}]]
    rows += [[], [{"forms": "a", "kind": "preferred", "bonus": 2}]]
    file = tmp_path / "constraints.jsonl"
    file.write_text("\n".join(json.dumps(row) if row else "" for row in rows) + "\n", encoding="utf-8")
    assert read_constraint_file(file) == [
        [Constraint("Jacke"), Constraint(["rot", "roten"], "once", whole_words=False)],
        [],
        [Constraint(["a"], "preferred", bonus=2.0)],
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{}", "not a list"),
        ("[", "no JSON list"),
        ("[" * 100_000, "no JSON list"),
        ("[3]", r"1: \[0\].*object"),
        ('[{"form": "a"}]', "'form'"),
        ("[{}]", "no forms"),
        ('[{"forms": [3]}]', "not a text"),
        ('[{"forms": "a", "kind": ["x"]}]', "kind"),
        ('[{"forms": "a", "whole_words": 1}]', "true or false"),
        ('[{"forms": "a", "bonus": 1}]', "only preferred"),
        ('[{"forms": "a", "kind": "preferred", "bonus": NaN}]', "out of range"),
        ('[{"forms": "a", "kind": "preferred", "bonus": "1"}]', "number"),
    ],
)
def test_an_invalid_line_is_refused(tmp_path, line, message):
    file = tmp_path / "constraints.jsonl"
    file.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_constraint_file(file)


@given(JSON)
def test_any_item_is_read_or_refused(item):
    try:
        found = read_constraint(item, "here")
    except DataError:
        return
    assert found.texts
