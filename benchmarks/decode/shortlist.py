"""What a shortlist costs in BLEU and gains in time: on a trained run, and a large vocabulary of random weights.

    taskset -c 0 python benchmarks/decode/shortlist.py RUN --sizes 100:10 500:20 --output shortlist.json
    taskset -c 0 python benchmarks/decode/shortlist.py --random 500:20 --output base.json

A size is FREQUENT:EACH, words that are candidates always and words for each token of a source. With a run, its
validation and test sets are translated in int8 on one core road, with all words and with each shortlist in turn, and
scored; with --random a `base` model (6+6 layers, 512/2048, 32,000 words) is timed, whose candidates are as many as the
size makes for 24 source tokens. Seconds are those of the processor, so that others on the machine count little; on one
core, or threads that wait for one another would count as work.
"""

import argparse
import json
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import core_steps
import dragoman_cpu as cpu
import numpy as np

import dragoman
from dragoman.data.preprocessing.prepare import prepare
from dragoman.data.readers import read
from dragoman.data.shortlist import ShortlistSettings, learn_shortlist
from dragoman.decoding import SearchSettings
from dragoman.evaluation import corpus_score
from dragoman.evaluation.metrics import Bleu
from dragoman.inference import Translator
from dragoman.runs.folder import RunFolder
from dragoman.runs.shortlist import shortlisted
from dragoman.tasks.prepared_data import cache_folder

FULL = "all words"
Texts = list[tuple[str, str]]


def settings_of(size: str) -> ShortlistSettings:
    frequent, each = size.split(":")
    return ShortlistSettings(frequent=int(frequent), each=int(each))


def timed(translator: Translator, texts: Texts, settings: SearchSettings) -> tuple[float, list[str]]:
    """Seconds, and the translations."""
    began = time.process_time()
    found = translator.hypotheses([source for source, _ in texts], settings)
    return time.process_time() - began, [row[0].text for row in found]


def one_by_one(translator: Translator, texts: Texts, settings: SearchSettings) -> float:
    """Seconds for texts that come one after the other."""
    began = time.process_time()
    for source, _ in texts:
        translator.hypotheses([source], settings)
    return time.process_time() - began


def compared(translators: dict[str, Translator], texts: Texts, *, beam: int, rounds: int) -> dict[str, dict[str, Any]]:
    """BLEU, agreement with all words, and seconds (the median of rounds in turn) of each."""
    settings = SearchSettings(beam=beam)
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    alone: dict[str, list[float]] = {name: [] for name in translators}
    outputs: dict[str, list[str]] = {}
    for _ in range(rounds):
        for name, translator in translators.items():
            took, outputs[name] = timed(translator, texts, settings)
            seconds[name].append(took)
            alone[name].append(one_by_one(translator, texts[:100], settings))
    normalise = translators[FULL].tokenizer.target.normalise
    references = [[normalise(target) for _, target in texts]]
    return {
        name: {
            "bleu": round(corpus_score(outputs[name], references, Bleu()).value, 2),
            "as_with_all_words": sum(a == b for a, b in zip(outputs[name], outputs[FULL], strict=True)),
            "sentences": len(texts),
            "seconds": round(statistics.median(seconds[name]), 3),
            "milliseconds_alone": round(10 * statistics.median(alone[name]), 2),
        }
        for name in translators
    }


def on_a_run(run: Path, sizes: list[str], *, beams: list[int], rounds: int, lines: int | None) -> dict[str, Any]:
    experiment = RunFolder(run).read_config()
    full: Translator = dragoman.load(run, device="cpu", compute="int8")
    pairs = list(prepare(experiment.data, cache_folder(), seed=experiment.training.seed).train.pairs())
    translators, candidates = {FULL: full}, {}
    sets = {
        name: [(example.source, example.target) for example in read(corpus)][:lines]
        for name, corpus in (("valid", experiment.data.valid), ("test", experiment.data.test))
    }
    encoded = full.tokenizer.source.encode_batch([source for source, _ in sets["valid"]])
    for size in sizes:
        began = time.process_time()
        shortlist, _ = learn_shortlist(pairs, full.tokenizer, settings_of(size))
        took = time.process_time() - began
        translators[size] = shortlisted(full, shortlist)
        numbers = [len(shortlist.candidates(ids)) for ids in encoded]
        candidates[size] = {"mean_candidates": round(statistics.mean(numbers)), "seconds_to_learn": round(took, 1)}
    return {
        "run": run.name,
        "words": len(full.tokenizer.target),
        "shortlists": candidates,
        "results": [
            {"set": name, "beam": beam, "by_size": compared(translators, texts, beam=beam, rounds=rounds)}
            for name, texts in sets.items()
            for beam in beams
        ],
    }


def decoded(model: cpu.Model, sentences: int, beam: int, candidates: int | None) -> float:
    """Milliseconds of reading the sources, gathering their candidates, and all steps."""
    generator = np.random.default_rng(1)
    ids = generator.integers(4, model.vocabulary, size=(sentences, core_steps.SOURCE), dtype=np.int32)
    lists = None
    if candidates is not None:
        lists = [np.sort(generator.permutation(model.vocabulary)[:candidates]) for _ in range(sentences)]
    began = time.process_time()
    memory = model.encode(ids, np.full(sentences, core_steps.SOURCE), candidates=lists)
    state = model.start(memory, beam)
    tokens = np.full((sentences, beam), 2, np.int32)
    for _ in range(core_steps.TARGET):
        _, best, state = model.best(tokens, memory, state, 2 * beam if beam > 1 else 1)
        tokens = np.ascontiguousarray(best[:, :, 0])
    return 1e3 * (time.process_time() - began)


def on_random_weights(size: str, *, rounds: int, tiny: bool) -> dict[str, Any]:
    sizes = core_steps.TINY if tiny else core_steps.Sizes()
    settings = settings_of(size)
    number = min(settings.frequent + settings.each * core_steps.SOURCE, sizes.vocabulary)
    model = cpu.Model(core_steps.configuration(sizes), core_steps.random_weights(sizes), compute="int8")
    rows = []
    for sentences, beam in ((1, 1), (1, 4), (32, 1), (32, 4), (64, 4)):
        times: dict[int | None, list[float]] = {None: [], number: []}
        for _ in range(rounds + 1):
            for candidates, found in times.items():
                found.append(decoded(model, sentences, beam, candidates))
        full, short = (statistics.median(found[1:]) for found in times.values())
        row = {"sentences": sentences, "beam": beam, "all_words_ms": round(full, 2), "shortlist_ms": round(short, 2)}
        rows.append(row | {"times_faster": round(full / short, 2)})
    return {"words": sizes.vocabulary, "candidates": number, "threads": model.threads, "results": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--sizes", nargs="+", default=["1000:50"])
    parser.add_argument("--beams", type=int, nargs="+", default=[5])
    parser.add_argument("--random", metavar="SIZE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, help="of each set, to see that this runs")
    parser.add_argument("--tiny", action="store_true", help="a tiny model for --random, to see that this runs")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "instruction_set": cpu.instruction_sets()[0],
    }
    if asked.run is not None:
        options = {"beams": asked.beams, "rounds": asked.rounds, "lines": asked.lines}
        result |= on_a_run(asked.run, asked.sizes, **options)
    if asked.random is not None:
        result["random"] = on_random_weights(asked.random, rounds=asked.rounds, tiny=asked.tiny)
    text = json.dumps(result, indent=2)
    print(text)
    if asked.output is not None:
        asked.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
