"""Programs that translate ids with the same weights, each in a process of its own with threads of its own."""

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
from typing import Any, Self, final

Output = tuple[list[int], float | None]
"""Ids, and the mean of their log-probabilities where the program gives it."""
Translate = Callable[[Sequence[Sequence[int]], int, int, bool], list[Output]]
"""Sources with their end symbols, beam, tokens of each output, and whether scores are wanted."""
PAUSE = 0.3
"""Seconds between two turns: OpenMP's threads look for work for 0.2 before they sleep, on cores that others need."""


@dataclass(frozen=True)
class Ours:
    """The compiled core, as `dragoman.load` gives it."""

    run: Path
    compute: str

    def load(self) -> Translate:
        import numpy as np

        import dragoman
        from dragoman.decoding import LengthLimit, SearchSettings, search
        from dragoman.models.special_symbols import Symbols

        network = dragoman.load(self.run, compute=self.compute).network

        def translate(sources: Sequence[Sequence[int]], beam: int, tokens: int, _scores: bool) -> list[Output]:
            limit = LengthLimit(factor=0, offset=tokens)
            settings = SearchSettings(beam=beam, minimum_length=tokens, maximum_length=limit)
            limits = np.full(len(sources), tokens)
            memory = network.encode([source[:-1] for source in sources])
            found = search(network, memory, limits=limits, settings=settings, symbols=Symbols())
            return [(list(best.tokens), best.score) for best, *_ in found]

        return translate


@dataclass(frozen=True)
class CTranslate2:
    """CTranslate2 with a number of translators side by side, and of threads for each."""

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

        from benchmarks.decode.partners import pegasus
        from dragoman.models.quantization import read_arrays

        torch.set_num_threads(self.threads)
        config = yaml.safe_load((self.run / "config.yaml").read_text(encoding="utf-8"))
        model = pegasus(config["model"], read_arrays(self.run / "model.safetensors"))

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


Program = Ours | CTranslate2 | HuggingFace


@final
class Running:
    """A program in a process of its own, which waits for work."""

    def __init__(self, program: Program) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=partial(_work, theirs, program), daemon=True)
        self._process.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join()

    def wait(self) -> None:
        """Until it is loaded."""
        self._ask(None)

    def __call__(
        self, sources: Sequence[Sequence[int]], *, beam: int, tokens: int, scores: bool = False, calls: int = 1
    ) -> tuple[float, list[Output]]:
        """Seconds that the program took, the median of so many calls, and what it found."""
        answer: tuple[float, list[Output]] = self._ask((calls, sources, beam, tokens, scores))
        time.sleep(PAUSE)
        return answer

    def _ask(self, what: Any) -> Any:
        self._pipe.send(what)
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _work(pipe: Connection, program: Program) -> None:
    try:
        translate = program.load()
    except Exception as error:
        pipe.send(error)
        raise
    while True:
        if (asked := pipe.recv()) is None:
            pipe.send(None)
            continue
        calls, *work = asked
        seconds = []
        for _ in range(calls):
            begun = time.perf_counter()
            found = translate(*work)
            seconds.append(time.perf_counter() - begun)
        pipe.send((statistics.median(seconds), found))
