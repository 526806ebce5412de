"""Measure BLEU and time of lexical shortlists, on a trained run and on a large vocabulary with random weights.

    taskset -c 0 python -m benchmarks.shortlist.shortlist RUN --sizes 500:20 1000:50 --name raw
    taskset -c 0 python -m benchmarks.shortlist.shortlist --random 1000:50 --name base

A size is FREQUENT:EACH: tokens that are always candidates, and candidates for each source token. With a run, its
validation and test sets are translated in int8 on the CPU backend, with the full vocabulary and with each shortlist,
alternating. With `--random`, a `base` model is timed with as many candidates as the size gives for 24 source tokens.
Times are processor seconds on one core.
"""

import argparse
import json
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dragoman_cpu as cpu
import numpy as np

import dragoman
from benchmarks.collect_runs import update_results
from benchmarks.translation_speed.cpu_library_steps import SOURCE, TARGET, TINY, Sizes, build_config, random_weights
from dragoman.data.preprocessing.pipeline import prepare_data
from dragoman.data.readers.parallel import read_corpus
from dragoman.data.shortlist import ShortlistConfig, build_shortlist
from dragoman.decoding import DecodingConfig
from dragoman.evaluation import corpus_score
from dragoman.evaluation.metrics import Bleu
from dragoman.inference import Translator
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import apply_shortlist
from dragoman.tasks.task import cache_dir

FULL = "full vocabulary"
Texts = list[tuple[str, str]]


def parse_size(size: str) -> ShortlistConfig:
    frequent, each = size.split(":")
    return ShortlistConfig(frequent=int(frequent), per_token=int(each))


def time_translation(translator: Translator, texts: Texts, settings: DecodingConfig) -> tuple[float, list[str]]:
    """Return the processor seconds and the translations."""
    start = time.process_time()
    found = translator.translate([source for source, _ in texts], settings)
    return time.process_time() - start, [row[0].text for row in found]


def time_one_by_one(translator: Translator, texts: Texts, settings: DecodingConfig) -> float:
    """Return the processor seconds for texts one by one."""
    start = time.process_time()
    for source, _ in texts:
        translator.translate([source], settings)
    return time.process_time() - start


def compare(translators: dict[str, Translator], texts: Texts, *, beam: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Return BLEU, agreement with the full vocabulary and median seconds of each translator."""
    settings = DecodingConfig(beam_size=beam)
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    alone: dict[str, list[float]] = {name: [] for name in translators}
    outputs: dict[str, list[str]] = {}
    for _ in range(rounds):
        for name, translator in translators.items():
            took, outputs[name] = time_translation(translator, texts, settings)
            seconds[name].append(took)
            alone[name].append(time_one_by_one(translator, texts[:100], settings))
    references = [[target for _, target in texts]]
    return {
        name: {
            "bleu": round(corpus_score(outputs[name], references, Bleu()).value, 2),
            "as_with_full_vocabulary": sum(a == b for a, b in zip(outputs[name], outputs[FULL], strict=True)),
            "sentences": len(texts),
            "seconds": round(statistics.median(seconds[name]), 3),
            "milliseconds_alone": round(10 * statistics.median(alone[name]), 2),
        }
        for name in translators
    }


def measure_run(run: Path, sizes: list[str], *, beams: list[int], rounds: int, lines: int | None) -> dict[str, Any]:
    experiment = RunFolder(run).read_config()
    full: Translator = dragoman.load(run, device="cpu", compute_type="int8")
    pairs = list(prepare_data(experiment.data, cache_dir(), seed=experiment.training.seed).train)
    translators, candidates = {FULL: full}, {}
    sets = {
        name: [(example.source, example.target) for example in read_corpus(corpus)][:lines]
        for name, corpus in (("valid", experiment.data.valid), ("test", experiment.data.test))
    }
    encoded = full.tokenizer.source.encode_batch([source for source, _ in sets["valid"]])
    for size in sizes:
        start = time.process_time()
        shortlist, _ = build_shortlist(pairs, full.tokenizer, parse_size(size))
        took = time.process_time() - start
        translators[size] = apply_shortlist(full, shortlist)
        numbers = [len(shortlist.tokens_for(ids)) for ids in encoded]
        candidates[size] = {"mean_candidates": round(statistics.mean(numbers)), "seconds_to_train": round(took, 1)}
    return {
        "run": run.name,
        "words": len(full.tokenizer.target),
        "shortlists": candidates,
        "results": [
            {"set": name, "beam": beam, "by_size": compare(translators, texts, beam=beam, rounds=rounds)}
            for name, texts in sets.items()
            for beam in beams
        ],
    }


def decode(model: cpu.Model, sentences: int, beam: int, candidates: int | None) -> float:
    """Return the milliseconds of the encoder, of collecting candidates, and of all steps."""
    generator = np.random.default_rng(1)
    ids = generator.integers(4, model.vocabulary, size=(sentences, SOURCE), dtype=np.int32)
    lists = None
    if candidates is not None:
        lists = [np.sort(generator.permutation(model.vocabulary)[:candidates]) for _ in range(sentences)]
    start = time.process_time()
    memory = model.encode(ids, np.full(sentences, SOURCE), shortlists=lists)
    state = model.start(memory, beam)
    tokens = np.full((sentences, beam), 2, np.int32)
    for _ in range(TARGET):
        _, best, state = model.top_k(tokens, memory, state, 2 * beam if beam > 1 else 1)
        tokens = np.ascontiguousarray(best[:, :, 0])
    return 1e3 * (time.process_time() - start)


def measure_random_model(size: str, *, rounds: int, tiny: bool) -> dict[str, Any]:
    sizes = TINY if tiny else Sizes()
    settings = parse_size(size)
    number = min(settings.frequent + settings.per_token * SOURCE, sizes.vocabulary)
    model = cpu.Model(build_config(sizes), random_weights(sizes), compute_type="int8")
    rows = []
    for sentences, beam in ((1, 1), (1, 4), (32, 1), (32, 4), (64, 4)):
        times: dict[int | None, list[float]] = {None: [], number: []}
        for _ in range(rounds + 1):
            for candidates, found in times.items():
                found.append(decode(model, sentences, beam, candidates))
        full, short = (statistics.median(found[1:]) for found in times.values())
        row = {
            "sentences": sentences,
            "beam": beam,
            "full_vocabulary_ms": round(full, 2),
            "shortlist_ms": round(short, 2),
        }
        rows.append(row | {"times_faster": round(full / short, 2)})
    return {"words": sizes.vocabulary, "candidates": number, "threads": model.num_threads, "results": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--sizes", nargs="+", default=["1000:50"])
    parser.add_argument("--beams", type=int, nargs="+", default=[5])
    parser.add_argument("--random", metavar="SIZE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, help="lines of each set, to test the script")
    parser.add_argument("--tiny", action="store_true", help="a tiny model for --random, to test the script")
    parser.add_argument("--name", required=True, help="entry of results.json")
    arguments = parser.parse_args()
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "instruction_set": cpu.instruction_sets()[0],
    }
    if arguments.run is not None:
        options = {"beams": arguments.beams, "rounds": arguments.rounds, "lines": arguments.lines}
        result |= measure_run(arguments.run, arguments.sizes, **options)
    if arguments.random is not None:
        result["random"] = measure_random_model(arguments.random, rounds=arguments.rounds, tiny=arguments.tiny)
    print(json.dumps(result, indent=2))
    update_results(Path(__file__).parent / "results.json", {arguments.name: result})


if __name__ == "__main__":
    main()
