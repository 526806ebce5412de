"""Whether a sentence's translation depends on its company: every sentence alone and in all the ways there are.

    python benchmarks/decode/company.py RUN --source FILE --output company.json

What is compared with the sentence alone, to the last bit of every log-probability: batches, any order, an engine whose
other callers join, leave and take requests back meanwhile, and the command from file to file as a process of its own;
in each precision, by each instruction set that the processor has. Needs the compiled core.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dragoman
from dragoman.cpu_library import INSTRUCTION_SET
from dragoman.data.readers import lines
from dragoman.decoding import Average, SearchSettings
from dragoman.inference import Translation, TranslationWarning, Translator
from dragoman.inference.backends.cpu_backend import instruction_sets
from dragoman.inference.engine import Engine, Request

COMPUTES = ("float32", "int8")
CALLERS = 3
"""Threads that share an engine."""
ROOM = 331
"""Source tokens in an engine's batch: few, so that sentences come and go all the time."""
Row = tuple[str, tuple[str, ...], float, float, tuple[float, ...]]
"""The text of a translation, its tokens, its score and log-probability, and those of its tokens."""


def in_batches(translator: Translator, texts: Sequence[str], settings: SearchSettings, *, size: int) -> list[Row]:
    """Translated `size` at a time, in their order; with a size of 1 every sentence is alone."""
    chunks = [texts[begin : begin + size] for begin in range(0, len(texts), size)]
    return [_row(found[0]) for chunk in chunks for found in translator.hypotheses(chunk, settings)]


def in_random_order(translator: Translator, texts: Sequence[str], settings: SearchSettings) -> list[Row]:
    """Translated all at once, in another order."""
    order = random.Random(2).sample(range(len(texts)), len(texts))
    found = translator.hypotheses([texts[place] for place in order], settings)
    rows = {place: _row(translations[0]) for place, translations in zip(order, found, strict=True)}
    return [rows[place] for place in range(len(texts))]


def through_an_engine(translator: Translator, texts: Sequence[str], settings: SearchSettings) -> list[Row]:
    """Asked for by several callers in small portions, while another asks for more and takes half of it back."""
    found: dict[int, Row] = {}
    with Engine(translator.network, room=ROOM) as engine:
        shared = Translator(translator.model, translator.tokenizer, engine=engine)

        def call(number: int) -> None:
            generator = random.Random(number)
            mine = generator.sample(range(number, len(texts), CALLERS), len(range(number, len(texts), CALLERS)))
            while mine:
                portion = [mine.pop() for _ in range(min(len(mine), generator.randint(1, 13)))]
                translated = shared.hypotheses([texts[place] for place in portion], settings)
                found.update({place: _row(one[0]) for place, one in zip(portion, translated, strict=True)})

        callers = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
        for caller in callers:
            caller.start()
        _disturb(engine, translator, texts, while_=lambda: any(caller.is_alive() for caller in callers))
    return [found[place] for place in range(len(texts))]


def _disturb(engine: Engine, translator: Translator, texts: Sequence[str], *, while_: Callable[[], bool]) -> None:
    """Ask for sentences by searches of other kinds, and take every second one back a little later."""
    generator = random.Random(5)
    others = [SearchSettings(beam=1), SearchSettings(beam=3, best=2)]
    ids = translator.tokenizer.source.encode_batch([text for text in texts if text][:97])
    while while_():
        requests = [
            Request(one, generator.choice(others), generator.randint(1, 31)) for one in generator.sample(ids, 5)
        ]
        answers = [engine.submit(request) for request in requests]
        time.sleep(0.001)
        for answer in answers[::2]:
            answer.cancel()
        for answer in answers[1::2]:
            answer.result()


def from_file(run: Path, texts: Sequence[str], settings: SearchSettings, *, compute: str) -> list[Row]:
    """Translated by `dragoman translate` from file to file; the process has this one's environment."""
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name, "source.txt"), Path(name, "target.jsonl")
        source.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        options = ["--compute", compute, "--beam", settings.beam, "--device", "cpu", "--format", "jsonl"]
        options += ["--max-length-factor", settings.maximum_length.factor]
        assert isinstance(settings.normalisation, Average), "a run's own may be another"
        options += ["--normalisation", "average", "--length-penalty", settings.normalisation.alpha]
        command = [sys.executable, "-m", "dragoman", "translate", run, "-i", source, "-o", target, *options]
        subprocess.run([str(part) for part in command], check=True)
        best = [json.loads(line)["translations"][0] for line in target.read_text(encoding="utf-8").splitlines()]
    return [
        (one["text"], tuple(one["tokens"]), one["score"], one["log_prob"], tuple(one["token_log_probs"]))
        for one in best
    ]


def compared(run: Path, texts: Sequence[str], settings: SearchSettings, *, compute: Any) -> dict[str, int]:
    """For every way, how many sentences are translated otherwise than alone, or with other numbers."""
    translator = dragoman.load(run, device="cpu", compute=compute)
    alone = in_batches(translator, texts, settings, size=1)
    ways = {
        "in batches of 7": in_batches(translator, texts, settings, size=7),
        "in batches of 64": in_batches(translator, texts, settings, size=64),
        "in random order": in_random_order(translator, texts, settings),
        "as others join and leave": through_an_engine(translator, texts, settings),
        "streamed": [_row(found[0]) for found in translator.stream(texts, settings, chunk=97)],
        "from file to file": from_file(run, texts, settings, compute=compute),
    }
    return {way: sum(one != other for one, other in zip(alone, rows, strict=True)) for way, rows in ways.items()}


def everywhere(run: Path, texts: Sequence[str], settings: SearchSettings) -> Iterator[dict[str, Any]]:
    """What `compared` gives in each precision, by each instruction set of this processor."""
    before = os.environ.get(INSTRUCTION_SET)
    try:
        for compute in COMPUTES:
            for name in instruction_sets():
                os.environ[INSTRUCTION_SET] = name
                different = compared(run, texts, settings, compute=compute)
                yield {"compute": compute, "instruction_set": name, "different": different}
    finally:
        os.environ.pop(INSTRUCTION_SET)
        if before is not None:
            os.environ[INSTRUCTION_SET] = before


def _row(one: Translation) -> Row:
    found = one.hypothesis
    return one.text, one.tokens, found.score, found.log_prob, found.token_log_probs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    texts = [text for _, text in lines(given.source)]
    warnings.simplefilter("ignore", TranslationWarning)
    results: list[dict[str, Any]] = []
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "sentences": len(texts),
        "beam": given.beam,
        "results": results,
    }
    for result in everywhere(given.run, texts, SearchSettings(beam=given.beam)):
        print(json.dumps(result), flush=True)
        results.append(result)
        if given.output is not None:
            given.output.write_text(json.dumps(report, indent=2) + "\n")
    return int(any(count for result in results for count in result["different"].values()))


if __name__ == "__main__":
    sys.exit(main())
