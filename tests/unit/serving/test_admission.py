"""Admission: requests at once, and the rate of each client."""

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving.access import admission
from dragoman.serving.access.admission import Admission, Client
from dragoman.serving.config import LimitsConfig
from dragoman.serving.http.errors import RequestError

ANNA, BERTA = Client("key anna", "DeepL"), Client("key berta", "DeepL")


def test_requests_above_the_limit_are_refused_until_one_ends():
    one = Admission(LimitsConfig(max_requests=2))
    with ExitStack() as entered:
        entered.enter_context(one.enter(ANNA))
        with one.enter(BERTA), pytest.raises(RequestError) as raised, one.enter(BERTA):
            pass
        assert (raised.value.status, raised.value.headers) == (503, {"Retry-After": "1"})
        assert one.active == 1
        with one.enter(BERTA):
            assert one.active == 2
    assert one.active == 0


def test_a_request_that_fails_leaves():
    one = Admission(LimitsConfig(max_requests=1))
    with pytest.raises(KeyError), one.enter(ANNA):
        raise KeyError
    assert one.active == 0


@given(st.integers(1, 7), st.lists(st.tuples(st.sampled_from([ANNA, BERTA]), st.floats(0, 30, width=32)), max_size=61))
def test_a_rate_counts_each_client_alone(most, asked):
    now, admitted = 0.0, {ANNA: [], BERTA: []}
    one = Admission(LimitsConfig(requests_per_minute=most), clock=lambda: now)
    for client, pause in asked:
        now += pause
        try:
            with one.enter(client):
                admitted[client].append(now)
        except RequestError as error:
            if error.status != 429:
                raise
    for times in admitted.values():
        for begin in times:  # those of a full bucket, and those that were added within the minute
            assert sum(begin <= time < begin + 60 for time in times) <= 2 * most


def test_a_client_may_come_back_after_the_time_that_it_is_told():
    now = 0.0
    one = Admission(LimitsConfig(requests_per_minute=2), clock=lambda: now)
    for _ in range(2):
        with one.enter(ANNA):
            pass
    with pytest.raises(RequestError) as raised, one.enter(ANNA):
        pass
    now += raised.value.retry_after or 0
    with one.enter(ANNA):
        pass


def test_rates_of_many_clients_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(admission, "MAX_CLIENTS", 5)
    one = Admission(LimitsConfig(requests_per_minute=1))
    for number in range(17):
        with one.enter(Client(str(number), "DeepL")):
            pass
    assert len(one._rate._tokens) == 5
