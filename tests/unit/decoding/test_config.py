"""What may be asked of a search, and what is refused."""

import pytest

from dragoman.config import parse
from dragoman.decoding import Average, Gnmt, LengthLimit, Raw, SearchSettings
from dragoman.errors import ConfigError


@pytest.mark.parametrize(
    ("limit", "source_length", "expected"),
    [
        (LengthLimit(factor=2.0, offset=20, absolute=2000), 7, 34),
        (LengthLimit(factor=1.5, offset=0, absolute=2000), 7, 10),
        (LengthLimit(factor=2.0, offset=20, absolute=31), 7, 31),
        (LengthLimit(factor=0.0, offset=0, absolute=5), 7, 1),
        (LengthLimit(factor=0.0, offset=13, absolute=50), 1000, 13),
    ],
)
def test_the_limit_follows_the_source_up_to_the_absolute_bound(limit, source_length, expected):
    assert limit.of(source_length) == expected


def test_a_minimum_is_never_above_the_limit():
    settings = SearchSettings(minimum_length=11, maximum_length=LengthLimit(factor=1.0, offset=0))
    assert settings.limit(3) == 11
    assert settings.limit(13) == 13


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"beam": 2, "best": 3}, "best = 3 is more than a beam of 2 can return; raise beam to 3"),
        ({"beam": 0}, "beam = 0: input should be greater than 0"),
        ({"minimum_length": 2001}, "minimum_length = 2001 is above maximum_length.absolute = 2000"),
        ({"beem": 5}, "beem: no such key. Did you mean beam?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tree, message):
    with pytest.raises(ConfigError) as caught:
        parse(SearchSettings, tree)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"kind": "average"}, Average(alpha=1.0)),
        ({"kind": "gnmt"}, Gnmt(alpha=0.6)),
        ({"kind": "raw"}, Raw()),
    ],
)
def test_the_normalisation_is_chosen_by_its_kind(tree, expected):
    assert parse(SearchSettings, {"normalisation": tree}).normalisation == expected
