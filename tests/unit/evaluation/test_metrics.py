"""Golden values: worked by hand where a comment shows it, else from the sacreBLEU command, run as a process."""

import json
import math
import subprocess
import sys

import pytest

from dragoman.config import parse
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import Bleu, Chrf, ChrfPlusPlus, ExactMatch, Ter, corpus_score, sentence_scores
from dragoman.evaluation.metrics import check_aligned

REFERENCE = ["The cat sat on the mat .", "A dog barks at me , loudly .", "Hello there , my friend !"]
OTHER_REFERENCE = ["A cat was sitting on the mat.", "Loudly a dog is barking at me.", "Hello, my friend!"]
OUTPUT = ["The cat sat on a mat .", "Loudly a dog barks at me .", "hello there , my friends !"]

GOLDEN = [
    # 1- to 4-grams matched 5/6, 3/5, 2/4, 1/3; their geometric mean is the fourth root of 1/12.
    (Bleu(tokenize="none"), "the cat sat on a mat", ["the cat sat on the mat"], 100 * (1 / 12) ** 0.25),
    # All that is there matches; 4 words against 6: the brevity penalty exp(1 - 6/4).
    (Bleu(tokenize="none"), "the cat sat on", ["the cat sat on the mat"], 100 * math.exp(-1 / 2)),
    # Clipping (Papineni et al., 2002, section 2.1): "the" occurs at most twice in a reference, so 2/7.
    (
        Bleu(tokenize="none", order=1),
        "the the the the the the the",
        ["the cat is on the mat", "there is a cat on the mat"],
        100 * 2 / 7,
    ),
    # One word matched in each of the two references: 2/2.
    (Bleu(tokenize="none", order=1), "a b", ["a c", "d b"], 100.0),
    # 13a splits "mat." into two words, so all four orders match; `none` does not, and matches 5/6, 4/5, 3/4, 2/3.
    (Bleu(), "the cat sat on the mat.", ["the cat sat on the mat ."], 100.0),
    (Bleu(tokenize="none"), "a b c d e f", ["a b c d e F"], 100 * (1 / 3) ** 0.25),
    (Bleu(tokenize="none", lowercase=True), "a b c d e f", ["a b c d e F"], 100.0),
    # Characters 2/2 of 3 and pairs 1/1 of 2: P = 1, R = (2/3 + 1/2) / 2 = 7/12, F2 = 5PR / (4P + R) = 7/11.
    (Chrf(), "ab", ["abc"], 100 * 7 / 11),
    # With the word, which is wrong: P = 2/3, R = 7/18, F2 = 14/33.
    (ChrfPlusPlus(), "ab", ["abc"], 100 * 14 / 33),
    # One substitution for six words.
    (Ter(), "a cat sat on the mat", ["the cat sat on the mat"], 100 / 6),
    # "a" shifted to the front is one edit, whatever the distance.
    (Ter(), "b c d a", ["a b c d"], 100 / 4),
    # One insertion against the nearer reference; (3 + 5) / 2 words on the average.
    (Ter(), "a b", ["a b c", "v w x y z"], 100 / 4),
    (Ter(), "A b", ["a b"], 0.0),
    (Ter(lowercase=False), "A b", ["a b"], 50.0),
    (ExactMatch(), " a b\t", ["a b"], 100.0),
    (ExactMatch(), "A b", ["a b", "b a"], 0.0),
    (ExactMatch(lowercase=True), "A b", ["b a", "a b"], 100.0),
]


