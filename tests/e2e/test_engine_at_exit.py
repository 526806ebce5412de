"""A process ends cleanly while its engine decodes."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from dragoman.decoding import DecodingConfig
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.inference.engine_thread import Engine, RequestRunner
from dragoman.inference.scheduler import Request
from dragoman.models.config import EncoderDecoderConfig
from tests.forked_processes import run_in_forks
from tests.random_models import random_transformer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")]


def test_process_ends_while_the_engine_decodes() -> None:
    command = [sys.executable, "-m", "tests.e2e.test_engine_at_exit", "20"]
    root = Path(__file__).parents[2]
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""


def end_while_the_engine_decodes(number: int) -> None:
    """Submit requests that take minutes, to an engine of its own or by a coroutine, and end the program."""
    config = EncoderDecoderConfig(d_model=32, num_heads=4, d_ff=64, encoder_layers=2, decoder_layers=2)
    backend = TorchBackend(random_transformer(config, source_vocabulary=50, target_vocabulary=50))
    requests = [Request([5] * 30, DecodingConfig(beam_size=8, min_length=2_000), limit=2_000) for _ in range(8)]
    if number % 2:
        asyncio.run(leave_a_call(RequestRunner(backend, batch_tokens=1_000), requests))
    else:
        engine = Engine(backend)
        for request in requests:
            engine.submit(request)
        time.sleep(0.05 + 0.003 * number)


async def leave_a_call(runner: RequestRunner, requests: list[Request]) -> None:
    call = asyncio.create_task(runner.run_async(requests))
    await asyncio.sleep(0.1)
    assert not call.done()


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_in_forks(end_while_the_engine_decodes, int(sys.argv[1]))
