"""Programs that translate token ids with the same weights, each in a process of its own."""

import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, final

Output = tuple[list[int], float | None]
"""Token ids, and the mean log-probability if the program returns it."""
Translate = Callable[[Sequence[Sequence[int]], int, int, bool], list[Output]]
"""Arguments: sources with EOS, beam size, tokens of each output, and whether to return scores."""
PAUSE = 0.3
"""Seconds between two calls: threads of OpenMP spin for 0.2 seconds before they sleep."""


@dataclass(frozen=True)
class Dragoman:
    """Dragoman's CPU backend, as `dragoman.load` returns it."""

    run: Path
    compute: Literal["float32", "bfloat16", "int8"]

    def load(self) -> Translate:
        import numpy as np

        import dragoman
        from dragoman.decoding import DecodingConfig, search

        backend = dragoman.load(self.run, dragoman.Translator, compute_type=self.compute).backend

        def translate(sources: Sequence[Sequence[int]], beam: int, tokens: int, _scores: bool) -> list[Output]:
            config = DecodingConfig(beam_size=beam, min_length=tokens, max_length=tokens)
            limits = np.full(len(sources), tokens)
            memory = backend.encode([source[:-1] for source in sources])
            found = search(backend, memory, limits=limits, config=config)
            return [(list(best.tokens), best.score) for best, *_ in found]

        return translate


@dataclass(frozen=True)
class CTranslate2:
    """CTranslate2 with a number of translators, and a number of threads for each."""

    model: Path
    compute: str
    inter: int = 1
    intra: int = 1

    def load(self) -> Translate:
        import ctranslate2

        model = ctranslate2.Translator(
            str(self.model), compute_type=self.compute, inter_threads=self.inter, intra_threads=self.intra
        )
        words = json.loads((self.model / "shared_vocabulary.json").read_text(encoding="utf-8"))
        numbers = {word: number for number, word in enumerate(words)}

        def translate(sources: Sequence[Sequence[int]], beam: int, tokens: int, scores: bool) -> list[Output]:
            found = model.translate_batch(
                [[words[number] for number in source] for source in sources],
                max_batch_size=-(-len(sources) // self.inter),
                beam_size=beam,
                min_decoding_length=tokens,
                max_decoding_length=tokens,
                return_scores=scores,
            )
            return [([numbers[word] for word in one.hypotheses[0]], one.scores[0] if scores else None) for one in found]

        return translate


@dataclass(frozen=True)
class HuggingFace:
    """Hugging Face's `generate` on PyTorch."""

    run: Path
    threads: int

    def load(self) -> Translate:
        import torch
        import yaml

        from dragoman.models.weight_quantization import load_arrays
        from tests.pegasus import pegasus

        torch.set_num_threads(self.threads)
        config = yaml.safe_load((self.run / "config.yaml").read_text(encoding="utf-8"))
        model = pegasus(config["model"], load_arrays(self.run / "model.safetensors"))

        @torch.inference_mode()
        def translate(sources: Sequence[Sequence[int]], beam: int, tokens: int, scores: bool) -> list[Output]:
            ids = torch.tensor(sources)
            answer = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                num_beams=beam,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
                return_dict_in_generate=True,
                output_scores=scores,
            )
            found = [row[1:] for row in answer.sequences.tolist()]
            numbers = answer.sequences_scores.tolist() if scores and beam > 1 else [None] * len(found)
            return list(zip(found, numbers, strict=True))

        return translate


Program = Dragoman | CTranslate2 | HuggingFace


@final
class RunningProgram:
    """A program in a process of its own, which waits for requests."""

    def __init__(self, program: Program) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=partial(_serve, child, program), daemon=True)
        self._process.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join()

    def wait(self) -> None:
        """Wait until the model is loaded."""
        self._request(None)

    def __call__(
        self, sources: Sequence[Sequence[int]], *, beam: int, tokens: int, scores: bool = False, calls: int = 1
    ) -> tuple[float, list[Output]]:
        """Return the median seconds of some calls, and the outputs."""
        answer: tuple[float, list[Output]] = self._request((calls, sources, beam, tokens, scores))
        time.sleep(PAUSE)
        return answer

    def _request(self, message: Any) -> Any:
        self._pipe.send(message)
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(pipe: Connection, program: Program) -> None:
    try:
        translate = program.load()
    except Exception as error:
        pipe.send(error)
        raise
    while True:
        if (request := pipe.recv()) is None:
            pipe.send(None)
            continue
        calls, *work = request
        seconds = []
        for _ in range(calls):
            start = time.perf_counter()
            found = translate(*work)
            seconds.append(time.perf_counter() - start)
        pipe.send((statistics.median(seconds), found))
