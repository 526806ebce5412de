import json

from dragoman.evaluation import (
    Chrf,
    ExactMatch,
    PairedResult,
    Score,
    sentence_rows,
    sentence_scores,
)


def test_dictionary_of_a_score():
    rows = [Score("BLEU", 12.345678, "nrefs:1|case:lc", "50.0/…", True).to_dict()]
    assert rows == [
        {
            "metric": "BLEU",
            "score": 12.3457,
            "signature": "nrefs:1|case:lc",
            "detail": "50.0/…",
            "higher_is_better": True,
        }
    ]
    assert json.loads(json.dumps(rows)) == rows


def test_sentence_rows_have_one_column_per_metric():
    outputs, reference = ["a b", "c"], ["a b", "d"]
    columns = [sentence_scores(outputs, [reference], metric) for metric in (ExactMatch(), Chrf())]
    assert sentence_rows(columns) == [
        {"line": 1, "exact": 100.0, "chrF2": 100.0},
        {"line": 2, "exact": 0.0, "chrF2": 0.0},
    ]


def test_comparison_rows_contain_the_verdict():
    baseline = PairedResult("A", "BLEU", 30.0, 30.01, 1.0, None, None, None, True, "s")
    better = PairedResult("B", "BLEU", 32.00004, 32.0, 1.5, 2.00004, 0.01, 0.02, True, "s")
    rows = [one.row() for one in (baseline, better)]
    assert [row["verdict"] for row in rows] == ["baseline", "better"]
    assert rows[0]["p_bootstrap"] is None
    assert rows[1] == {
        "metric": "BLEU",
        "system": "B",
        "score": 32.0,
        "mean": 32.0,
        "confidence": 1.5,
        "difference": 2.0,
        "p_bootstrap": 0.01,
        "p_randomization": 0.02,
        "verdict": "better",
        "signature": "s",
    }
