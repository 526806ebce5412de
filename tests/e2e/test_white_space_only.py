"""Texts that have nothing but white space come back as they are."""

import pytest

import dragoman
from dragoman.cli import main
from dragoman.data.tokenizers import BpeConfig, WordConfig
from tests.untrained_runs import finished_run

TEXTS = ["   ", "\t", "", " \u3000\u00a0 "]
TOKENIZERS = {"kept": BpeConfig(vocab_size=300, whitespace="keep"), "collapsed": WordConfig()}


@pytest.fixture(params=TOKENIZERS)
def run_path(request, tmp_path):
    return finished_run(tmp_path / "run", vocabulary=TOKENIZERS[request.param]).path


@pytest.mark.parametrize(
    "options", [{}, {"beam_size": 3, "n_best": 2}, {"markup": "xml"}, {"placeholders": True}, {"target_prefix": "zwei"}]
)
def test_white_space_is_not_translated(run_path, options):
    translator = dragoman.load(run_path, device="cpu")
    results = translator.translate(TEXTS, **options)
    assert [[translation.text for translation in result] for result in results] == [[text] for text in TEXTS]
    streamed = translator.translate_stream(iter(TEXTS), **options)
    assert [result.text for result in streamed] == TEXTS


def test_command_prints_white_space(run_path, tmp_path, capsys):
    (tmp_path / "texts").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    assert main.run(["translate", str(run_path), "--input", str(tmp_path / "texts")], debug=False) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == TEXTS
