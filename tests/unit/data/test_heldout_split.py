"""The held-out part of a corpus."""

from dragoman.data.heldout_split import default_valid_size, split_hash, split_threshold
from dragoman.data.readers.parallel import Example


def corpus(size: int) -> list[Example]:
    return [Example(f"source {n}", f"target {n}", n + 1) for n in range(size)]


def held_out(examples: list[Example], *, size: int, seed: int) -> set[str]:
    last = split_threshold(examples, size=size, seed=seed)
    return {example.source for example in examples if split_hash(example, seed=seed) <= last}


def test_as_many_sources_are_held_out_as_asked():
    for size in (1, 7, 101, 500):
        assert len(held_out(corpus(500), size=size, seed=3)) == size
    assert len(held_out(corpus(5), size=7, seed=3)) == 5
    assert held_out([], size=3, seed=3) == set()


def test_the_draw_follows_the_seed_and_not_the_order():
    assert held_out(corpus(200), size=20, seed=3) == held_out(corpus(200)[::-1], size=20, seed=3)
    assert held_out(corpus(200), size=20, seed=3) != held_out(corpus(200), size=20, seed=5)


def test_copies_of_a_source_are_on_one_side_and_count_once():
    examples = corpus(100) + [Example(f" Source  {n}", "other", 200 + n) for n in range(100)]
    chosen = held_out(examples, size=10, seed=3)
    assert len(chosen) == 20
    assert len({" ".join(source.lower().split()) for source in chosen}) == 10


def test_the_usual_size():
    assert [default_valid_size(n) for n in (8, 100, 29_000, 40_000, 10**7)] == [1, 5, 1450, 2000, 2000]
