"""What is wrong is refused at the door, with a message that names it."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from native.tests import models
from native.tests.models import cpu

IDS, LENGTHS = models.texts(3)
Call = Callable[[Any, Any, Any], Any]
WORDS = models.tokens(3, 2)

CALLS: dict[str, tuple[Call, str]] = {
    "a token beyond the vocabulary": (lambda c, m, s: c.step(WORDS + models.VOCABULARY, m, s), "vocabulary of 197"),
    "a token below zero": (lambda c, m, s: c.step(WORDS - 300, m, s), "token -"),
    "a token of 64 bits": (lambda c, m, s: c.step(WORDS + 2**40, m, s), "beyond all ids"),
    "tokens that are fractions": (lambda c, m, s: c.step(WORDS + 0.5, m, s), "whole numbers"),
    "tokens of another beam": (lambda c, m, s: c.step(WORDS[:, :1], m, s), "beams of 2"),
    "tokens of other sentences": (lambda c, m, s: c.best(WORDS[:2], m, s, 3), "2 x 2"),
    "tokens in one row": (lambda c, m, s: c.step(WORDS[0], m, s), "2 axes"),
    "a source beyond the vocabulary": (lambda c, m, s: c.encode(IDS + 197, LENGTHS), "vocabulary of 197"),
    "a length of zero": (lambda c, m, s: c.encode(IDS, LENGTHS * 0), "length of 0"),
    "a length below zero": (lambda c, m, s: c.encode(IDS, -LENGTHS), "length of -"),
    "a length beyond the width": (lambda c, m, s: c.encode(IDS, LENGTHS + 37), "37 places"),
    "lengths of other rows": (lambda c, m, s: c.encode(IDS, LENGTHS[:2]), "2 lengths for 3 rows"),
    "no beam": (lambda c, m, s: c.start(m, 0), "beam = 0"),
    "a beam below zero": (lambda c, m, s: c.start(m, -1), "beam = -1"),
    "an endless beam": (lambda c, m, s: c.start(m, 2**40), "beam = 1099511627776"),
    "no best": (lambda c, m, s: c.best(WORDS, m, s, 0), "k = 0"),
    "more best than there are": (lambda c, m, s: c.best(WORDS, m, s, 198), "k = 198"),
    "more best than are allowed": (lambda c, m, s: c.best(WORDS, m, s, 196, [3, 5]), "195"),
    "a forbidden token that is none": (lambda c, m, s: c.best(WORDS, m, s, 1, [197]), "forbidden token 197"),
    "a parent beyond the beam": (lambda c, m, s: s.select(WORDS * 0 + 2), "parent 2"),
    "a parent below zero": (lambda c, m, s: s.select(WORDS * 0 - 1), "parent -1"),
    "parents of other sentences": (lambda c, m, s: s.select([[0]]), "1 x 1"),
    "no parents": (lambda c, m, s: s.select(np.empty((3, 0), int)), "one hypothesis"),
    "a row that is not there": (lambda c, m, s: s.keep([3]), "row 3 of 3"),
    "a row below zero": (lambda c, m, s: m.keep([-1]), "row -1 of 3"),
    "beams of other widths": (lambda c, m, s: s.join(c.start(m, 3)), "beams of 2 and 3"),
    "a state of fewer sentences": (lambda c, m, s: c.step(WORDS[:1], m, s.keep([0])), "3 sentences, and the state 1"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["transformer", "causal"])
def test_a_wrong_call_is_refused_and_leaves_the_model_as_it_was(kind: str, name: str) -> None:
    call, said = CALLS[name]
    core = models.model(kind)
    memory = core.encode(IDS, LENGTHS)
    state = core.start(memory, 2)
    before = core.cached_places
    with pytest.raises((ValueError, IndexError), match=said):
        call(core, memory, state)
    assert core.cached_places == before
    logits, _ = core.step(WORDS, memory, state)
    assert np.isfinite(logits).all()


def test_what_belongs_to_another_model_is_refused() -> None:
    one, other = models.model(), models.model()
    memory, foreign = one.encode(IDS, LENGTHS), other.encode(IDS, LENGTHS)
    state = one.start(memory, 2)
    calls: list[Callable[[], Any]] = [
        lambda: one.start(foreign, 2),
        lambda: one.step(WORDS, foreign, state),
        lambda: other.step(WORDS, foreign, state),
        lambda: memory.join(foreign),
        lambda: state.join(other.start(foreign, 2)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="model"):
            call()


def changed(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[models.Weights], Any]:
    def act(weights: models.Weights) -> None:
        weights[name] = change(weights[name])

    return act


EMBEDDING, QUERY = "source_embedding.tokens.weight", "encoder.0.attention.query.weight"
WEIGHTS: dict[str, tuple[Callable[[models.Weights], Any], str]] = {
    "one missing": (lambda w: w.pop(QUERY), f"no {QUERY}"),
    "one too many": (lambda w: w.update(surplus=w[QUERY]), "surplus"),
    "another shape": (changed(QUERY, lambda x: x[:, :-1]), "66 x 65"),
    "another number of axes": (changed(QUERY, lambda x: x[0]), "is 66,"),
    "not a number": (changed(QUERY, lambda x: np.where(x == x[3, 5], np.nan, x).astype(np.float32)), "not finite"),
    "infinite": (changed("encoder_norm.bias", lambda x: x / np.float32(0)), "not finite"),
    "double precision": (changed(QUERY, lambda x: x.astype(np.float64)), "float64"),
    "int8 without factors": (changed(QUERY, lambda x: cpu.quantise(x)[0]), f"no {QUERY}_scale"),
    "a bias in int8": (changed("unembedding.bias", lambda x: x.astype(np.int8)), "must be float32 or bfloat16"),
    "a tied weight that differs": (
        lambda w: w.update({"unembedding.weight": w[EMBEDDING] + np.float32(1)}),
        "differ",
    ),
    "int8 of -128": (
        lambda w: w.update({QUERY: np.full((66, 66), -128, np.int8), f"{QUERY}_scale": np.ones(66, np.float32)}),
        "-128",
    ),
    "a factor below zero": (
        lambda w: w.update({QUERY: np.ones((66, 66), np.int8), f"{QUERY}_scale": -np.ones(66, np.float32)}),
        "factors",
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, for the infinite ones
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_do_not_make_the_model_are_refused(name: str) -> None:
    act, said = WEIGHTS[name]
    made = models.config()
    arrays = models.weights(made)
    act(arrays)
    with pytest.raises(ValueError, match=said):
        cpu.Model(made, arrays, compute="int8", threads=1)


CONFIGURATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "heads that do not divide": ({"heads": 7}, "does not divide"),
    "no size": ({"size": 0}, "size = 0"),
    "a size below zero": ({"size": -4}, "size = -4"),
    "an endless size": ({"size": 2**40}, "size = 1099511627776"),
    "more layers than there are": ({"decoder_layers": 2**24}, "there is no decoder.16777215"),
    "a wider network than there is": ({"feed_forward": 2**24}, "83 x 66"),
    "a base below zero": (
        {"positions": {"kind": "rotary", "base": -1.0}, "heads": 3, "key_value_heads": 1},
        "above 0",
    ),
    "a size that is a word": ({"size": "large"}, "size = 'large'"),
    "an unknown activation": ({"activation": "tanh"}, "one of relu"),
    "an unknown key": ({"colour": 3}, "colour"),
    "another kind": ({"kind": "recurrent"}, "kind recurrent"),
    "vocabularies that cannot be tied": ({"source_vocabulary": 11}, "one vocabulary"),
    "buckets that are none": ({"positions": {"kind": "bucketed", "buckets": 6, "furthest": 9}}, "multiple of 4"),
    "positions without a kind": ({"positions": {}}, "no kind"),
    "positions that are a word": ({"positions": "alibi"}, "not of the kind"),
}


WHOLE, PRUNED = models.config(key_value_heads=None)["attention"], models.pruned()["attention"]
KEPT: dict[str, tuple[dict[str, Any], str]] = {
    "of one layer": (
        {"attention": WHOLE | {"encoder": WHOLE["encoder"] | {"kept": [[0, 1]]}}},
        "encoder.kept names no",
    ),
    "that are not there": ({"attention": WHOLE | {"decoder": WHOLE["decoder"] | {"kept": [[0], [6]]}}}, "decoder.kept"),
    "none": ({"attention": WHOLE | {"cross": WHOLE["cross"] | {"kept": [[0], []]}}}, "cross.kept"),
    "twice": ({"attention": WHOLE | {"cross": WHOLE["cross"] | {"kept": [[0], [1, 1]]}}}, "cross.kept"),
    "in no order": ({"attention": WHOLE | {"cross": WHOLE["cross"] | {"kept": [[0], [3, 1]]}}}, "cross.kept"),
    "below zero": ({"attention": WHOLE | {"cross": WHOLE["cross"] | {"kept": [[0], [-1]]}}}, "numbers of heads"),
    "no layers": ({"attention": WHOLE | {"cross": WHOLE["cross"] | {"kept": []}}}, "numbers of heads"),
    "words": ({"attention": WHOLE | {"cross": WHOLE["cross"] | {"kept": ["one", "two"]}}}, "numbers of heads"),
    "without those that share their keys": ({"attention": PRUNED, "key_value_heads": 3}, "2 to each of their keys"),
    "with the keys of two": (
        {"attention": PRUNED | {"decoder": WHOLE["decoder"] | {"kept": [[0, 3], [0, 1]]}}, "key_value_heads": 3},
        "2 to each of their keys",
    ),
    "other than the weights": ({"attention": PRUNED | {"cross": WHOLE["cross"]}}, "44 x 66"),
}


@pytest.mark.parametrize("name", KEPT)
def test_heads_that_cannot_be_left_are_refused(name: str) -> None:
    changes, said = KEPT[name]
    with pytest.raises(ValueError, match=said):
        cpu.Model(models.pruned() | changes, models.weights(models.pruned()), compute="int8")


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations_that_make_no_model_are_refused(name: str) -> None:
    changes, said = CONFIGURATIONS[name]
    with pytest.raises(ValueError, match=said):
        cpu.Model(models.config(**changes), models.weights(models.config()), compute="int8")


def test_options_that_there_are_not_are_refused() -> None:
    made = models.config()
    for options, said in (
        ({"compute": "int4"}, "int8, bfloat16 or float32"),
        ({"instruction_set": "sse9"}, "portable"),
        ({"threads": -1}, "threads = -1"),
        ({"threads": 10**6}, "threads = 1000000"),
    ):
        with pytest.raises(ValueError, match=said):
            cpu.Model(made, models.weights(made), **{"compute": "int8", **options})


def test_learned_positions_have_an_end() -> None:
    made = models.config(positions={"kind": "learned", "length": 11})
    arrays = models.weights(made)
    for side in ("source", "target"):
        arrays[f"{side}_embedding.positions.table.weight"] = np.ones((11, 66), np.float32)
    core = cpu.Model(made, arrays, compute="float32", threads=1)
    with pytest.raises(IndexError, match="position 36"):
        core.encode(IDS, [37, 1, 1])
    memory = core.encode(IDS, [11, 1, 1])
    state = core.start(memory, 2)
    for _ in range(11):
        _, state = core.step(WORDS, memory, state)
    with pytest.raises(IndexError, match="position 11"):
        core.step(WORDS, memory, state)


@pytest.mark.parametrize("compute", models.COMPUTES)
def test_weights_may_be_stored_in_any_of_the_three_ways(compute: str) -> None:
    """Weights that bfloat16 and int8 hold exactly give the same model however they are stored."""
    made = models.config()
    exact, halves, whole = models.weights(made), {}, {}
    for name, array in exact.items():
        rounded = array if array.ndim == 1 else np.rint(array * 100).clip(-127, 127).astype(np.float32)
        if array.ndim == 2:
            rounded[:, 0] = 127.0
            whole[name] = rounded.astype(np.int8)
            whole[f"{name}_scale"] = np.full(len(rounded), 2.0**-7, np.float32)
        else:
            rounded = (rounded.view(np.uint32) & 0xFFFF0000).view(np.float32)
            whole[name] = rounded
        exact[name] = rounded * np.float32(2.0**-7) if array.ndim == 2 else rounded
        halves[name] = (exact[name].view(np.uint32) >> 16).astype(np.uint16)
    results = []
    for arrays in (exact, halves, whole):
        core = cpu.Model(made, arrays, compute=compute, threads=1)
        memory = core.encode(IDS, LENGTHS)
        results.append(core.step(WORDS, memory, core.start(memory, 2))[0])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_many_threads_may_ask_at_once() -> None:
    core = models.model(threads=2)
    alone = [core.encode(IDS[[row]], LENGTHS[[row]]) for row in range(3)]
    expected = [core.step(WORDS[[row]], alone[row], core.start(alone[row], 2))[0] for row in range(3)]
    failed = []

    def ask(row: int) -> None:
        for _ in range(20):
            memory = core.encode(IDS[[row]], LENGTHS[[row]])
            state = core.start(memory, 2)
            logits, state = core.step(WORDS[[row]], memory, state)
            state = state.select([[1, 0, 1]]).keep([0])
            if not np.array_equal(logits, expected[row]):
                failed.append(row)

    threads = [threading.Thread(target=ask, args=(row,)) for row in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    del alone
    assert core.cached_places == 0
