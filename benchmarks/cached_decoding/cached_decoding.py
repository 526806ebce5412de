"""Time beam search with a key-value cache and a plain loop without one, on the same sentences.

    python -m benchmarks.cached_decoding.cached_decoding RUN --source FILE --lines 1000 --beam 5

The plain loop is the reference beam search of the tests. Both and `dragoman translate` alternate on the same batches.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.decoding import DecodingConfig, Hypothesis
from dragoman.inference import Translator
from dragoman.inference.length_batches import batch_by_length
from dragoman.models.special_symbols import EOS, PAD
from tests.plain_beam_search import plain_beam_search


def plain_translations(translator: Translator, texts: list[str], settings: DecodingConfig) -> list[Hypothesis]:
    """Return the best hypothesis for each text by the plain loop, in the batches of the translator."""
    ids = translator.tokenizer.source.encode_batch(texts)
    best: dict[int, Hypothesis] = {}
    for rows in batch_by_length([len(row) + 1 for row in ids], batch_tokens=translator.batch_tokens):
        sources = [torch.tensor([*ids[row], EOS]) for row in rows]
        found = plain_beam_search(
            translator.model,
            pad_sequence(sources, batch_first=True, padding_value=PAD).to(translator.device),
            torch.tensor([len(source) for source in sources], device=translator.device),
            limits=[settings.output_limit(len(ids[row])) for row in rows],
            settings=settings,
        )
        best |= {row: hypotheses[0] for row, hypotheses in zip(rows, found, strict=True)}
    return [best[row] for row in range(len(texts))]


def time_task(task: Callable[[], list[Hypothesis]]) -> tuple[float, list[Hypothesis]]:
    """Return the seconds and the result of a task."""
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def time_command(run: Path, texts: list[str], beam: int, device: str | None) -> float:
    """Return the seconds of `dragoman translate`, from the start of Python to the last line on disk."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source.txt"
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        command = [sys.executable, "-m", "dragoman", "translate", str(run), "--input", str(source)]
        command += ["--output", str(Path(folder) / "target.txt"), "--beam", str(beam), "--length-penalty", "1"]
        command += [] if device is None else ["--device", device]
        start = time.perf_counter()
        subprocess.run(command, check=True)
        return time.perf_counter() - start


def summarize(seconds: list[float], hypotheses: list[Hypothesis]) -> dict[str, object]:
    """Return the seconds of every round, and the tokens a second of the fastest."""
    tokens = sum(one.length for one in hypotheses)
    return {
        "seconds": [round(one, 3) for one in seconds],
        "tokens": tokens,
        "tokens_per_second": round(tokens / min(seconds)),
    }


def main() -> None:
    """Time the programs on the same sentences, alternating, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device")
    parser.add_argument("--output", type=Path, help="results file to write")
    arguments = parser.parse_args()

    from dragoman.runs.load import load_torch_model

    translator = load_torch_model(arguments.run, device=arguments.device)
    settings = DecodingConfig(beam_size=arguments.beam)
    texts = [text for _, text in islice(read_lines(arguments.source), arguments.lines) if text.strip()]
    programs = {
        "cached": lambda: [found[0].hypothesis for found in translator.translate(texts, settings)],
        "plain": lambda: plain_translations(translator, texts, settings),
    }
    translator.translate(texts[:17], beam_size=arguments.beam)  # the first call of each kernel is slower
    seconds: dict[str, list[float]] = {"cached": [], "plain": [], "command": []}
    hypotheses: dict[str, list[Hypothesis]] = {}
    for _ in range(arguments.rounds):
        for name, program in programs.items():
            took, hypotheses[name] = time_task(program)
            seconds[name].append(took)
        seconds["command"].append(time_command(arguments.run, texts, arguments.beam, arguments.device))
    same = sum(a.tokens == b.tokens for a, b in zip(hypotheses["cached"], hypotheses["plain"], strict=True))
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
        "device": str(translator.device),
        "torch": torch.__version__,
        "load_average": os.getloadavg(),
        "sentences": len(texts),
        "beam": arguments.beam,
        "same_output": same,
        "cached": summarize(seconds["cached"], hypotheses["cached"]),
        "plain": summarize(seconds["plain"], hypotheses["plain"]),
        "command": summarize(seconds["command"], hypotheses["cached"]),
        "times_faster": round(min(seconds["plain"]) / min(seconds["cached"]), 2),
    }
    print(json.dumps(result, indent=2))
    if arguments.output is not None:
        update_results(arguments.output, result)


if __name__ == "__main__":
    main()
