"""Where tags stand in translations: placed by alignment, cut at tags, and by Bergamot's engine.

usage: python -m benchmarks.markup.markup RUN PAIRS [--peer NODE_PACKAGE MODEL_FOLDER]
"""

import argparse
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sacrebleu
from lxml import etree

import dragoman
from dragoman.data.markup.tags import Tag, decode_text, encode_text, read_tags

HERE = Path(__file__).parent
TAG = re.compile(r"</?\w+[^>]*>")
Translate = Callable[[Sequence[str]], list[str]]


def by_alignment(translator: dragoman.Translator) -> Translate:
    return lambda texts: [one.text for one in translator.translate(list(texts), markup="html")]


def by_cutting(translator: dragoman.Translator) -> Translate:
    """Translate the texts between tags one by one, as LibreTranslate and others do."""

    def translate(texts: Sequence[str]) -> list[str]:
        pieces = [list(read_tags(text, "html")) for text in texts]
        plain = [decode_text(one, "html").strip() for some in pieces for one in some if isinstance(one, str)]
        found = iter(translator.translate(plain))

        def fill(piece: Tag | str) -> str:
            if isinstance(piece, Tag):
                return piece.source
            start, end = piece[: len(piece) - len(piece.lstrip())], piece[len(piece.rstrip()) :]
            return f"{start}{encode_text(next(found).text)}{end}"

        return ["".join(map(fill, some)) for some in pieces]

    return translate


def by_peer(package: Path, model: Path) -> Translate:
    def translate(texts: Sequence[str]) -> list[str]:
        command = ["node", HERE / "bergamot.mjs", package, model]
        text = "".join(f"{one}\n" for one in texts)
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.splitlines()

    return translate


def parse(content: str) -> etree._Element | None:
    try:
        return etree.fromstring(f"<r>{content}</r>")
    except etree.XMLSyntaxError:
        return None


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def elements(content: str) -> list[tuple[str, list[str]]]:
    root = parse(content)
    return [] if root is None else [(one.tag, words("".join(one.itertext()))) for one in root.iterdescendants()]


def f1(one: list[str], other: list[str]) -> float:
    common = sum((Counter(one) & Counter(other)).values())
    return 2 * common / (len(one) + len(other)) if one or other else 1.0


def content_scores(content: str, reference: str) -> list[float]:
    """Return F1 of the words in each element of the reference, with the best element of its name, each used once."""
    expected, found = elements(reference), elements(content)
    pairs = sorted(
        (
            (f1(one[1], two[1]), -row, -column)
            for row, one in enumerate(expected)
            for column, two in enumerate(found)
            if one[0] == two[0]
        ),
        reverse=True,
    )
    scores, used = dict.fromkeys(range(len(expected)), 0.0), set()
    open_rows = set(scores)
    for score, row, column in pairs:
        if -row in open_rows and column not in used:
            scores[-row] = score
            open_rows.discard(-row)
            used.add(column)
    return list(scores.values())


def evaluate(sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    rows = list(zip(sources, outputs, references, strict=True))
    contents = [score for _, output, reference in rows for score in content_scores(output, reference)]
    order = [TAG.findall(output) == TAG.findall(reference) for _, output, reference in rows]
    plain = [[TAG.sub("", one) for one in some] for some in (outputs, references)]
    return {
        "well_formed": 100 * sum(parse(output) is not None for output in outputs) / len(rows),
        "same_tags": 100
        * sum(Counter(TAG.findall(output)) == Counter(TAG.findall(source)) for source, output, _ in rows)
        / len(rows),
        "order_of_reference": 100 * sum(order) / len(rows),
        "content_f1": 100 * sum(contents) / len(contents),
        "content_equal": 100 * sum(score == 1.0 for score in contents) / len(contents),
        "chrf": sacrebleu.corpus_chrf(plain[0], [plain[1]]).score,
    }


def copied_words(translator: dragoman.Translator, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Put tags around words that stand once in a text and once in its translation: their places are certain."""
    texts = [decode_text(TAG.sub("", source), "html") for source, _ in pairs]
    found = []
    for text, result in zip(texts, translator.translate(texts), strict=True):
        if "<" in text or "&" in text:
            continue
        sides = [Counter(re.findall(r"\w+", one)) for one in (text, result.text)]
        copied = [word for word in sides[0] if sides[0][word] == sides[1][word] == 1 and len(word) > 1]
        marked = [text, result.text]
        for name, word in zip(["b", "i", "u"], copied, strict=False):
            marked = [re.sub(rf"\b{word}\b", f"<{name}>{word}</{name}>", one) for one in marked]
        if copied:
            found.append((marked[0], marked[1]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--peer", type=Path, nargs=2)
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--skip", type=int, default=0)
    options = parser.parse_args()
    lines = options.pairs.read_text(encoding="utf-8").splitlines()[options.skip :][: options.limit]
    pairs = [(source, target) for source, _, target in (line.partition("\t") for line in lines)]
    translator = dragoman.load(options.run, dragoman.Translator)
    systems = {"alignment": by_alignment(translator), "cut at tags": by_cutting(translator)}
    if options.peer:
        systems["bergamot"] = by_peer(*options.peer)
    results: dict[str, dict[str, Any]] = {}
    for name, some in {"help pages": pairs, "copied words": copied_words(translator, pairs)}.items():
        sources, references = zip(*some, strict=True)
        results[name] = {system: evaluate(sources, run(sources), references) for system, run in systems.items()}
        results[name] |= {"texts": len(some), "elements": sum(len(elements(one)) for one in references)}
    seconds = {}
    for name, markup in {"plain": None, "tags": "html"}.items():
        texts = [source if markup else TAG.sub("", source) for source, _ in pairs]
        start = time.process_time()
        translator.translate(texts, markup=markup)
        seconds[name] = time.process_time() - start
    print(json.dumps({**results, "processor_seconds": seconds}, indent=1))


if __name__ == "__main__":
    main()
