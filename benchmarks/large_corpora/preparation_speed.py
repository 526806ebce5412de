"""Measure cleaning and tokenizing next to SentencePiece, and the engines of `data prepare`.

    python -m benchmarks.large_corpora.preparation_speed sentencepiece DATA
    python -m benchmarks.large_corpora.preparation_speed engines '/tmp/corpus/synthetic.0[01]' \
        --tokenizer tokenizer.json --work /tmp/engines

Both tokenizers train 8,000 entries on the same lines, both sides of Multi30k and Tatoeba, and encode them; tasks
alternate and the best time of each counts. `engines` times whole commands with one process and with Ray, and compares
their files. The commands write to results.json. Needs sentencepiece, and ray for `engines`.
"""

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sentencepiece

from benchmarks.collect_runs import read_results, update_results
from dragoman.data.cleaning_rules import CleaningConfig, CleaningReport, passes_pair_rules
from dragoman.data.preprocessing.cleaning_tasks import ReadTask, read_blocks
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.parallel import ParallelFiles, read_corpus
from dragoman.data.tokenizers import BpeConfig, Tokenizer, UnigramConfig

RESULTS = Path(__file__).parent / "results.json"
VOCABULARY = 8000
CHUNK = 8192
"""Lines that are encoded at a time."""
FILES = {"multi30k/train.en.gz": "multi30k/train.de.gz", "tatoeba/deu-eng/train.en.gz": "tatoeba/deu-eng/train.de.gz"}
ENGINES = {"single": ["--engine", "single"], "ray, 2 workers": ["--engine", "ray", "--workers", "2"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    peer, engines = commands.add_parser("sentencepiece"), commands.add_parser("engines")
    peer.set_defaults(run_command=sentencepiece_command)
    peer.add_argument("data", type=Path, help="folder with multi30k and tatoeba")
    peer.add_argument("--task", choices=["cleaning", "training", "encoding"], action="append")
    peer.add_argument("--repeats", type=int, default=3)
    engines.set_defaults(run_command=engines_command)
    engines.add_argument("corpus", help="beginning of the file names, or a pattern in quotes")
    engines.add_argument("--tokenizer", type=Path, required=True)
    engines.add_argument("--work", type=Path, required=True)
    engines.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    arguments.run_command(arguments)


def sentencepiece_command(arguments: argparse.Namespace) -> None:
    """Compare cleaning and tokenizing with SentencePiece."""
    result = read_results(RESULTS).get("sentencepiece", {})
    lines = [text for one in read_corpus(corpus_files(arguments.data)) for text in (one.source, one.target)]
    result |= {"cores": os.cpu_count(), "sentencepiece": sentencepiece.__version__, "lines": len(lines)}
    threads = int(os.environ.get("RAYON_NUM_THREADS", os.cpu_count() or 1))
    for task in arguments.task or ["cleaning", "training", "encoding"]:
        if task == "cleaning":
            result[task] = measure_cleaning(arguments.data, arguments.repeats)
        for kind in ("bpe", "unigram"):
            if task == "training":
                result[f"training, {kind}"] = measure_training(lines, kind, arguments.repeats)
            if task == "encoding":
                result[f"encoding, {kind}, {threads} threads"] = measure_encoding(
                    lines, kind, threads, arguments.repeats
                )
        update_results(RESULTS, {"sentencepiece": result})
    print(json.dumps(result, indent=1))


def corpus_files(folder: Path) -> ParallelFiles:
    names = {str(side): [folder / name for name in names] for side, names in enumerate((FILES, FILES.values()))}
    return ParallelFiles(source=tuple(names["0"]), target=tuple(names["1"]))


def best_seconds(tasks: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the least seconds of each task, alternating."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    return {name: min(times) for name, times in seconds.items()}


def train_sentencepiece(lines: list[str], kind: str) -> sentencepiece.SentencePieceProcessor:
    """Train SentencePiece with its defaults except for size, byte fallback and logging."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=VOCABULARY,
        model_type=kind,
        byte_fallback=True,
        num_threads=os.cpu_count(),
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def measure_cleaning(folder: Path, repeats: int) -> dict[str, int]:
    """Return pairs a second, read from compressed files."""
    corpus = corpus_files(folder)
    pairs = sum(1 for _ in read_corpus(corpus))

    def in_blocks() -> None:
        with tempfile.TemporaryDirectory() as blocks:
            read_blocks(ReadTask(0, corpus, Path(blocks), CleaningConfig(), (), 1, {}))

    tasks: dict[str, Callable[[], object]] = {
        "reading alone": lambda: sum(1 for _ in read_corpus(corpus, ReadWarnings())),
        "reading and rules": lambda: sum(
            passes_pair_rules(example, CleaningConfig(), report=CleaningReport()) for example in read_corpus(corpus)
        ),
        "reading, rules and hashes in blocks on disk": in_blocks,
    }
    return {name: round(pairs / seconds) for name, seconds in best_seconds(tasks, repeats).items()} | {"pairs": pairs}


def measure_training(lines: list[str], kind: str, repeats: int) -> dict[str, float]:
    """Return lines a second of training a tokenizer."""
    config = BpeConfig(vocab_size=VOCABULARY) if kind == "bpe" else UnigramConfig(vocab_size=VOCABULARY)
    tasks: dict[str, Callable[[], object]] = {
        "dragoman": lambda: Tokenizer.train_on_texts(lambda: lines, config),
        "sentencepiece": lambda: train_sentencepiece(lines, kind),
    }
    return {name: round(len(lines) / seconds) for name, seconds in best_seconds(tasks, repeats).items()}


def measure_encoding(lines: list[str], kind: str, threads: int, repeats: int) -> dict[str, float]:
    """Return lines a second of encoding, and ids a line."""
    config = BpeConfig(vocab_size=VOCABULARY) if kind == "bpe" else UnigramConfig(vocab_size=VOCABULARY)
    side = Tokenizer.train_on_texts(lambda: lines[::7], config).source
    other = train_sentencepiece(lines[::7], kind)
    chunks = [lines[start : start + CHUNK] for start in range(0, len(lines), CHUNK)]
    counts = {}

    def ours() -> None:
        counts["dragoman"] = sum(len(ids) for chunk in chunks for ids in side.encode_batch(chunk))

    def sentencepiece_ids() -> None:
        encoded = (other.encode(chunk, out_type=int, num_threads=threads) for chunk in chunks)
        counts["sentencepiece"] = sum(len(ids) for chunk in encoded for ids in chunk)

    seconds = best_seconds({"dragoman": ours, "sentencepiece": sentencepiece_ids}, repeats)
    speeds = {name: round(len(lines) / took) for name, took in seconds.items()}
    return speeds | {f"{name}, ids a line": round(count / len(lines), 2) for name, count in counts.items()}


def engines_command(arguments: argparse.Namespace) -> None:
    """Time `dragoman data prepare` with one process and with Ray."""
    result: dict[str, object] = {"cores": os.cpu_count()}
    sides = [f"--{side}={arguments.corpus}.{side}.gz" for side in ("source", "target")]
    digests, seconds = {}, {name: [] for name in ENGINES}
    for _ in range(arguments.repeats):
        for name, options in ENGINES.items():
            shutil.rmtree(arguments.work, ignore_errors=True)
            arguments.work.mkdir(parents=True)
            start = time.monotonic()
            command = [sys.executable, "-m", "dragoman", "data", "prepare", *sides, *options]
            out = arguments.work / "prepared"
            subprocess.run([*command, "--tokenizer", str(arguments.tokenizer), "--out", str(out)], check=True)
            seconds[name].append(round(time.monotonic() - start, 1))
            digests[name] = hash_files(out)
            index = json.loads((out / "index.json").read_text(encoding="utf-8"))
            result |= {"lines": index["report"]["read"], "kept": index["report"]["kept"]}
    result |= {"seconds": seconds, "same files": len(set(digests.values())) == 1}
    update_results(RESULTS, {"engines": result})
    print(result)


def hash_files(folder: Path) -> str:
    """Return a hash of all files of a folder and of their names."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return whole.hexdigest()


if __name__ == "__main__":
    main()
