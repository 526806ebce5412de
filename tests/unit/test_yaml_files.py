"""YAML: reading of mappings of bounded size."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.yaml_files import RUN_CONFIG, YamlError, parse_yaml, read_yaml, to_yaml

ALIASES = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 30))
COPIES = f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 2000)}]\n"


def test_yaml_with_line_ends_marks_and_comments_is_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes("\ufeffname: zwölf # twelve\r\nseed: 3\r\n".encode())
    assert read_yaml(path) == {"name": "zwölf", "seed": 3}
    path.write_text("# nothing\n", encoding="utf-8")
    assert read_yaml(path) == {}
    path.write_text("base: &base {a: 1}\nover: {<<: *base, a: 2}\n", encoding="utf-8")
    assert read_yaml(path) == {"base": {"a": 1}, "over": {"a": 2}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: 1\nb: [1, 2\nc: 3\n", r"a\.yaml, line 3: not valid YAML \(.*expected ',' or ']'.*\); correct the file"),
        (b"[" * 100_000, r"a\.yaml, line 1: not valid YAML \(nested more than 100 deep\)"),
        (b"- " * 3_000 + b"a", r"a\.yaml, line 1: not valid YAML \(nested more than 100 deep\)"),
        (b"seed: 1\nname: x\nseed: 2\n", r"a\.yaml, line 3: not valid YAML \(seed is given twice\)"),
        (b"t:\n  - {x: 1, x: 1}\n", r"a\.yaml, line 2: not valid YAML \(x is given twice\)"),
        (b"- 1\n", r"a\.yaml: holds list, not a mapping"),
        (b"just words\n", r"a\.yaml: holds str, not a mapping"),
        (b"name: caf\xe9\n", r"a\.yaml: not UTF-8 .* at byte 9"),
        (b"name: !!python/object/apply:os.getcwd []\n", r"a\.yaml, line 1: not valid YAML \(could not determine"),
        (b"a: \x00\n", r"a\.yaml: not valid YAML"),
        (ALIASES.encode(), r"a\.yaml, line \d: not valid YAML \(more than 20,000 keys and values"),
        (MERGES.encode(), r"a\.yaml, line \d: not valid YAML \(more than 20,000 keys and values"),
        (COPIES.encode(), r"a\.yaml, line 2: not valid YAML \(more than 20,000 keys and values, or a MiB of text"),
        (b"a: &a [*a]\n", r"a\.yaml, line 1: not valid YAML \('a' contains itself\)"),
        (b"a: &a {<<: *a}\n", r"a\.yaml, line 1: not valid YAML \('a' contains itself\)"),
        (b"a: *b\n", r"a\.yaml, line 1: not valid YAML \(found undefined alias"),
        (b"a: [" + b"1," * 400_000 + b"]", r"a\.yaml, line 1: not valid YAML \(more than 20,000"),
        (b"a: " + b"x" * 2**21, r"a\.yaml: is larger than 1 MiB; shorten it"),
        (b"seed: " + b"9" * 400, r"a\.yaml, line 1: not valid YAML \(the number 9{57}\.\.\. is too large\)"),
        (b"seed: 18446744073709551616", r"the number 18446744073709551616 is too large"),
        (b"seed: 1" + b":1" * 300_000, r"a\.yaml, line 1: not valid YAML \(the number 1:1.* is too large\)"),
        (b"seed: !!int x\n", r"a\.yaml: not valid YAML \(a value does not fit its type"),
        (b"seed: !!bool x\n", r"a\.yaml: not valid YAML \(a value does not fit its type"),
        (b"seed: !!timestamp x\n", r"a\.yaml: not valid YAML \(a value does not fit its type"),
        (b"seed: 2026-99-99\n", r"a\.yaml: not valid YAML \(a value does not fit its type"),
        (b"{[a]: 1}\n", r"a\.yaml, line 1: not valid YAML \(found unhashable key\)"),
    ],
)
def test_invalid_yaml_is_refused(tmp_path, content, message):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        read_yaml(path)
    assert len(str(caught.value).splitlines()) == 1


def test_missing_yaml_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"b\.yaml: cannot be read \(No such file or directory\); check the path"):
        read_yaml(tmp_path / "b.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(tmp_path)


def test_links_and_pipes_are_read_only_if_the_user_names_them(tmp_path):
    (tmp_path / "own.yaml").write_text("seed: 2\n", encoding="utf-8")
    (tmp_path / "config.yaml").symlink_to("own.yaml")
    assert read_yaml(tmp_path / "config.yaml") == {"seed": 2}
    with pytest.raises(ConfigError, match=r"config\.yaml: is a symbolic link; .* Copy its target here"):
        read_yaml(tmp_path / "config.yaml", RUN_CONFIG)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text("abc &*<:[]{}0e.-\n'\"", max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab<", max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=3), values, max_size=5), st.data())
def test_changed_yaml_is_read_or_refused(tree, data):
    text = to_yaml(tree) if data.draw(st.booleans()) else repr(tree)
    place = data.draw(st.integers(0, len(text)))
    inserted = data.draw(
        st.text("&*a<:[]{}!0x-.|>'\"\n #?,", max_size=8) | st.sampled_from(["!!int ", "&a [*a]", "<<: *a"])
    )
    changed = text[:place] + inserted + text[place:]
    try:
        found = parse_yaml(changed)
    except YamlError as error:
        assert 0 < len(str(error).splitlines()) <= 1, changed  # noqa: PT017
        assert error.line in (None, *range(1, changed.count("\n") + 3)), changed  # noqa: PT017
    else:
        assert repr(parse_yaml(to_yaml({"value": found}))) == repr({"value": found})  # NaN differs from itself


def test_the_largest_file_is_read_in_seconds():
    start = time.process_time()
    with pytest.raises(YamlError):
        parse_yaml("{" * 99 + "a: [" + "{a: 1}," * 100_000)
    assert len(parse_yaml("a: [" + "{a: 1}," * 6_000 + "]")["a"]) == 6_000
    assert time.process_time() - start < 10
