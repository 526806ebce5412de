"""Measure how long a small request waits next to large ones, in an engine and between threads.

    python -m benchmarks.fairness.fairness

The model has the size of Transformer base, with random weights, in int8 on the CPU library with one thread: outputs end
at their limit. Times are processor seconds of the process from sending the request to its result, which are those of a
clock on an idle core, so that other programs do not count. Writes results.json.
"""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from benchmarks.collect_runs import update_results
from dragoman.decoding import DecodingConfig
from dragoman.inference.backends.cpu_backend import THREADS, CpuBackend
from dragoman.inference.engine_thread import MAX_SHARED_BEAM_SIZE, Engine, RequestRunner
from dragoman.inference.length_batches import BATCH_TOKENS
from dragoman.inference.scheduler import Request
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.factory import build_encoder_decoder

RESULTS = Path(__file__).parent / "results.json"
VOCABULARY, REPEATS = 16_000, 10
GREEDY, BEAM = DecodingConfig(beam_size=1, min_length=12), DecodingConfig(beam_size=5, min_length=200)
SMALL = Request(tuple(range(10, 20)), GREEDY, 12)
LARGE = {
    "a beam of 100": [
        Request(tuple(range(10, 35)), DecodingConfig(beam_size=MAX_SHARED_BEAM_SIZE, min_length=200), 200)
    ],
    "a source of 500 tokens": [Request(tuple(range(10, 510)), BEAM, 200)],
    "1,000 sentences of 25 tokens": [Request(tuple(range(10, 35)), BEAM, 200) for _ in range(1000)],
    "1,000 sentences, same settings": [Request(tuple(range(10, 35)), GREEDY, 200) for _ in range(1000)],
}


def random_base_model() -> CpuBackend:
    """Return a model of random weights."""
    torch.manual_seed(0)
    config = EncoderDecoderConfig(
        d_model=512, num_heads=8, d_ff=2048, encoder_layers=6, decoder_layers=6, tie_embeddings="all"
    )
    model = build_encoder_decoder(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    sizes = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
    return CpuBackend(config.model_dump(), weights, compute_type="int8", **sizes)


@contextmanager
def busy_engine(engine: Engine, requests: list[Request]) -> Iterator[None]:
    """Keep an engine busy with a call, which is cancelled at the end."""
    call = object()
    results = [engine.submit(request, call=call) for request in requests]
    yield
    for result in results:
        result.cancel()


@contextmanager
def busy_thread(runner: RequestRunner, requests: list[Request]) -> Iterator[None]:
    """Keep a thread busy with calls, the last of which is stopped at the end."""
    stop = threading.Event()

    def run() -> None:
        jobs = itertools.takewhile(lambda _: not stop.is_set(), ([request] for request in itertools.cycle(requests)))
        for _ in runner.stream(jobs, ahead=len(requests)):
            if stop.is_set():
                return

    thread = threading.Thread(target=run)
    thread.start()
    yield
    stop.set()
    thread.join()


def times(send: Callable[[Request], Any]) -> dict[str, float]:
    """Return median and longest time of a small request."""
    found = []
    for _ in range(REPEATS):
        time.sleep(0.03)
        start = time.process_time()
        send(SMALL)
        found.append(time.process_time() - start)
    return {"median": round(sorted(found)[REPEATS // 2], 3), "longest": round(max(found), 3)}


def main() -> None:
    os.environ[THREADS] = "1"
    backend = random_base_model()
    results: dict[str, Any] = {}
    with Engine(backend, max_tokens=BATCH_TOKENS) as engine:
        results["alone"] = times(lambda request: engine.submit(request).result())
        for name, requests in LARGE.items():
            with busy_engine(engine, requests):
                results[f"engine: {name}"] = times(lambda request: engine.submit(request).result())
    runner = RequestRunner(backend, batch_tokens=BATCH_TOKENS)
    for name, requests in LARGE.items():
        shorter = [Request(one.ids, one.config.model_copy(update={"min_length": 50}), 50) for one in requests]
        with busy_thread(runner, shorter):
            results[f"threads: {name}"] = times(lambda request: runner.run([request]))
    update_results(RESULTS, {"processor_seconds": results})


if __name__ == "__main__":
    main()
