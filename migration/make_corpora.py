"""Writes references/corpora from data: small, fixed excerpts. Uses no project code. Run once."""

import gzip
import json
import re
from itertools import islice
from pathlib import Path
from random import Random

DATA, OUT = Path("data"), Path("references/corpora")


def head(path, first, count, encoding="utf-8"):
    with gzip.open(DATA / path, "rt", encoding=encoding) as file:
        return [line.rstrip("\n") for line in islice(file, first, first + count)]


def write(name, rows, encoding="utf-8"):
    OUT.mkdir(exist_ok=True)
    (OUT / name).write_text("".join(row + "\n" for row in rows), encoding=encoding)


def pairs():
    """Short sentences (Tatoeba en-de), captions (Multi30k en-de), the same as tsv and jsonl, and files of trees."""
    for part, source, first, count in (("train", "train", 0, 4000), ("valid", "dev", 0, 60), ("test", "test", 0, 60)):
        for side in ("en", "de"):
            write(f"short.{part}.{side}", head(f"tatoeba/deu-eng/{source}.{side}.gz", first, count))
    more = [head(f"tatoeba/deu-eng/train.{side}.gz", 4000, 1500) for side in ("en", "de")]
    write("more.tsv", ["\t".join(pair) for pair in zip(*more)])
    some = [head(f"tatoeba/deu-eng/train.{side}.gz", 5500, 800) for side in ("en", "de")]
    write("some.jsonl", [json.dumps({"source": s, "target": t}, ensure_ascii=False) for s, t in zip(*some)])
    for part, source, count in (("train", "train", 2000), ("valid", "val", 40), ("test", "test_2016_flickr", 40)):
        for side in ("en", "de"):
            write(f"captions.{part}.{side}", head(f"multi30k/{source}.{side}.gz", 0, count))
    for part in ("train", "valid", "test"):
        write(f"short.{part}.conllu", conllu((OUT / f"short.{part}.en").read_text(encoding="utf-8").splitlines()))


def toy():
    """A made-up language that a small model learns in seconds: words one to one, adjectives after nouns, verbs last."""
    draw, seen, rows = Random(7), set(), []
    numbers = dict(
        zip(
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
            ["un", "du", "tri", "kva", "kvin", "ses", "sep", "ok", "nau", "dek"],
        )
    )
    colors = dict(
        zip(
            ["red", "blue", "green", "black", "white", "small", "large", "old", "new", "fast"],
            ["rug", "blu", "verd", "nigr", "blank", "et", "gros", "mal", "nov", "rap"],
        )
    )
    nouns = dict(
        zip(
            ["dogs", "cats", "birds", "trees", "houses", "cars", "boys", "girls", "books", "stones"],
            ["hundoj", "katoj", "birdoj", "arboj", "domoj", "autoj", "knaboj", "inoj", "libroj", "ŝtonoj"],
        )
    )
    verbs = dict(
        zip(
            ["see", "like", "carry", "find", "paint", "count", "follow", "draw"],
            ["vidas", "ŝatas", "portas", "trovas", "farbas", "nombras", "sekvas", "desegnas"],
        )
    )

    def phrase():
        number, noun = draw.choice([*numbers]), draw.choice([*nouns])
        some = draw.sample([*colors], draw.choice((0, 1, 1, 2)))
        return [number, *some, noun], [numbers[number], nouns[noun], *(colors[one] for one in reversed(some))]

    while len(rows) < 3120:
        (subject, first), (thing, second), verb = phrase(), phrase(), draw.choice([*verbs])
        source = " ".join([*subject, verb, *thing, "."])
        if source not in seen:
            seen.add(source)
            rows.append((source, " ".join([*first, *second, verbs[verb], "."])))
    for part, some in (("train", rows[:3000]), ("valid", rows[3000:3060]), ("test", rows[3060:])):
        write(f"toy.{part}.en", [source for source, _ in some])
        write(f"toy.{part}.de", [target for _, target in some])


def conllu(lines):
    """A made-up dependency tree for the words of each line, drawn by a fixed seed: one root, no cycles."""
    draw = Random(20)
    for line in lines:
        words = line.split()
        order = draw.sample(range(1, len(words) + 1), len(words))
        heads = {word: draw.choice(order[:place]) if place else 0 for place, word in enumerate(order)}
        for number, word in enumerate(words, start=1):
            yield "\t".join([str(number), word, "_", "_", "_", "_", str(heads[number]), "_", "_", "_"])
        yield ""


def running_text():
    with gzip.open(DATA / "lm/tinyshakespeare.txt.gz", "rt", encoding="utf-8") as file:
        (OUT / "plays.txt").write_text(file.read(60_000), encoding="utf-8")
    wiki = [line.strip() for line in head("lm/wikitext-2/valid.txt.gz", 0, 900)]
    write("wiki.train.txt", wiki[:800])
    write("wiki.valid.txt", wiki[800:])


def labelled():
    write("questions.train.txt", head("classification/TREC.train.all.gz", 0, 1200, "latin-1"), "latin-1")
    write("questions.test.txt", head("classification/TREC.test.all.gz", 0, 100, "latin-1"), "latin-1")
    for part, count in (("train", 1200), ("dev", 100)):
        rows = [row.split(" ", 1) for row in head(f"classification/stsa.binary.{part}.gz", 0, count)]
        write(
            f"sentiment.{part}.jsonl", [json.dumps({"text": t, "label": int(n)}, ensure_ascii=False) for n, t in rows]
        )


def tagged():
    """Words of captions with labels by rule, so that there is something to learn."""
    rules = [(r"(?i)(a|an|the)", "DET"), (r"(?i)(one|two|three|four|five|several|many)", "NUM"), (r"\W+", "PUNCT"),
             (r"\w+ing", "B-ING"), (r"(?i)(in|on|at|of|with|near|by)", "ADP"), (r"\w+s", "PLUR"), (r".*", "O")]  # fmt: skip
    for part in ("train", "valid", "test"):
        rows = []
        for line in (OUT / f"captions.{part}.en").read_text(encoding="utf-8").splitlines():
            for word in re.findall(r"\w+|[^\w\s]+", line):
                rows.append(f"{word}\t{next(label for rule, label in rules if re.fullmatch(rule, word))}")
            rows.append("")
        write(f"tags.{part}.tsv", rows)


def answers():
    with gzip.open(DATA / "qa/squad/dev-v1.1.json.gz", "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    some = [{**one, "paragraphs": one["paragraphs"][:10]} for one in articles[:5]]
    (OUT / "squad.json").write_text(json.dumps({"version": "1.1", "data": some}, ensure_ascii=False), encoding="utf-8")
    rows = []
    for article in articles[5:8]:
        for number, paragraph in enumerate(article["paragraphs"][:8]):
            for question in paragraph["qas"][:3]:
                none = number % 3 == 2  # as if the question could not be answered
                texts = [] if none else [question["answers"][0]["text"]]
                starts = [] if none else [question["answers"][0]["answer_start"]]
                rows.append({"id": question["id"], "question": question["question"], "context": paragraph["context"],
                             "answers": {"text": texts, "answer_start": starts}})  # fmt: skip
    write("unanswerable.jsonl", [json.dumps(row, ensure_ascii=False) for row in rows])


if __name__ == "__main__":
    pairs()
    toy()
    running_text()
    labelled()
    tagged()
    answers()
