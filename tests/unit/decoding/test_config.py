"""Decoding configuration: derived values and refused combinations."""

import pytest

from dragoman.config import parse
from dragoman.decoding import DecodingConfig, LengthPenalty, SamplingConfig
from dragoman.decoding.config import replace_options
from dragoman.errors import ConfigError


@pytest.mark.parametrize(
    ("ratio", "offset", "most", "source_length", "expected"),
    [(2.0, 20, 2000, 7, 34), (1.5, 0, 2000, 7, 10), (2.0, 20, 31, 7, 31), (0.0, 0, 5, 7, 1), (0.0, 13, 50, 1000, 13)],
)
def test_output_limit_follows_the_source_up_to_max_length(ratio, offset, most, source_length, expected):
    config = DecodingConfig(max_length_ratio=ratio, max_length_offset=offset, max_length=most)
    assert config.output_limit(source_length) == expected


def test_output_limit_is_at_least_min_length():
    config = DecodingConfig(min_length=11, max_length_ratio=1.0, max_length_offset=0)
    assert config.output_limit(3) == 11
    assert config.output_limit(13) == 13


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"beam_size": 2, "n_best": 3}, "n_best = 3 is more than a beam of 2 returns; raise beam_size to 3"),
        ({"beam_size": 0}, "beam_size = 0: must be at least 1"),
        ({"min_length": 2001}, "min_length = 2001 is above max_length = 2000"),
        ({"beem_size": 5}, "beem_size: no such key. Did you mean beam_size?"),
        ({"length_penalty_kind": "none", "length_penalty": 1.0}, "length_penalty = 1.0 has no effect"),
        ({"length_penalty": -0.5}, "length_penalty = -0.5 is negative"),
        ({"length_penalty": 21}, "length_penalty = 21: must be at most 20"),
    ],
)
def test_invalid_options_are_refused(tree, message):
    with pytest.raises(ConfigError) as caught:
        parse(DecodingConfig, tree)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({}, LengthPenalty("average", 1.0)),
        ({"length_penalty": 1.4}, LengthPenalty("average", 1.4)),
        ({"length_penalty_kind": "gnmt"}, LengthPenalty("gnmt", 0.6)),
        ({"length_penalty_kind": "none"}, LengthPenalty("none", 0.0)),
    ],
)
def test_default_exponent_depends_on_the_kind(tree, expected):
    assert parse(DecodingConfig, tree).penalty == expected


def test_options_replace_the_configuration():
    own = DecodingConfig(beam_size=2, n_best=2, max_length_ratio=0.5, length_penalty=0.3)
    assert replace_options(own, {"beam_size": None}) == own
    assert replace_options(own, {"beam_size": 4}) == own.model_copy(update={"beam_size": 4})
    limited = replace_options(own, {"max_length_offset": 7, "length_penalty_kind": "none"})
    assert (limited.max_length_ratio, limited.max_length_offset) == (0.5, 7)
    assert limited.penalty == LengthPenalty("none", 0.0)
    assert replace_options(SamplingConfig(top_k=3), {"seed": 5}) == SamplingConfig(top_k=3, seed=5)
    with pytest.raises(ConfigError, match="translate: n_best = 2 is more than a beam of 1"):
        replace_options(own, {"beam_size": 1}, where="translate")


def test_equal_options_of_other_types_are_validated():
    assert replace_options(DecodingConfig(), {"beam_size": 1}).beam_size == 1
    for invalid in (True, "1", [1]):
        with pytest.raises(ConfigError, match="beam_size"):
            replace_options(DecodingConfig(), {"beam_size": invalid})


def test_description_has_what_reproduces_outputs():
    assert DecodingConfig().describe() == "beam_size 5, length_penalty 1.0, length_penalty_kind average"
    changed = DecodingConfig(beam_size=3, length_penalty_kind="gnmt", min_length=2, allow_unk=False)
    found = changed.describe()
    assert found == "beam_size 3, length_penalty 0.6, length_penalty_kind gnmt, min_length 2, allow_unk False"
    assert DecodingConfig(length_penalty_kind="none").describe() == "beam_size 5, length_penalty_kind none"
