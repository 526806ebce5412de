"""Table of hostile folders: valid folders, the files in them, the alterations of each file, and the commands on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from tests.hostile_files import (
    ANY_FILE,
    ANY_JSON,
    ANY_TENSORS,
    ANY_TEXT,
    ANY_YAML,
    CONTROL,
    FOLDER_LINK,
    JSON_VALUES,
    LONGER,
    Alteration,
    setting,
)

VERBS: Mapping[str, tuple[str, ...]] = {
    "info": ("info", "{hostile}"),
    "compare": ("compare", "{hostile}", "{valid}/run"),
    "translate": ("translate", "{hostile}", "--text", "{text}"),
    "shortlist": ("translate", "{hostile}", "--text", "{text}", "--shortlist"),
    "score": ("score", "{hostile}", "--source", "{valid}/train.en", "--target", "{valid}/train.de"),
    "evaluate": ("evaluate", "{hostile}", "--source", "{valid}/train.en", "--reference", "{valid}/train.de"),
    "inspect": ("inspect", "{hostile}", "--text", "{text}", "--out", "page.html"),
    "export": ("export", "{hostile}", "--compute-type", "int8", "--out", "exported"),
    "prune": ("prune", "{hostile}", "--source", "{valid}/train.en", "--target", "{valid}/train.de", "--out", "pruned"),
    "resume": ("train", "--resume", "{hostile}", "--max-steps", "11"),
    "init-from": (
        "train",
        *("--init-from", "{hostile}", "--out", "tuned", "--max-steps", "2"),
        *("--source", "{valid}/train.en", "--target", "{valid}/train.de"),
    ),
    "generate": ("generate", "{hostile}", "--prompt", "two", "--max-new-tokens", "3"),
    "classify": ("classify", "{hostile}", "--text", "{text}"),
    "answer": ("answer", "{hostile}", "--question", "after dogs", "--context", "{text}"),
    "ensemble": ("translate", "{valid}/run", "--ensemble", "{hostile}", "--text", "{text}"),
    "bench": ("bench", "{hostile}", "--batch", "1", "--beam", "1", "--tokens", "2", "--rounds", "1"),
    "analyse": (
        *("analyse", "{hostile}", "--source", "{valid}/train.en", "--reference", "{valid}/train.de"),
        *("--out", "analysis.html"),
    ),
    "distill": ("distill", "{hostile}", "--source", "{valid}/train.en", "--out", "pairs"),
    "plan": (
        *("plan", "--init-from", "{hostile}", "--source", "{valid}/train.en", "--target", "{valid}/train.de"),
        *("--max-steps", "2", "--batch-tokens", "211"),
    ),
    "prepared": (
        "train",
        *("--prepared", "{hostile}", "--out", "new", "--max-steps", "2", "--set", "model.d_model=16"),
        *("--set", "model.num_heads=2", "--set", "model.d_ff=17"),
    ),
    "tokenizer": (
        *("data", "prepare", "--source", "{valid}/train.en", "--target", "{valid}/train.de", "--out", "again"),
        *("--tokenizer", "{hostile}/tokenizer.json"),
    ),
    "cached": ("train", "{valid}/translation.yaml", "--out", "new", "--max-steps", "2"),
    "load": (),
}
"""Arguments of the commands that read a folder; `load` is the function of Python."""


@dataclass(frozen=True)
class Case:
    """Command on a copy of a valid folder in which a file was altered."""

    folder: str
    file: str
    name: str
    """Name of the alteration."""
    alteration: Alteration
    verb: str
    backend: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the command, with names in braces for folders and text."""
        return VERBS[self.verb]

    def alter(self, hostile: Path) -> None:
        """Alter the copy."""
        self.alteration(next(iter(sorted(hostile.glob(self.file)))))


def choose(alterations: Mapping[str, Alteration], *names: str) -> Mapping[str, Alteration]:
    """Return the alterations of these names."""
    return {name: alterations[name] for name in names}


