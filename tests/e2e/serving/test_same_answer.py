"""The answer to a request does not depend on other requests, and is that of the command line."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.running_server import RunningServer
from tests.small_runs import dragoman
from tests.untrained_runs import PAIRS

WORDS = [word for source, _ in PAIRS for word in source.split()]
MARKUP = ["<b>{}</b>", "<p>{} <code>x = 1</code></p>", '{} <img src="a.png"> & more', "<x>{}</x> <i>{}</i>"]
REQUESTS, CLIENTS = 1000, 64


@dataclass(frozen=True)
class Asked:
    """A request, and the text whose translation `dragoman translate` writes into one line; None for others."""

    path: str
    body: dict[str, Any]
    line: str | None = None


def sentence(generator: random.Random) -> str:
    return " ".join(generator.choices(WORDS, k=generator.randint(1, 12)))


def texts(generator: random.Random) -> list[str]:
    return [sentence(generator) for _ in range(generator.randint(1, 4))]


def marked_up(generator: random.Random) -> list[str]:
    return [generator.choice(MARKUP).format(one, sentence(generator)) for one in texts(generator)]


def build_request(generator: random.Random) -> Asked:
    target = generator.choice(["de", "fr"])
    pair = {"source": "en", "target": target}
    deepl = {"source_lang": "EN", "target_lang": target.upper()}
    match generator.randrange(7):
        case 0:
            return Asked("/translate", {"q": (one := sentence(generator)), **pair}, one if target == "de" else None)
        case 1:
            return Asked("/translate", {"q": texts(generator), "alternatives": generator.randint(0, 2), **pair})
        case 2:
            options = {"format": "html", "alternatives": generator.randint(0, 2)}
            return Asked("/translate", {"q": marked_up(generator), **options, **pair})
        case 3:
            return Asked("/v2/translate", {"text": marked_up(generator), "tag_handling": "xml", **deepl})
        case 4:
            return Asked("/v2/translate", {"text": texts(generator), "model_type": "latency_optimized", **deepl})
        case 5:
            n_best = generator.randint(1, 3)
            options = {"n_best": n_best, "beam_size": generator.randint(n_best, 6)}
            return Asked("/api/translate", {"texts": texts(generator), **options, **pair})
        case _:
            options = {"model": "story", "max_tokens": 7, "n": generator.randint(1, 3), "seed": generator.randint(0, 9)}
            return Asked("/v1/completions", {"prompt": sentence(generator)[:12], "temperature": 1, **options})


def answer(server: RunningServer, asked: Asked) -> bytes:
    """Return the body of an answer; without identifier and time, if it has any."""
    request = Request(server.url + asked.path, json.dumps(asked.body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=120) as response:
        content: bytes = response.read()
    return json.dumps(json.loads(content)["choices"]).encode() if asked.path.startswith("/v1") else content


@pytest.mark.slow
def test_answers_in_a_crowd_are_those_of_requests_alone(server: RunningServer, models: Path):
    generator = random.Random(3)
    requests = [build_request(generator) for _ in range(REQUESTS)]
    alone = [answer(server, one) for one in requests]
    order = generator.sample(range(REQUESTS), REQUESTS)
    with ThreadPoolExecutor(CLIENTS) as pool:
        crowd = dict(zip(order, pool.map(lambda place: answer(server, requests[place]), order), strict=True))
    assert [crowd[place] for place in range(REQUESTS)] == alone

    lines = {place: one.line for place, one in enumerate(requests) if one.line is not None}
    (models / "lines.txt").write_text("".join(f"{line}\n" for line in lines.values()))
    written = dragoman("translate", "en-de", "--input", "lines.txt", "--split", "sentences", cwd=models)
    translations = [json.loads(alone[place])["translatedText"] for place in lines]
    assert written.stdout.splitlines() == translations
