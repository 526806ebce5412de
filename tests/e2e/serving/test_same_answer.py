"""The answer to a request does not depend on other requests."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.running_server import RunningServer
from tests.untrained_runs import PAIRS


@pytest.mark.slow
def test_answers_in_a_crowd_are_those_of_requests_alone(server: RunningServer):
    generator = random.Random(3)
    words = [word for source, _ in PAIRS for word in source.split()]
    requests = [
        {
            "q": [
                " ".join(generator.choices(words, k=generator.randint(1, 12))) for _ in range(generator.randint(1, 4))
            ],
            "source": "en",
            "target": generator.choice(["de", "fr"]),
            "alternatives": generator.randint(0, 2),
            "format": generator.choice(["text", "html"]),
        }
        for _ in range(60)
    ]
    alone = [server.post("/translate", one) for one in requests]
    assert {status for status, _ in alone} == {200}
    order = generator.sample(range(len(requests)), len(requests))
    with ThreadPoolExecutor(32) as pool:
        crowd = dict(zip(order, pool.map(lambda place: server.post("/translate", requests[place]), order), strict=True))
    assert [crowd[place] for place in range(len(requests))] == alone
