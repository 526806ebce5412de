"""Placeholders that translations lose, with and without control: python -m benchmarks.placeholders.placeholders RUN…

Needs `pip install pyicumessageformat`, an independent parser that judges the ICU messages.
"""

import argparse
import json
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from pyicumessageformat import Parser  # type: ignore[import-not-found]

import dragoman
from benchmarks.placeholders.ui_strings import UiString, ui_strings
from dragoman.data.tokenizers.reserved_symbols import PLACEHOLDER_SYMBOLS, has_reserved_symbols

SELECTED = ("female", "male", "admin", "other")
NUMBERS = (0, 1, 2, 5, 23)


def is_whole(string: UiString, translation: str) -> bool:
    """Return whether a translation has each placeholder as often as its source, and no branch of another number."""
    if string.kind == "icu":
        return is_whole_message(string.text, translation)
    return all(string.text.count(one) == translation.count(one) for one in string.placeholders)


def is_whole_message(source: str, translation: str) -> bool:
    """Return whether both messages show the same arguments, in the same kind of branch, for all values."""
    try:
        messages = Parser().parse(source), Parser().parse(translation)
    except (SyntaxError, ValueError):
        return False
    pairs = [[shown(one, number, name) for one in messages] for number in NUMBERS for name in SELECTED]
    return all(first == second for first, second in pairs)


def shown(message: list[Any], number: int, name: str) -> Counter[str]:
    """Return the arguments of a message for values of its arguments, and the selectors of the branches."""
    found: Counter[str] = Counter()
    for node in message:
        if not isinstance(node, dict):
            continue
        if "options" not in node:
            found["#" if node.get("hash") else node["name"]] += 1
            continue
        chosen = select(node, number, name)
        found[f"branch {chosen} of {node['name']}"] += 1
        found += shown(node["options"][chosen], number, name)
    return found


def select(node: dict[str, Any], number: int, name: str) -> str:
    """Return the branch of a choice, by the English plural rules."""
    options = node["options"]
    if node["type"] == "select":
        return name if name in options else "other"
    if f"={number}" in options:
        return f"={number}"
    number -= node.get("offset", 0)
    ordinals = {1: "one", 2: "two", 3: "few"}
    category = ordinals.get(number % 10, "other") if node["type"] == "selectordinal" else "one" if number == 1 else ""
    return category if category in options else "other"


def measure(path: str, strings: list[UiString], *, lowercase: bool) -> dict[str, Any]:
    """Translate the texts with and without control, in turn, and count the texts that lost a placeholder."""
    translator = dragoman.load(path, dragoman.Translator)
    if lowercase:
        strings = [lowered(one) for one in strings]
    texts = [one.text for one in strings]
    seconds = {False: 0.0, True: 0.0}
    results: dict[bool, list[dragoman.TranslationResult]] = {False: [], True: []}
    for start in range(0, len(texts), 500):  # in turn, so that both are measured under the same load
        for protected in (False, True):
            before = time.process_time()
            results[protected] += translator.translate(texts[start : start + 500], placeholders=protected)
            seconds[protected] += time.process_time() - before
    lost = {
        protected: Counter(one.kind for one, two in zip(strings, found, strict=True) if not is_whole(one, two.text))
        for protected, found in results.items()
    }
    sides = translator.tokenizer.source, translator.tokenizer.target
    return {
        "model": Path(path).name,
        "reserved_symbols": all(has_reserved_symbols(side, PLACEHOLDER_SYMBOLS) for side in sides),
        "texts": len(texts),
        "lost_without": lost[False].total(),
        "lost_with": lost[True].total(),
        "put_in_place": sum(bool(one[0].unmet) for one in results[True]),
        "seconds_without": round(seconds[False], 2),
        "seconds_with": round(seconds[True], 2),
        "time_ratio": round(seconds[True] / seconds[False], 2),
        "lost_without_by_kind": dict(lost[False]),
        "lost_with_by_kind": dict(lost[True]),
        "texts_by_kind": dict(Counter(one.kind for one in strings)),
    }


def lowered(string: UiString) -> UiString:
    """Return a text in lowercase, except for its placeholders."""
    if string.kind == "icu":
        return string
    text, place = "", 0
    for one in string.placeholders:
        start = string.text.index(one, place)
        text += string.text[place:start].lower() + one
        place = start + len(one)
    return UiString(string.kind, text + string.text[place:].lower(), string.placeholders)


def main() -> None:
    """Measure runs, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--lowercase", nargs="*", default=[], help="runs that are trained on lower-cased text")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("results.json"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    strings = ui_strings(given.count)
    results: list[dict[str, Any]] = []
    for run in given.runs:
        results.append(measure(run, strings, lowercase=run in given.lowercase))
        given.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        print({name: value for name, value in results[-1].items() if "by_kind" not in name})
        print(results[-1]["lost_with_by_kind"], flush=True)


if __name__ == "__main__":
    main()
