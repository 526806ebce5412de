"""The batches that are looked at."""

import numpy as np
import pytest

from dragoman.data.batching.token_batches import pair_stream
from dragoman.data.datasets.parallel import TokenStore
from dragoman.profiling.batch_selection import SHARES, Pick, Picked, picked, picks_of, survey

BUDGET = 61


@pytest.fixture
def stream(tmp_path):
    generator = np.random.default_rng(1)
    pairs = [([5] * int(source), [7] * int(target)) for source, target in generator.integers(1, 23, size=(97, 2))]
    return pair_stream(TokenStore.build(tmp_path / "store", pairs), budget=BUDGET, seed=3)


def test_a_survey_weighs_every_batch_of_a_small_epoch(stream):
    loads = survey(stream)
    assert list(loads) == list(range(stream.batches_per_epoch()))
    assert max(load.target_places for load in loads.values()) <= BUDGET
    assert sum(load.written for load in loads.values()) == sum(
        picked(stream, Pick(index, 1)).target_count for index in loads
    )


def test_of_a_large_epoch_it_weighs_batches_from_everywhere(stream, monkeypatch):
    monkeypatch.setattr("dragoman.profiling.batch_selection.MOST_SURVEYED", 5)
    chosen = list(survey(stream))
    assert len(chosen) == 5
    assert (chosen[0], chosen[-1]) == (0, stream.batches_per_epoch() - 1)


def test_updates_grow_to_whole_batches_and_the_heaviest_comes_first(stream):
    loads = survey(stream)
    updates = picks_of(loads, accumulate=2, updates=29, seed=1)
    parts = [update[0].parts for update in updates]
    assert parts == sorted(parts, reverse=True)
    assert set(parts) == set(SHARES)
    assert {len(update) for update in updates} == {2}
    heaviest = max(load.places for load in loads.values())
    first_whole = updates[parts.index(1)][0]
    assert loads[first_whole.batch].places == heaviest
    spread = [loads[pick.batch].places for update in updates[-29:] for pick in update]
    assert np.mean(spread) == pytest.approx(np.mean([load.places for load in loads.values()]), rel=0.1)


def test_a_picked_stream_gives_its_picks_and_a_share_of_their_rows(stream):
    whole = [picked(stream, Pick(index, 1)) for index in (3, 1)]
    own = Picked(stream, [Pick(3, 1), Pick(1, 2)])
    first, second, again = next(own), next(own), next(own)
    assert first.rows.tolist() == again.rows.tolist() == whole[0].rows.tolist()
    assert second.rows.tolist() == whole[1].rows[::2].tolist()
    own.seek({"epoch": 0, "batch": 1})
    assert next(own).rows.tolist() == second.rows.tolist()
    assert own.position == {"epoch": 0, "batch": 2}
    assert own.batches_per_epoch() == 2
