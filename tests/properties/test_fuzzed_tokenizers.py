"""Damaged tokenizers of other programs give a tokenizer or an error of dragoman, at the import and with every text."""

import json
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dragoman.data.tokenizers import ImportedTokenizer, tokenizer_from_json, tokenizer_from_sentencepiece
from dragoman.errors import DragomanError
from tests.partner_tokenizers import JSON_KINDS, SENTENCEPIECE_KINDS, library, order_of, sentencepiece_model
from tests.properties.test_fuzzed_files import EDITS, TREE_EDITS, edit_bytes, edit_tree
from tests.property_settings import FULL

pytestmark = pytest.mark.slow

CASES = 2000 if FULL else 250
FUZZING = settings(max_examples=CASES, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
TEXTS = ("the dog", "", "Größe\n\t 12 😀 <unk></s>" + "x" * 40)
COMPONENTS: dict[str, list[dict[str, Any]]] = {
    "normalizer": [
        {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"},
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
        {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "StripAccents"}]},
    ],
    "pre_tokenizer": [
        {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False},
        {"type": "Digits", "individual_digits": True},
        {"type": "FixedLength", "length": 3},
        {"type": "CharDelimiterSplit", "delimiter": "a"},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    ],
    "decoder": [
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
        {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        {"type": "Replace", "pattern": {"String": "a"}, "content": ""},
    ],
}
replaced = st.sampled_from([(key, one) for key, some in COMPONENTS.items() for one in some])


def assert_usable_or_refused(build: Callable[[], ImportedTokenizer]) -> None:
    """Build a tokenizer and use everything that callers use, unless it is refused."""
    with suppress(DragomanError):
        assert_usable(build())


def assert_usable(side: ImportedTokenizer) -> None:
    for text in TEXTS:
        ids = side.encode(text)
        assert all(0 <= index < len(side) for index in ids)
        side.ids_to_tokens(ids)
        side.encode_with_offsets(text)
        side.missing_units(text, ids)
        decoder = side.streaming_decoder()
        assert "".join(map(decoder.add, ids)) + decoder.finish() == side.decode(ids)


@pytest.mark.parametrize("kind", JSON_KINDS)
@FUZZING
@given(edits=TREE_EDITS, component=replaced, place=st.sampled_from(["component", "model", "whole"]))
def test_changed_json_is_used_or_refused(kind: str, edits: Any, component: Any, place: str) -> None:
    tree = json.loads(library(kind).to_str())
    key, one = component
    if place == "component":
        tree[key] = edit_tree(deepcopy(one), edits)
    elif place == "model":
        tree[key] = one
        tree["model"] = edit_tree(tree["model"], edits)
    else:
        tree = edit_tree(tree, edits)
    assert_usable_or_refused(lambda: tokenizer_from_json(json.dumps(tree), order=order_of(library(kind))))


@pytest.mark.parametrize("kind", ["byte_level", "unigram"])
@FUZZING
@given(edits=EDITS)
def test_changed_bytes_of_json_are_used_or_refused(kind: str, edits: Any) -> None:
    content = edit_bytes(library(kind).to_str().encode(), edits)
    assert_usable_or_refused(lambda: tokenizer_from_json(content, order=order_of(library(kind))))


@pytest.mark.parametrize("kind", SENTENCEPIECE_KINDS)
@FUZZING
@given(edits=EDITS, at_end=st.booleans())
def test_changed_sentencepiece_is_used_or_refused(kind: str, edits: Any, at_end: bool) -> None:
    content = sentencepiece_model(**SENTENCEPIECE_KINDS[kind])
    kept = len(content) - 600 if at_end else 0  # the settings follow the pieces
    assert_usable_or_refused(
        lambda: tokenizer_from_sentencepiece(content[:kept] + edit_bytes(content[kept:], edits), order=[-1, *range(60)])
    )
