"""Run of the demo: a small model that learns to write dates, times, numbers and amounts in another language.

Held-out phrases do not occur in the training data, so the model must learn the rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.config import override
from dragoman.config_errors import name_origins
from dragoman.config_trees import Tree, merge
from dragoman.data.readers.parallel import ParallelFiles, read_corpus
from dragoman.errors import RunError
from dragoman.evaluation import Bleu, ExactMatch, Score, corpus_score
from dragoman.inference.translator import Translator
from dragoman.runs.config import merge_settings, parse_experiment
from dragoman.runs.corpus_languages import language_of_file
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import Experiment
from dragoman_demo.corpus import CorpusFiles, known_locale, split, write_corpus

TRAIN_PHRASES = 120_000
"""Different phrases; frequent ones are there several times, and the training sees about as many as these are."""

DEMO_SETTINGS: Tree = {
    "preset": "nano",
    "data": {"cleaning": {"remove_copies": False, "remove_duplicates": False}},
    "tokenizer": {"kind": "bpe", "vocab_size": 1500, "byte_fallback": False, "whitespace": "keep"},
    "model": {"dropout": {"embedding": 0.0, "residual": 0.0}},
    "training": {
        "max_steps": 8000,
        "validate_every": 4000,
        "batch_tokens": 320,
        "optimizer": {"kind": "adamw", "learning_rate": 0.003},
        "schedule": {"kind": "cosine", "warmup": 200},
        "label_smoothing": 0.0,
        "keep_checkpoints": 1,
    },
    "decoding": {"beam_size": 1},
    "metrics": [{"kind": "exact"}, {"kind": "bleu"}],
}
"""Tuned on the validation set of English to French: with as many tokens, more steps on smaller batches learn more.
Nothing is cleaned: the phrases contain no errors, and numbers are often equal in both languages. White space is kept,
so that the model writes the no-break spaces of the CLDR."""


@dataclass(frozen=True)
class DemoExample:
    """Held-out phrase with its translation and the expected one."""

    family: str
    source: str
    output: str
    expected: str

    @property
    def is_correct(self) -> bool:
        return self.output == self.expected


@dataclass(frozen=True)
class DemoResult:
    """Translations of the held-out phrases, and their scores."""

    examples: list[DemoExample]
    exact: Score
    bleu: Score

    def by_family(self) -> dict[str, tuple[int, int]]:
        """Return the number of correct and of all phrases per family."""
        counts: dict[str, tuple[int, int]] = {}
        for example in self.examples:
            correct, total = counts.get(example.family, (0, 0))
            counts[example.family] = correct + example.is_correct, total + 1
        return counts


def demo_dir(source_locale: str, target_locale: str) -> Path:
    """Return the default run folder for two locales."""
    return Path("runs") / f"demo-{source_locale}-{target_locale}"


def corpus_dir(folder: RunFolder) -> Path:
    """Return the folder of the corpus inside a run folder."""
    return folder.path / "corpus"


def write_demo_corpus(folder: RunFolder, *, source_locale: str, target_locale: str) -> CorpusFiles:
    """Write the corpus into the run folder; the same locales give the same files."""
    parts = split(train=TRAIN_PHRASES, source_locale=source_locale, target_locale=target_locale)
    return write_corpus(corpus_dir(folder), parts, source_locale=source_locale, target_locale=target_locale)


def demo_experiment(files: CorpusFiles, assignments: Sequence[str] = ()) -> Experiment:
    """Return the experiment of the demo on a corpus, with `KEY=VALUE` assignments applied."""
    corpora = {name: getattr(files, name).model_dump(mode="json") for name in ("train", "valid", "test")}
    languages = {f"{side}_language": language_of_file(getattr(files.train, side)) for side in ("source", "target")}
    over = override({}, assignments)
    with name_origins({"": {}, "--set ": over}):
        return parse_experiment(merge_settings(merge(DEMO_SETTINGS, {"data": corpora, **languages}), over))


def has_target_locale(folder: RunFolder, target_locale: str) -> bool:
    """Return whether the demo in a folder translates to a locale. Raises DataError if the locale is unknown."""
    test = folder.read_config().data.test
    ending = Path(str(test.target)).suffix.removeprefix(".") if isinstance(test, ParallelFiles) else ""
    return ending in (target_locale, str(known_locale(target_locale)))


def translate_held_out(translator: Translator, folder: RunFolder) -> DemoResult:
    """Translate and score the held-out phrases of a demo. Raises RunError if the folder contains no demo."""
    test = folder.read_config().data.test
    families = corpus_dir(folder) / "test.family"
    if not isinstance(test, ParallelFiles) or not families.exists():
        raise RunError(f"{folder.path}: is not the folder of a demo. Choose another --output-dir.")
    phrases = list(read_corpus(test))
    outputs = [result.text for result in translator.translate([phrase.source for phrase in phrases], beam_size=1)]
    expected = [phrase.target for phrase in phrases]
    names = families.read_text(encoding="utf-8").splitlines()
    rows = zip(names, (phrase.source for phrase in phrases), outputs, expected, strict=True)
    return DemoResult(
        examples=[DemoExample(*row) for row in rows],
        exact=corpus_score(outputs, [expected], ExactMatch()),
        bleu=corpus_score(outputs, [expected], Bleu()),
    )
