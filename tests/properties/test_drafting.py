"""Greedy search with guesses finds what it finds without, to the last bit; needs `dragoman-cpu`."""

import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dragoman
from dragoman.data.tokenizers import Tokenizer, Words
from dragoman.decoding import LengthLimit, SearchSettings
from dragoman.decoding.drafting import LEAST, TRIAL, DraftingSearch
from dragoman.errors import ConfigError
from dragoman.inference import TranslationWarning, Translator
from dragoman.inference.backends.drafted import NOTHING, ByNetwork, Copying, Drafted
from dragoman.models.weights import save_tensors, weights
from dragoman.runs.load import load_in_pytorch
from dragoman.runs.shortlist import with_draft
from dragoman.tasks.factory import task_of
from tests.finished_runs import PAIRS, finished_run

pytest.importorskip("dragoman_cpu", reason="the compiled core is not installed")

WORDS = " ".join(PAIRS[0] + PAIRS[1]).split()
LIMIT = LengthLimit(factor=1, offset=5)
SETTINGS = [
    SearchSettings(beam=1, maximum_length=LIMIT),
    SearchSettings(beam=1, minimum_length=4, maximum_length=LIMIT),
    SearchSettings(beam=1, minimum_length=2, allow_unknown=False, maximum_length=LengthLimit(absolute=2)),
]
VOCABULARY = 20


class Fixed:
    """Guesses that were drawn before, whatever is written."""

    def __init__(self, guesses: Sequence[list[int]]) -> None:
        self.guesses = list(guesses)

    def propose(self, count: int) -> list[int]:
        return self.guesses.pop()[:count] if self.guesses else []

    def accept(self, tokens: Sequence[int]) -> None:
        assert len(tokens) >= 1


class Knowing(Fixed):
    """Guesses that are right, for as long as there is something to guess."""

    def __init__(self, output: Sequence[int]) -> None:
        self.left = list(output)

    def propose(self, count: int) -> list[int]:
        return self.left[:count]

    def accept(self, tokens: Sequence[int]) -> None:
        del self.left[: len(tokens)]


@pytest.fixture(scope="module", params=["float32", "bfloat16", "int8"])
def translator(request, tmp_path_factory) -> Translator:
    run = finished_run(tmp_path_factory.mktemp("runs") / "run", {"model": {"decoder_layers": 2}}).path
    return dragoman.load(run, device="cpu", compute=request.param)


@pytest.fixture(scope="module")
def smaller(tmp_path_factory) -> Translator:
    run = finished_run(tmp_path_factory.mktemp("runs") / "run", {"model": {"size": 6, "heads": 1}}).path
    return dragoman.load(run, device="cpu")


