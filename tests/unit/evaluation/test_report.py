import json

from dragoman.evaluation import (
    Chrf,
    ExactMatch,
    Paired,
    Score,
    paired_rows,
    score_rows,
    sentence_rows,
    sentence_scores,
)


def test_a_score_becomes_plain_data():
    rows = score_rows([Score("BLEU", 12.345678, "nrefs:1|case:lc", "50.0/…", True)])
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


def test_sentences_have_a_row_each_and_a_column_a_metric():
    outputs, reference = ["a b", "c"], ["a b", "d"]
    columns = [sentence_scores(outputs, [reference], metric) for metric in (ExactMatch(), Chrf())]
    assert sentence_rows(columns) == [
        {"line": 1, "exact": 100.0, "chrF2": 100.0},
        {"line": 2, "exact": 0.0, "chrF2": 0.0},
    ]


def test_a_comparison_becomes_plain_data_with_its_verdict():
    baseline = Paired("A", "BLEU", 30.0, 30.01, 1.0, None, None, None, True, "s")
    better = Paired("B", "BLEU", 32.00004, 32.0, 1.5, 2.00004, 0.01, 0.02, True, "s")
    rows = paired_rows([baseline, better])
    assert [row["verdict"] for row in rows] == ["baseline", "better"]
    assert rows[0]["p_bootstrap"] is None
    assert rows[1] == {
        "metric": "BLEU",
        "system": "B",
        "score": 32.0,
        "mean": 32.0,
        "interval": 1.5,
        "difference": 2.0,
        "p_bootstrap": 0.01,
        "p_randomisation": 0.02,
        "verdict": "better",
        "signature": "s",
    }