CHECKPOINT = "checkpoints/000000009"
JSON = {**ANY_FILE, **ANY_TEXT, **ANY_JSON, **JSON_VALUES}
TENSORS = {**ANY_FILE, **LONGER, **ANY_TENSORS}
YAML = {**ANY_FILE, **ANY_TEXT, **ANY_YAML}
TEXT = {**ANY_FILE, **ANY_TEXT}
COLUMN = {**ANY_FILE, **LONGER}
SOME_FILE = choose(ANY_FILE, "a pipe", "a link outside", "100 GiB of zeros", "cut off", "a pickle", "compressed zeros")
SOME_JSON = SOME_FILE | choose(JSON, "noise", "not UTF-8", "null", "every value 2^63", "every value a path outside")
SOME_YAML = SOME_FILE | choose(
    YAML, "noise", "doubling aliases", "an object of Python", "a list", "a base of 400 digits"
)
SOME_TENSORS = SOME_FILE | choose(
    *(TENSORS, "noise", "with seven more bytes", "a header of 2^63 bytes", "120,000 tensors", "the format object"),
    *("a shape of 2^40", "other names", "a tensor less", "a flipped bit", "NaN as numbers"),
)
"""Alterations that take a code path of their own, for files whose readers other rows cover in full."""
CACHED = choose(JSON, "a pipe", "a link outside", "100 GiB of zeros", "not UTF-8", "null", "every value NaN")
SETTINGS: Mapping[str, Alteration] = {
    f"{key} is {str(value)[:24]!r}": setting(key, value)
    for key, values in {
        "model.d_model": (10**9, 0, -12, 2**70, "12", None, [12], 1.5, True),
        "model.encoder_layers": (10**6, 0, 2),
        "model.d_ff": (10**12, 16),
        "model.num_heads": (0, 5, 10**6),
        "model.positions": ({"kind": "learned", "max_length": 10**12}, {"kind": CONTROL}, None),
        "model.attention.encoder.score": ({"kind": "additive", "d_hidden": 10**12}, "__import__('os')"),
        "model": ("abc", [], None, {}),
        "decoding": ("abc", None, []),
        "decoding.beam_size": (10**6, 0, 2**64),
        "decoding.min_length": (10**9,),
        "decoding.max_length": (10**12, -1),
        "decoding.length_penalty": (1e308, float("nan"), float("-inf")),
        "task": (CONTROL, "classification", "language_modeling", None, ["translation"]),
        "format_version": (2, "1", None, 10**30),
        "data": (None, "abc", CONTROL),
        "tokenizer": (None, CONTROL, {"kind": "subwords"}),
        "training.max_steps": (2**70, "abc"),
        "training.optimizer": ({"kind": CONTROL}, None),
        "metrics": ([{"kind": CONTROL}], "bleu", [[]]),
        CONTROL: (CONTROL,),
    }.items()
    for value in values
}
"""Alterations of settings in `config.yaml` of a translation run."""
TRANSLATION = ("translate", "info", "inspect", "export", "score", "load", "evaluate", "init-from", "resume")
OTHER_VERBS = ("ensemble", "bench", "analyse", "distill")
"""Verbs that load a translation run by the code of `translate`, and differ in what they do with its errors."""

TABLE: Sequence[tuple[str, str, Mapping[str, Alteration], Sequence[str]]] = [
    ("run", "config.yaml", {**YAML, **SETTINGS}, (*TRANSLATION, "compare", "prune")),
    ("run", "tokenizer.json", JSON, TRANSLATION),
    ("run", "model.safetensors", TENSORS, (*TRANSLATION[:-1], "compare")),
    ("run", "metrics.jsonl", JSON, ("info", "compare", "resume")),
    ("run", "environment.json", JSON, ("info", "compare", "export")),
    ("run", "scores.json", JSON, ("info", "compare", "export")),
    ("run", "README.md", TEXT, ("export", "info")),
    ("run", f"{CHECKPOINT}/progress.json", {**SOME_JSON, **FOLDER_LINK}, ("resume",)),
    ("run", f"{CHECKPOINT}/model.safetensors", SOME_TENSORS, ("resume",)),
    ("run", f"{CHECKPOINT}/optimizer.safetensors", SOME_TENSORS, ("resume",)),
    ("run", "config.yaml", SOME_YAML, OTHER_VERBS),
    ("run", "tokenizer.json", SOME_JSON, OTHER_VERBS),
    ("run", "model.safetensors", SOME_TENSORS, OTHER_VERBS),
    ("run", "config.yaml", choose(YAML, "keys of control characters"), ("plan",)),
    ("run", "tokenizer.json", choose(JSON, "every value null"), ("plan",)),
    ("run", "model.safetensors", choose(TENSORS, "cut off"), ("plan",)),
    ("export", "model.safetensors", TENSORS, ("translate", "info", "load", "evaluate")),
    ("export", "export.json", JSON, ("translate", "info", "load")),
    ("export", "shortlist.safetensors", TENSORS, ("shortlist",)),
    ("language_model", "config.yaml", YAML, ("generate", "load")),
    ("language_model", "model.safetensors", TENSORS, ("generate", "load")),
    ("classifier", "labels.json", JSON, ("classify", "load", "info")),
    ("classifier", "model.safetensors", TENSORS, ("classify", "load")),
    ("tagger", "config.yaml", SOME_YAML, ("classify", "load")),
    ("tagger", "labels.json", SOME_JSON, ("classify", "load")),
    ("tagger", "model.safetensors", SOME_TENSORS, ("classify", "load")),
    ("question_answerer", "config.yaml", SOME_YAML, ("answer", "load")),
    ("question_answerer", "tokenizer.json", SOME_JSON, ("answer", "load")),
    ("question_answerer", "model.safetensors", SOME_TENSORS, ("answer", "load")),
    ("prepared", "index.json", JSON, ("prepared",)),
    ("prepared", "ids/header.json", {**JSON, **FOLDER_LINK}, ("prepared",)),
    ("prepared", "shards/00000/ids/header.json", {**SOME_JSON, **FOLDER_LINK}, ("prepared",)),
    ("prepared", "shards/00000/ids/source.values", COLUMN, ("prepared",)),
    ("prepared", "valid/header.json", SOME_JSON, ("prepared",)),
    ("prepared", "valid/source.lengths", {**SOME_FILE, **LONGER}, ("prepared",)),
    ("prepared", "tokenizer.json", JSON, ("prepared", "tokenizer")),
    ("cache", "texts-*/summary.json", CACHED, ("cached",)),
    ("cache", "tokens-*/header.json", CACHED, ("cached",)),
    ("cache", "tokens-*/source.values", {**SOME_FILE, **LONGER}, ("cached",)),
]
"""Valid folder, file, alterations, and the verbs that take turns."""


