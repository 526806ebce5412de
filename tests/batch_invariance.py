"""Translate the same sentences alone and in every kind of batch, and compare the results."""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dragoman
from dragoman.cpu_library import INSTRUCTION_SET
from dragoman.decoding import DecodingConfig
from dragoman.inference import Translation, Translator
from dragoman.inference.backends.cpu_backend import instruction_sets
from dragoman.inference.engine_thread import Engine
from dragoman.inference.scheduler import Request

COMPUTE_TYPES = ("float32", "int8")
CALLERS = 3
"""Threads that share an engine."""
MAX_TOKENS = 331
"""Source tokens in an engine's batch: few, so that requests join and leave at every step."""
Row = tuple[str, tuple[str, ...], float, float, tuple[float, ...]]
"""Text, tokens, score, log-probability and token log-probabilities of a translation."""


def in_batches(translator: Translator, texts: Sequence[str], settings: DecodingConfig, *, size: int) -> list[Row]:
    """Translate in batches of `size`, in order; with a size of 1 every sentence is alone."""
    chunks = [texts[start : start + size] for start in range(0, len(texts), size)]
    return [_row(found[0]) for chunk in chunks for found in translator.translate(chunk, settings)]


def in_random_order(translator: Translator, texts: Sequence[str], settings: DecodingConfig) -> list[Row]:
    """Translate all at once, in random order."""
    order = random.Random(2).sample(range(len(texts)), len(texts))
    found = translator.translate([texts[index] for index in order], settings)
    rows = {index: _row(translations[0]) for index, translations in zip(order, found, strict=True)}
    return [rows[index] for index in range(len(texts))]


def in_engine(translator: Translator, texts: Sequence[str], settings: DecodingConfig) -> list[Row]:
    """Translate by several threads that share an engine, while another thread submits and cancels requests."""
    found: dict[int, Row] = {}
    with Engine(translator.backend, max_tokens=MAX_TOKENS) as engine:
        shared = Translator(translator.model, translator.tokenizer)
        shared.runner.run = engine.run  # type: ignore[method-assign]

        def call(number: int) -> None:
            generator = random.Random(number)
            own = generator.sample(range(number, len(texts), CALLERS), len(range(number, len(texts), CALLERS)))
            while own:
                batch = [own.pop() for _ in range(min(len(own), generator.randint(1, 13)))]
                translated = shared.translate([texts[index] for index in batch], settings)
                found.update({index: _row(one[0]) for index, one in zip(batch, translated, strict=True)})

        callers = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
        for caller in callers:
            caller.start()
        _submit_and_cancel(engine, translator, texts, running=lambda: any(caller.is_alive() for caller in callers))
    return [found[index] for index in range(len(texts))]


def _submit_and_cancel(
    engine: Engine, translator: Translator, texts: Sequence[str], *, running: Callable[[], bool]
) -> None:
    """Submit requests with other decoding options, and cancel every second one."""
    generator = random.Random(5)
    options = [DecodingConfig(beam_size=1), DecodingConfig(beam_size=3, n_best=2)]
    ids = translator.tokenizer.source.encode_batch([text for text in texts if text][:97])
    while running():
        requests = [
            Request(one, generator.choice(options), generator.randint(1, 31)) for one in generator.sample(ids, 5)
        ]
        answers = [engine.submit(request) for request in requests]
        time.sleep(0.001)
        for answer in answers[::2]:
            answer.cancel()
        for answer in answers[1::2]:
            answer.result()


def from_file(run: Path, texts: Sequence[str], settings: DecodingConfig, *, compute_type: str) -> list[Row]:
    """Translate by `dragoman translate` from file to file, in a process with the environment of this one."""
    penalty = settings.penalty
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name, "source.txt"), Path(name, "target.jsonl")
        source.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        options = ["--compute-type", compute_type, "--beam", settings.beam_size, "--device", "cpu", "--format", "jsonl"]
        options += ["--max-length-ratio", settings.max_length_ratio]
        options += ["--length-penalty-kind", penalty.kind, "--length-penalty", penalty.alpha]
        command = [sys.executable, "-m", "dragoman", "translate", run, "-i", source, "-o", target, *options]
        subprocess.run([str(part) for part in command], check=True)
        best = [json.loads(line)["translations"][0] for line in target.read_text(encoding="utf-8").splitlines()]
    return [
        (one["text"], tuple(one["tokens"]), one["score"], one["log_prob"], tuple(one["token_log_probs"]))
        for one in best
    ]


def count_differences(
    run: Path, texts: Sequence[str], settings: DecodingConfig, *, compute_type: Any
) -> dict[str, int]:
    """Return for every way how many sentences differ from the sentence alone, in text or numbers."""
    translator = dragoman.load(run, dragoman.Translator, device="cpu", compute_type=compute_type)
    alone = in_batches(translator, texts, settings, size=1)
    found = {
        "in batches of 7": in_batches(translator, texts, settings, size=7),
        "in batches of 64": in_batches(translator, texts, settings, size=64),
        "in random order": in_random_order(translator, texts, settings),
        "by an engine with concurrent requests": in_engine(translator, texts, settings),
        "streamed": [_row(found[0]) for found in translator.translate_stream(texts, settings, chunk=97)],
        "from file to file": from_file(run, texts, settings, compute_type=compute_type),
    }
    return {way: sum(one != other for one, other in zip(alone, rows, strict=True)) for way, rows in found.items()}


def compare_everywhere(run: Path, texts: Sequence[str], settings: DecodingConfig) -> Iterator[dict[str, Any]]:
    """Yield `count_differences` for each compute type and each instruction set of this processor."""
    previous = os.environ.get(INSTRUCTION_SET)
    try:
        for compute_type in COMPUTE_TYPES:
            for name in instruction_sets():
                os.environ[INSTRUCTION_SET] = name
                different = count_differences(run, texts, settings, compute_type=compute_type)
                yield {"compute_type": compute_type, "instruction_set": name, "different": different}
    finally:
        os.environ.pop(INSTRUCTION_SET)
        if previous is not None:
            os.environ[INSTRUCTION_SET] = previous


def _row(one: Translation) -> Row:
    found = one.hypothesis
    return one.text, one.tokens, found.score, found.log_prob, found.token_log_probs
