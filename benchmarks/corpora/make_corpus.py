"""Write a parallel corpus of made-up words in compressed shards: as many lines as are wanted, nothing to learn from.

Words are drawn by Zipf's law, sentences have 3 to 17 of them, and a share of the lines stands in the corpus before.
The target is the source with every word spelt backwards.

    python benchmarks/corpora/make_corpus.py /tmp/corpus --lines 10000000
"""

import argparse
import gzip
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

WORDS = 60_000
EXPONENT = 1.1
CHUNK = 50_000
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def words(seed: int = 7) -> list[str]:
    """Different made-up words, short ones first."""
    generator = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        length = 2 + len(found) // 6000 + int(generator.integers(0, 4))
        drawn = np.minimum(generator.geometric(0.12, size=length) - 1, len(LETTERS) - 1)
        found["".join(LETTERS[letter] for letter in drawn)] = None
    return list(found)


def lines(count: int, generator: np.random.Generator, known: list[str], repeated: float) -> list[list[str]]:
    """Sentences as lists of words."""
    ranks = np.arange(1, WORDS + 1, dtype=np.float64) ** -EXPONENT
    upto = np.cumsum(ranks / ranks.sum())
    lengths = generator.integers(3, 18, size=count)
    drawn = np.minimum(np.searchsorted(upto, generator.random(int(lengths.sum()))), WORDS - 1).tolist()
    sentences, start = [], 0
    again = generator.random(count) < repeated
    for length, repeats in zip(lengths.tolist(), again.tolist(), strict=True):
        if repeats and sentences:
            sentences.append(sentences[len(sentences) // 2])
        else:
            sentences.append([known[word] for word in drawn[start : start + length]])
        start += length
    return sentences


def write_shard(number: int, folder: Path, count: int, repeated: float) -> None:
    """One pair of files."""
    known = words()
    turned = {word: word[::-1] for word in known}
    generator = np.random.default_rng([number, 11])
    paths = [folder / f"synthetic.{number:02d}.{side}.gz" for side in ("source", "target")]
    with gzip.open(paths[0], "wb", 1) as source, gzip.open(paths[1], "wb", 1) as target:
        for start in range(0, count, CHUNK):
            sentences = lines(min(CHUNK, count - start), generator, known, repeated)
            source.write("".join(f"{' '.join(one)}.\n" for one in sentences).encode())
            target.write("".join(f"{' '.join([turned[word] for word in one])}.\n" for one in sentences).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--repeated", type=float, default=0.02, help="share of lines that stand before")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    each = given.lines // given.shards
    write = partial(write_shard, folder=given.folder, count=each, repeated=given.repeated)
    with ProcessPoolExecutor(given.processes) as pool:
        list(pool.map(write, range(given.shards)))


if __name__ == "__main__":
    main()