def _cases() -> Iterator[tuple[str, Case]]:
    for folder, file, alterations, verbs in TABLE:
        turns = cycle([(verb, backend) for verb in verbs for backend in _backends(verb)])
        for (name, alteration), (verb, backend) in zip(alterations.items(), turns, strict=False):
            yield _name(folder, file, name, verb, backend), Case(folder, file, name, alteration, verb, backend)


def _backends(verb: str) -> tuple[str, ...]:
    return ("cpu", "torch") if verb in {"translate", "load", "score", "evaluate", "generate"} else ("any",)


def _name(*parts: str) -> str:
    return " | ".join(parts).encode("unicode_escape").decode()


CASES: Mapping[str, Case] = dict(_cases())
"""Cases by name."""

HARMLESS: Mapping[tuple[str, str], str] = {
    ("cache", "cached"): "a damaged cache is built again",
    (f"run/{CHECKPOINT}", "resume"): "the training continues from the checkpoint before",
    ("classifier/labels.json", "info"): "info does not read labels",
    ("run/model.safetensors", "info"): "info does not read weights",
    ("export/model.safetensors", "info"): "info does not read weights",
    ("run/model.safetensors", "compare"): "compare does not read weights",
    ("run/README.md", "info"): "info does not read the model card",
    ("run/README.md", "export"): "any text is a model card",
    ("run/scores.json", "export"): "export copies the scores",
    ("run/metrics.jsonl", "info"): "info does not read metrics",
    ("run/metrics.jsonl", "compare"): "damaged lines are skipped",
    ("run/metrics.jsonl", "resume"): "the training appends to the metrics",
}
"""Verbs that may succeed whatever the file contains, by start of folder and file."""
HARMLESS_CONTENT = {
    "run/environment.json": ("deleted", "an empty object"),
    "run/scores.json": ("deleted",),
    "run/metrics.jsonl": ("deleted",),
    "export/export.json": ("deleted", "an empty object", "every value null", "every value a path outside"),
    "export/shortlist.safetensors": ("another format of equal size", "bytes of 255", "NaN as numbers"),
}
"""Alterations after which a folder is valid."""
LAZY_SETTINGS = ("info", "compare", "translate", "generate", "load", "score", "evaluate")
"""Verbs that do not need all settings of `config.yaml`: they may ignore others that are invalid."""


def may_succeed(case: Case) -> bool:
    """Return whether exit code 0 is correct: the command does not need what was altered."""
    place = f"{case.folder}/{case.file}"
    if any(place.startswith(start) and case.verb == verb for start, verb in HARMLESS):
        return True
    if case.file == "config.yaml" and case.name in SETTINGS:
        return case.verb in LAZY_SETTINGS
    return case.name in HARMLESS_CONTENT.get(place, ())
