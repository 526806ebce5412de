"""Dependency trees in CoNLL-U: reading, joining and errors."""

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.readers.conllu import DependencyTree, find_tree_error, read_heads, read_trees
from dragoman.errors import DataError
from tests.trees import Heads, conllu, depth, forests, path_to_root


def row(number: object, head: object, *, misc: str = "_") -> str:
    return f"{number}\tword\t_\t_\t_\t_\t{head}\t_\t_\t{misc}\n"


def write(folder: Path, content: str) -> Path:
    path = folder / "a.conllu"
    path.write_text(content, encoding="utf-8")
    return path


def test_sentences_have_their_lines(tmp_path):
    content = "# one\n# text = a\n" + row(1, 2) + row(2, 0) + "\n\n# two\n" + row(1, 0)
    assert list(read_trees(write(tmp_path, content))) == [
        DependencyTree((2, 0), (True, True), 3),
        DependencyTree((0,), (True,), 8),
    ]
    assert list(read_trees(write(tmp_path, "# nothing\n\n"))) == []


def test_multiword_tokens_and_empty_nodes_are_skipped(tmp_path):
    content = row("1-2", "_") + row(1, 2) + row(2, 0) + row("2.1", "_") + row(3, 2, misc="SpaceAfter=No")
    content += row("4-5", "_", misc="Gloss=x|SpaceAfter=No") + row(4, 2) + row(5, 4) + row(6, 2)
    [tree] = read_trees(write(tmp_path, content))
    assert tree.heads == (2, 0, 2, 2, 4, 2)
    assert tree.space_after == (False, True, False, False, False, True)


def test_text_may_be_spaced_or_as_written():
    """`du pain.`: the first word is a multiword token of `de` and `le`, and no space precedes the period."""
    tree = DependencyTree(heads=(3, 3, 0, 3), space_after=(False, True, False, True), line=1)
    assert tree.heads_for(4) == (3, 3, 0, 3)
    assert tree.heads_for(2) == (2, 0)
    assert tree.heads_for(3) is None


def test_joined_words_have_the_head_of_the_highest():
    tree = DependencyTree(heads=(2, 4, 2, 0, 4), space_after=(True, False, True, False, True), line=1)
    # 2 and 3 are one word and hang, as 2 does, on 4, which is one with 5
    assert tree.heads_for(3) == (2, 3, 0)


@given(st.data(), forests(most=9))
def test_joined_words_form_a_tree(data: st.DataObject, heads: Heads) -> None:
    spaced = tuple(data.draw(st.booleans()) for _ in heads[1:]) + ((True,) if heads else ())
    tree = DependencyTree(heads, spaced, 1)
    joined = tree.heads_for(tree.num_surface_words)
    assert joined is not None
    assert find_tree_error(joined) is None
    groups = [0, *(1 + sum(spaced[:word]) for word in range(len(heads)))]
    for group in set(groups[1:]):
        members = [word for word in range(1, len(heads) + 1) if groups[word] == group]
        highest = min(members, key=lambda word: depth(heads, word))
        assert joined[group - 1] == groups[path_to_root(heads, highest)[1]]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_compressed_files_are_read(tmp_path, pack):
    path = tmp_path / f"a.conllu.{'gz' if pack is gzip.compress else 'xz'}"
    path.write_bytes(pack(row(1, 0).encode()))
    assert [tree.heads for tree in read_trees(path)] == [(0,)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (row(1, 0) + "2\tword\n", r"a\.conllu:2: 2 columns, but CoNLL-U has 10, separated by tabs"),
        (row(1, 0).replace("\t", " "), r"a\.conllu:1: 1 columns"),
        (row(1, 0) + row("two", 1), r"a\.conllu:2: 'two' is not a word number"),
        (row(1, 0) + row("1" * 5000, 1), r"a\.conllu:2: '1+' is not a word number"),
        (row(1, 0) + row(3, 1), r"a\.conllu:2: word 3 where word 2 is expected"),
        (row(1, 0) + row(1, 0), r"a\.conllu:2: word 1 where word 2 is expected; .* blank line between sentences"),
        (row(1, 0) + row(2, "_"), r"a\.conllu:2: the head of word 2 is '_', not a number"),
        (row(1, 0) + row(2, "9" * 5000), r"a\.conllu:2: the head of word 2 is '9+', not a number"),
        (row(1, 0) + row(2, -1), r"a\.conllu:2: the head of word 2 is '-1'"),
        ("\n# x\n" + row(1, 0) + row(2, 3), r"a\.conllu:4: word 2 has head 3, but words are 1 to 2, and 0 marks a"),
        ("# x\n" + row(1, 2) + row(2, 1), r"a\.conllu:2: no word has head 0, so the tree has no root"),
        (row(1, 0) + row(2, 2), r"a\.conllu:2: the heads from word 2 form a cycle"),
        (row(1, 0) + row(2, 3) + row(3, 4) + row(4, 3), r"a\.conllu:2: the heads from word 2 form a cycle"),
    ],
)
def test_invalid_tree_is_refused_with_its_line(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        list(read_trees(write(tmp_path, content)))


@given(forests(most=9))
def test_valid_tree_has_no_error(heads: Heads) -> None:
    assert find_tree_error(heads) is None


@given(forests(most=9), st.data())
def test_cycle_is_found(heads: Heads, data: st.DataObject) -> None:
    if not heads:
        return
    word = data.draw(st.integers(1, len(heads)))
    below = [other for other in range(1, len(heads) + 1) if word in path_to_root(heads, other)]
    turned = list(heads)
    turned[word - 1] = data.draw(st.sampled_from(below))
    fault = find_tree_error(turned)
    assert fault is not None
    assert fault.word in below or 0 not in turned


def test_long_cycle_is_found_quickly():
    words = 100_000
    assert find_tree_error([0, *range(3, words + 1), 2]).word == 2


def test_each_line_with_words_has_a_tree(tmp_path):
    path = write(tmp_path, conllu([("two dogs", (2, 0)), ("sleep", (0,))]))
    assert list(read_heads(["two dogs", " ", "", "sleep"], path, name="a.en")) == [(2, 0), (), (), (0,)]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["two dogs"], r"a\.conllu:6: a sentence beyond the 1 line of a\.en with words"),
        (["two dogs", "", "sleep", "well"], r"a\.conllu: ends after 2 sentences, but a\.en:4 has words too"),
        (["", "two small dogs", "sleep"], r"a\.conllu:2: a tree of 2 words, but a\.en:2 has 3 between spaces"),
    ],
)
def test_trees_of_another_text_are_refused(tmp_path, texts, message):
    path = write(tmp_path, conllu([("two dogs", (2, 0)), ("sleep", (0,))]))
    with pytest.raises(DataError, match=message):
        list(read_heads(texts, path, name="a.en"))


def test_message_states_the_number_of_written_words(tmp_path):
    path = write(tmp_path, row(1, 0, misc="SpaceAfter=No") + row(2, 1) + row(3, 1))
    with pytest.raises(DataError, match=r"a tree of 3 words \(2 as written\), but a\.en:1 has 4"):
        list(read_heads(["a b c d"], path, name="a.en"))


def test_reading_is_lazy(tmp_path):
    reading = read_heads(["a", "b"], write(tmp_path, row(1, 0) + "\nbroken\n"), name="a.en")
    assert next(reading) == (0,)
    with pytest.raises(DataError, match=r"a\.conllu:3"):
        next(reading)
