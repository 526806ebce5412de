"""Lines a second of cleaning, of learning a vocabulary and of turning text into ids, beside SentencePiece.

Both learn 8,000 entries from the same lines, both sides of Multi30k and Tatoeba, and turn them into ids. Each work is
done in turns, and the best time of each counts.

    python benchmarks/corpora/speed.py DATA --out speed.json      (needs sentencepiece)
"""

import argparse
import io
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sentencepiece

from dragoman.data.cleaning import Cleaning, Report, clean
from dragoman.data.preprocessing.blocks import ReadTask, read_part
from dragoman.data.readers import ParallelFiles, Repairs, read
from dragoman.data.tokenizers import Bpe, Tokenizer, Unigram

VOCABULARY = 8000
CHUNK = 8192
FILES = {"multi30k/train.en.gz": "multi30k/train.de.gz", "tatoeba/deu-eng/train.en.gz": "tatoeba/deu-eng/train.de.gz"}


def corpus_in(folder: Path) -> ParallelFiles:
    names = {str(side): [folder / name for name in names] for side, names in enumerate((FILES, FILES.values()))}
    return ParallelFiles(source=tuple(names["0"]), target=tuple(names["1"]))


def best(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The least seconds of each, done in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    return {name: min(times) for name, times in seconds.items()}


def spm(lines: list[str], kind: str) -> sentencepiece.SentencePieceProcessor:
    """A model of SentencePiece, learnt with its own settings but for size, bytes and silence."""
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


def cleaning(folder: Path, repeats: int) -> dict[str, int]:
    """Pairs a second, read from compressed files."""
    corpus = corpus_in(folder)
    pairs = sum(1 for _ in read(corpus))

    def in_blocks() -> None:
        with tempfile.TemporaryDirectory() as blocks:
            read_part(ReadTask(0, corpus, Path(blocks), Cleaning(), (), 1))

    works: dict[str, Callable[[], object]] = {
        "reading alone": lambda: sum(1 for _ in read(corpus, Repairs())),
        "reading, rules and duplicates in memory": lambda: sum(
            1 for _ in clean(read(corpus), Cleaning(), report=Report())
        ),
        "reading, rules and hashes in blocks on disk": in_blocks,
    }
    return {name: round(pairs / seconds) for name, seconds in best(works, repeats).items()} | {"pairs": pairs}


def learning(lines: list[str], kind: str, repeats: int) -> dict[str, float]:
    """Lines a second."""
    settings = Bpe(vocabulary=VOCABULARY) if kind == "bpe" else Unigram(vocabulary=VOCABULARY)
    works: dict[str, Callable[[], object]] = {
        "dragoman": lambda: Tokenizer.train_on_texts(lambda: lines, settings),
        "sentencepiece": lambda: spm(lines, kind),
    }
    return {name: round(len(lines) / seconds) for name, seconds in best(works, repeats).items()}


def encoding(lines: list[str], kind: str, threads: int, repeats: int) -> dict[str, float]:
    """Lines a second, and ids a line."""
    settings = Bpe(vocabulary=VOCABULARY) if kind == "bpe" else Unigram(vocabulary=VOCABULARY)
    side = Tokenizer.train_on_texts(lambda: lines[::7], settings).source
    other = spm(lines[::7], kind)
    chunks = [lines[start : start + CHUNK] for start in range(0, len(lines), CHUNK)]
    counts = {}

    def ours() -> None:
        counts["dragoman"] = sum(len(ids) for chunk in chunks for ids in side.encode_batch(chunk))

    def theirs() -> None:
        found = (other.encode(chunk, out_type=int, num_threads=threads) for chunk in chunks)
        counts["sentencepiece"] = sum(len(ids) for chunk in found for ids in chunk)

    seconds = best({"dragoman": ours, "sentencepiece": theirs}, repeats)
    speeds = {name: round(len(lines) / took) for name, took in seconds.items()}
    return speeds | {f"{name}, ids a line": round(count / len(lines), 2) for name, count in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with multi30k and tatoeba")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", choices=["cleaning", "learning", "encoding"], action="append")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    facts = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    lines = [text for one in read(corpus_in(given.data)) for text in (one.source, one.target)]
    facts |= {"cores": os.cpu_count(), "sentencepiece": sentencepiece.__version__, "lines": len(lines)}
    threads = int(os.environ.get("RAYON_NUM_THREADS", os.cpu_count() or 1))
    for work in given.work or ["cleaning", "learning", "encoding"]:
        if work == "cleaning":
            facts[work] = cleaning(given.data, given.repeats)
        for kind in ("bpe", "unigram"):
            if work == "learning":
                facts[f"learning, {kind}"] = learning(lines, kind, given.repeats)
            if work == "encoding":
                facts[f"encoding, {kind}, {threads} threads"] = encoding(lines, kind, threads, given.repeats)
        given.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