@pytest.mark.parametrize(("metric", "output", "references", "expected"), GOLDEN)
def test_values_computed_by_hand(metric, output, references, expected):
    score = corpus_score([output], [[reference] for reference in references], metric)
    assert score.value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (Bleu(), ["-m", "bleu"]),
        (Bleu(tokenize="none", lowercase=True), ["-m", "bleu", "--tokenize", "none", "--lowercase"]),
        (Bleu(tokenize="intl"), ["-m", "bleu", "--tokenize", "intl"]),
        (Bleu(tokenize="char", smoothing="floor"), ["-m", "bleu", "--tokenize", "char", "--smooth-method", "floor"]),
        (Bleu(tokenize="zh"), ["-m", "bleu", "--tokenize", "zh"]),
        (Chrf(), ["-m", "chrf"]),
        (
            Chrf(order=4, beta=3, lowercase=True),
            ["-m", "chrf", "--chrf-char-order", "4", "--chrf-beta", "3", "--chrf-lowercase"],
        ),
        (ChrfPlusPlus(), ["-m", "chrf", "--chrf-word-order", "2"]),
        (Ter(), ["-m", "ter"]),
        (Ter(lowercase=False), ["-m", "ter", "--ter-case-sensitive"]),
        (
            Ter(normalize=True, punctuation=False),
            ["-m", "ter", "--ter-normalized", "--ter-no-punct"],
        ),
    ],
)
@pytest.mark.parametrize("references", [[REFERENCE], [REFERENCE, OTHER_REFERENCE]], ids=["one", "two"])
def test_scores_and_signatures_equal_sacrebleu_command(metric, options, references, tmp_path):
    names = [tmp_path / f"reference.{number}" for number, _ in enumerate(references)]
    for name, lines in zip(names, references, strict=True):
        name.write_text("\n".join(lines) + "\n", encoding="utf-8")
    outputs = tmp_path / "outputs"
    outputs.write_text("\n".join(OUTPUT) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", *map(str, names), "-i", str(outputs), *options, "-w", "6"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    score = corpus_score(OUTPUT, references, metric)
    assert score.value == pytest.approx(answer["score"], abs=1e-6)
    assert (score.metric, score.signature) == (answer["name"], answer["signature"])


def test_short_sentence_uses_effective_ngram_order():
    scores = sentence_scores(["good day", "a b"], [["good day", "a c"]], Bleu())
    # The second: 1/2 of the words match, no pair does and counts 1/2 of one (exp smoothing): sqrt(1/2 * 1/2).
    assert [score.value for score in scores] == pytest.approx([100.0, 50.0])
    assert "eff:yes" in scores[0].signature


def test_signature_contains_number_of_references():
    assert "nrefs:2" in corpus_score(OUTPUT, [REFERENCE, OTHER_REFERENCE], ExactMatch()).signature
    assert "case:lc" in corpus_score(OUTPUT, [REFERENCE], ExactMatch(lowercase=True)).signature


def test_empty_output_is_scored():
    assert corpus_score(["", "a b c d"], [["e f g h", "a b c d"]], Bleu()).value == pytest.approx(100 * math.exp(-1))
    assert corpus_score([""], [["a"]], ExactMatch()).value == 0


def test_score_is_formatted_as_in_sacrebleu():
    text = str(corpus_score(["the cat sat on a mat"], [["the cat sat on the mat"]], Bleu()))
    assert text.startswith("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert text.endswith("= 53.73 83.3/60.0/50.0/33.3 (BP = 1.000 ratio = 1.000 hyp_len = 6 ref_len = 6)")


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [[]], "hypotheses: contains no sentences"),
        (["a"], [], "no reference"),
        (["a", "b"], [["a", "b"], ["a"]], "reference 2: 1 sentence, but hypotheses has 2"),
    ],
)
def test_unequal_numbers_of_sentences_are_an_error(hypotheses, references, message):
    for score in (corpus_score, sentence_scores):
        with pytest.raises(DataError, match=message):
            score(hypotheses, references, Bleu())


def test_length_errors_use_the_given_names():
    with pytest.raises(DataError, match=r"b\.de: 2 sentences, but a\.de has 1"):
        check_aligned(["x"], [["x", "y"]], names=["a.de", "b.de"])


@pytest.mark.parametrize(("tokenize", "remedy"), [("ja-mecab", "sacrebleu[ja]"), ("flores200", "sentencepiece")])
def test_missing_tokenizer_library_names_the_remedy(tokenize, remedy, monkeypatch):
    for module in ("MeCab", "ipadic", "sentencepiece", "sacrebleu.tokenizers.tokenizer_ja_mecab"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError) as caught:
        corpus_score(["a"], [["a"]], Bleu(tokenize=tokenize))
    assert tokenize in str(caught.value)
    assert remedy in str(caught.value)


def test_unknown_tokenization_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"tokenize = 'moses': must be '13a', 'none'"):
        parse(Bleu, {"tokenize": "moses"})
