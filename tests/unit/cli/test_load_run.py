"""Files given to a run in exchanged places."""

import pytest

from dragoman.cli import main
from tests.untrained_runs import finished_run


@pytest.mark.parametrize("verb", [["evaluate", "--reference"], ["score", "--target"]], ids=lambda verb: verb[0])
@pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning")
def test_exchanged_languages_give_a_warning(verb, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    train = {"kind": "files", "source": "/corpora/train.en.gz", "target": "/corpora/train.de"}
    finished_run(tmp_path / "run", {"data": {"train": train}})
    for name in ("a.en", "a.de", "text", "other"):
        (tmp_path / name).write_text("two dogs\n", encoding="utf-8")
    name, option = verb
    for source, target, exchanged in (("a.de", "a.en", True), ("a.en", "a.de", False), ("text", "other", False)):
        assert main.run([name, "run", "--source", source, option, target], debug=True) == 0
        assert ("run translates from .en to .de" in capfd.readouterr().err) == exchanged
