"""The demo: a small model that learns to write dates, times, numbers and amounts in another language.

Its corpus is made on the spot from the CLDR. Held-out phrases never occur in training, whole; what the model must have
learnt are the rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.config import Tree, merge, override
from dragoman.data.readers.corpus import read_corpus
from dragoman.data.readers.parallel import ParallelFiles
from dragoman.errors import RunError
from dragoman.evaluation import Bleu, ExactMatch, Score, corpus_score
from dragoman.inference.translator import Translator
from dragoman.runs.config import parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import Experiment
from dragoman_demo import CorpusFiles, known_locale, split, write_corpus

TRAIN_PHRASES = 150_000
"""Phrases to learn from: a little more than the training sees, so that hardly any is seen twice."""

DEMO_SETTINGS: Tree = {
    "preset": "nano",
    "data": {"cleaning": {"remove_copies": False, "remove_duplicates": False}},
    "tokenizer": {"kind": "bpe", "vocab_size": 1500, "byte_fallback": False},
    "model": {"dropout": {"embedding": 0.0, "residual": 0.0}},
    "training": {
        "max_steps": 6000,
        "validate_every": 3000,
        "batch_tokens": 320,
        "optimizer": {"kind": "adamw", "learning_rate": 0.003},
        "schedule": {"kind": "cosine", "warmup": 200},
        "label_smoothing": 0.0,
        "keep_checkpoints": 1,
    },
    "decoding": {"beam_size": 1},
    "metrics": [{"kind": "exact"}, {"kind": "bleu"}],
}
"""Found on the validation part of the English to French corpus: of equal numbers of tokens, more updates on smaller
batches learnt more. Phrases are clean, and numbers are often the same in both languages, so nothing is removed."""


@dataclass(frozen=True)
class DemoExample:
    """A held-out phrase, what the model made of it, and what the CLDR has."""

    family: str
    source: str
    output: str
    expected: str

    @property
    def right(self) -> bool:
        return self.output == self.expected


@dataclass(frozen=True)
class DemoResult:
    """The held-out phrases, translated and scored."""

    examples: list[DemoExample]
    exact: Score
    bleu: Score

    def by_family(self) -> dict[str, tuple[int, int]]:
        """Of each family, how many are right and how many there are."""
        counts: dict[str, tuple[int, int]] = {}
        for example in self.examples:
            right, total = counts.get(example.family, (0, 0))
            counts[example.family] = right + example.right, total + 1
        return counts


def corpus_dir(folder: RunFolder) -> Path:
    """Where the corpus of a demo lies."""
    return folder.path / "corpus"


def write_demo_corpus(folder: RunFolder, *, source_locale: str, target_locale: str) -> CorpusFiles:
    """Write the corpus into the run folder, or find it there; the same locales give the same files."""
    parts = split(train=TRAIN_PHRASES, source_locale=source_locale, target_locale=target_locale)
    return write_corpus(corpus_dir(folder), parts, source_locale=source_locale, target_locale=target_locale)


def demo_experiment(files: CorpusFiles, assignments: Sequence[str] = ()) -> Experiment:
    """The configuration of the demo on these files, with `KEY=VALUE` assignments laid over it."""
    corpora = {name: getattr(files, name).model_dump(mode="json") for name in ("train", "valid", "test")}
    return parse_experiment(override(merge(DEMO_SETTINGS, {"data": corpora}), assignments))


def has_target_locale(folder: RunFolder, target_locale: str) -> bool:
    """Whether the demo of a folder translates to a locale, however spelt; raises DataError on an unknown one."""
    test = folder.read_config().data.test
    ending = Path(str(test.target)).suffix.removeprefix(".") if isinstance(test, ParallelFiles) else ""
    return ending in (target_locale, str(known_locale(target_locale)))


def translate_held_out(translator: Translator, folder: RunFolder) -> DemoResult:
    """Translate the held-out phrases of a demo's folder; raises RunError where it holds none."""
    test = folder.read_config().data.test
    families = corpus_dir(folder) / "test.family"
    if not isinstance(test, ParallelFiles) or not families.exists():
        raise RunError(f"{folder.path}: is not the folder of a demo; choose another by --out")
    phrases = list(read_corpus(test))
    results = translator.translate([phrase.source for phrase in phrases], beam_size=1)
    outputs = [result.text for result in results]
    normalise = translator.tokenizer.target.normalize
    expected = [normalise(phrase.target) for phrase in phrases]
    names = families.read_text(encoding="utf-8").splitlines()
    rows = zip(names, (phrase.source for phrase in phrases), outputs, expected, strict=True)
    return DemoResult(
        examples=[DemoExample(*row) for row in rows],
        exact=corpus_score(outputs, [expected], ExactMatch()),
        bleu=corpus_score(outputs, [expected], Bleu()),
    )


def demo_dir(source_locale: str, target_locale: str) -> Path:
    """Where the demo of two locales lives unless told otherwise."""
    return Path("runs") / f"demo-{source_locale}-{target_locale}"
