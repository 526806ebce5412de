"""Language pairs of several models, one after the other."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving.served_models import _reachable_pairs

PAIRS = st.frozensets(st.tuples(*[st.sampled_from("abcde")] * 2).filter(lambda pair: pair[0] != pair[1]))


@given(st.lists(PAIRS, max_size=3))
def test_pairs_are_those_of_one_or_two_models(sets):
    direct = {pair for pairs in sets for pair in pairs}
    through = {(a, d) for a, b in direct for c, d in direct if b == c and a != d}
    assert _reachable_pairs([SimpleNamespace(pairs=pairs) for pairs in sets]) == direct | through


def test_pairs_of_two_hundred_languages():
    codes = [str(number) for number in range(200)]
    pairs = frozenset((a, b) for a in codes for b in codes if a != b)
    assert _reachable_pairs([SimpleNamespace(pairs=pairs)]) == pairs
