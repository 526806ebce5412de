"""Properties of continuous batching: requests enter and leave a running search, and observers receive its steps."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.decoding import BeamSearch, DecodingConfig, OutputStart, SearchStep, build_search, run_search
from dragoman.inference.backends.torch_backend import TorchBackend
from tests.fake_models import SYMBOLS, PrefixModel, Sources
from tests.properties.test_beam_search import Problem, assert_same, networks, problems, run_beam, searches
from tests.tensor_search import device_memory


def held(rows: list[list[int]]) -> object:
    return device_memory(Sources(tuple(map(tuple, rows))))


@given(st.one_of(networks(), networks(levels=2)), problems(), searches(), st.data())
def test_admission_and_removal_change_no_result(
    network: PrefixModel, problem: Problem, wanted: DecodingConfig, data: st.DataObject
) -> None:
    rows, limits = problem
    searching = build_search(TorchBackend(network), config=wanted)
    waiting, inside, found = list(range(len(rows))), {}, {}
    while waiting or len(searching):
        entering = [waiting.pop() for _ in range(data.draw(st.integers(0 if inside else 1, 2))) if waiting]
        if entering:
            memory, most = held([rows[row] for row in entering]), np.array([limits[row] for row in entering])
            names = searching.add(memory, limits=most, starts=[OutputStart()] * len(entering))
            inside |= dict(zip(names, entering, strict=True))
        if len(inside) > 1 and data.draw(st.sampled_from([False, False, True])):
            name = data.draw(st.sampled_from(sorted(inside)))
            searching.remove([name])
            inside.pop(name)
        found |= {inside.pop(name): hypotheses for name, hypotheses in searching.step().items()}
        assert len(searching) == len(inside)
    for row, hypotheses in found.items():
        assert_same([hypotheses], run_alone(network, (rows[row], limits[row]), wanted))
    assert found


def run_alone(network: PrefixModel, sentence: tuple[list[int], int], wanted: DecodingConfig) -> list:
    source, limit = sentence
    return run_beam(network, ([source], [limit]), wanted)


class Replay:
    """Hypotheses reconstructed only from the observed steps."""

    def __init__(self) -> None:
        self.open: dict[int, list[tuple[tuple[int, ...], float]]] = {}
        self.set_aside = defaultdict(dict)
        self.over: set[int] = set()

    def on_step(self, step: SearchStep) -> None:
        for row, (name, age) in enumerate(zip(step.sentence_ids.tolist(), step.lengths.tolist(), strict=True)):
            assert name not in self.over
            mine = self.open.get(name, [((), 0.0)])
            assert all(len(tokens) == age for tokens, _ in mine)
            tokens, parents = step.candidates.tokens[row], step.candidates.parents[row]
            totals = step.candidates.log_probs[row]
            for place in step.finished[row].nonzero()[0]:
                assert tokens[place] == SYMBOLS.eos
                self.set_aside[name][mine[parents[place]][0], True] = float(totals[place])
            for place in step.cut_off[row].nonzero()[0]:
                self.set_aside[name][mine[place][0], False] = mine[place][1]
            possible = [place for place in step.continued[row] if totals[place] > -np.inf]
            self.open[name] = [
                ((*mine[parents[place]][0], int(tokens[place])), float(totals[place])) for place in possible
            ]
            if step.complete[row]:  # ranked with the finished ones if they are at their limit
                self.set_aside[name] |= {(tokens, False): total for tokens, total in self.open[name]}
        self.over |= set(step.sentence_ids[step.complete].tolist())


@given(networks(), problems(), searches())
def test_observed_steps_determine_the_tree(network: PrefixModel, problem: Problem, wanted: DecodingConfig) -> None:
    rows, limits = problem
    replay = Replay()
    searching = BeamSearch(TorchBackend(network), config=wanted, observer=replay)
    found = run_search(searching, held(rows), limits=np.array(limits))
    assert_same(found, run_beam(network, problem, wanted))
    assert replay.over == set(range(len(rows)))
    for row, hypotheses in enumerate(found):
        for one in hypotheses:
            assert replay.set_aside[row][one.tokens, one.finished] == pytest.approx(one.log_prob, abs=1e-4)