@pytest.fixture(autouse=True)
def silently():
    """What random networks write often reaches its limit, which these tests are not about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        yield


def texts(count: int, seed: int = 5) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, 13))) for _ in range(count)]


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.lists(st.integers(0, VOCABULARY), max_size=9), max_size=7), min_size=1, max_size=3),
    st.sampled_from(SETTINGS),
)
def test_no_guess_changes_an_output(translator, guesses, wanted):
    waiting = iter(guesses)
    lines = texts(len(guesses))
    guessing = translator.around(Drafted(translator.network, lambda source: Fixed(next(waiting))))
    assert guessing.hypotheses(lines, wanted) == translator.hypotheses(lines, wanted)


@pytest.mark.parametrize("wanted", SETTINGS)
@pytest.mark.parametrize("draft", ["copy", "smaller", "itself"])
def test_nor_does_a_draft_and_sentences_may_come_and_go(translator, smaller, draft, wanted):
    guessing = with_draft(translator, {"copy": None, "smaller": smaller, "itself": translator}[draft])
    lines = texts(23)
    expected = translator.hypotheses(lines, wanted)
    assert guessing.hypotheses(lines, wanted) == expected
    assert [guessing.hypotheses([line], wanted)[0] for line in lines] == expected
    with guessing.shared() as shared:
        assert shared.hypotheses(lines, wanted) == expected


def test_right_guesses_save_steps_and_all_of_them_count(translator):
    [line] = texts(1, seed=3)
    [[plain]] = translator.hypotheses([line], SETTINGS[0])
    guessing = Drafted(translator.network, lambda source: Knowing(plain.hypothesis.tokens))
    memory = guessing.encode([translator.tokenizer.source.encode(line)])
    search = DraftingSearch(guessing, settings=SETTINGS[0], symbols=translator._symbols)
    search.add(memory, limits=np.array([SETTINGS[0].limit(len(translator.tokenizer.source.encode(line)))]))
    steps, found = 0, {}
    while len(search):
        found |= search.step()
        steps += 1
    assert found == {0: [plain.hypothesis]}
    assert steps == -(-(len(plain.hypothesis.tokens) + 1) // 9)
    assert guessing.acceptance.accepted == guessing.acceptance.proposed > 0


def test_guesses_that_are_wrong_too_often_are_not_made_any_more(translator):
    guessing = Drafted(translator.network, lambda source: Fixed([[1] * 8] * 50))
    wrong = translator.around(guessing)
    lines = texts(40)
    assert wrong.hypotheses(lines, SETTINGS[0]) == translator.hypotheses(lines, SETTINGS[0])
    alone = [wrong.hypotheses([line], SETTINGS[0])[0] for line in lines]
    assert alone == translator.hypotheses(lines, SETTINGS[0])
    acceptance = guessing.acceptance
    assert not acceptance.pays
    assert acceptance.accepted < LEAST * acceptance.proposed
    assert TRIAL <= acceptance.proposed < TRIAL + 16


def test_a_network_guesses_its_own_outputs_rightly(translator):
    [source] = translator.tokenizer.source.encode_batch(texts(1))
    [[found]] = translator.hypotheses(texts(1), SETTINGS[0])
    draft = ByNetwork(translator.network, source)
    assert draft.propose(3) == list(found.hypothesis.tokens[:3])
    draft.accept(found.hypothesis.tokens[:2])
    assert draft.propose(4) == list(found.hypothesis.tokens[2:6])
    draft.accept([7, 7])  # something else came
    assert ByNetwork(translator.network, source).propose(2) == list(found.hypothesis.tokens[:2])


@pytest.mark.parametrize(
    ("source", "written", "guess"),
    [
        ([5, 6, 7, 8], [], []),
        ([5, 6, 7, 8], [9], []),
        ([5, 6, 7, 8], [9, 6], [7, 8, 3]),
        ([5, 6, 7, 6, 8], [6], [8, 3]),
        ([5, 6, 7, 6, 8], [5, 6], [7, 6, 8]),
        ([5, 6], [9, 8, 4, 9], [8, 4, 9]),
        ([5, 6, 7], [5, 6, 9, 1, 5, 6], [9, 1, 5]),
        ([5, 6, NOTHING, 7], [5], [6]),
    ],
)
def test_what_is_copied_goes_on_as_it_did_where_most_of_it_stood_before(source, written, guess):
    draft = Copying(source)
    for token in written:
        draft.accept([token])
    assert draft.propose(3) == guess


def test_a_draft_is_refused_where_it_cannot_be_verified_or_has_no_effect(translator, smaller, tmp_path):
    with pytest.raises(ConfigError, match="beam = 3: drafts are guesses about one output"):
        with_draft(translator).translate(["two dogs"], beam=3)
    slow: Any = load_in_pytorch(finished_run(tmp_path / "run").path, device="cpu")
    for pair in ((slow, None), (translator, slow)):
        with pytest.raises(ConfigError, match="drafts are for a single run that the compiled core computes"):
            with_draft(*pair)


def test_loading_by_name(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run").path
    plain, lines = dragoman.load(run, device="cpu"), texts(7)
    for draft in ("copy", run):
        guessing = dragoman.load(run, device="cpu", draft=draft)
        assert isinstance(guessing.network, Drafted)
        assert guessing.hypotheses(lines, SETTINGS[0]) == plain.hypotheses(lines, SETTINGS[0])


def test_what_is_copied_is_what_is_written_alike(tmp_path: Path) -> None:
    """Where source and target have vocabularies of their own."""
    folder = finished_run(tmp_path / "run", {"tokenizer": {"shared": False}, "model": {"tie": "none"}})
    tokenizer = Tokenizer.train(lambda: [*PAIRS, ("NATO sits .", "NATO sitzt .")], Words(shared=False))
    tokenizer.save(folder.tokenizer)
    network = task_of(folder.read_config()).network(folder, device=torch.device("cpu"))
    save_tensors(folder.weights, weights(network))
    plain, lines = dragoman.load(folder.path, device="cpu"), texts(7)
    guessing = dragoman.load(folder.path, device="cpu", draft="copy")
    assert guessing.hypotheses(lines, SETTINGS[0]) == plain.hypotheses(lines, SETTINGS[0])
    [draft] = guessing.network.encode(tokenizer.source.encode_batch(["NATO . cat"])).drafts
    draft.accept(tokenizer.target.encode("NATO"))
    assert draft.propose(5) == tokenizer.target.encode(".")


def test_a_smaller_network_says_nothing_of_sources_that_are_too_long_for_it(tmp_path):
    main = finished_run(tmp_path / "main").path
    limits = {"longest_source": 5, "longest_target": 5}
    few = {"model": {"positions": {"kind": "learned", "length": 6}}, "data": limits}
    smaller = finished_run(tmp_path / "smaller", few).path
    plain, guessed = (dragoman.load(main, device="cpu", draft=draft) for draft in (None, smaller))
    texts = ["two dogs play .", " ".join(WORDS[:9]), "a cat"]
    assert [one[0].hypothesis.tokens for one in guessed.hypotheses(texts, SETTINGS[0])] == [
        one[0].hypothesis.tokens for one in plain.hypotheses(texts, SETTINGS[0])
    ]


def test_who_asks_a_drafting_engine_for_a_beam_fails_alone(tmp_path):
    run = finished_run(tmp_path / "run").path
    with dragoman.load(run, device="cpu", draft="copy").shared() as everyone:
        with pytest.raises(ConfigError):
            everyone.hypotheses(["two dogs"], SearchSettings(beam=2))
        assert everyone.hypotheses(["two dogs"], SETTINGS[0])


def test_a_smaller_network_reads_no_source_before_it_is_asked_about_it(translator):
    """Where many sentences run together nothing is guessed, and reading each alone would be for nothing."""
    read = []

    class Reading:
        maximum_length = None

        def encode(self, sources):
            read.extend(sources)
            return translator.network.encode(sources)

        def __getattr__(self, name):
            return getattr(translator.network, name)

    draft = ByNetwork(Reading(), [4, 5, 6])
    draft.accept([7])
    assert read == []
    draft.propose(2)
    draft.accept([8])
    draft.propose(2)
    assert read == [[4, 5, 6]]
