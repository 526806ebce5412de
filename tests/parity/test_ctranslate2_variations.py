"""Settings of CTranslate2 changed one at a time are computed equally, or refused by name."""

import pytest

pytest.importorskip("ctranslate2", reason="the judge of this format")


@pytest.mark.filterwarnings("ignore")
def test_changed_settings_are_equal_or_refused_by_name() -> None:
    from tests.ctranslate2_variations import run_all

    table = run_all(30, seed=1)
    total = sum(table.values(), start=type(next(iter(table.values())))())
    assert total["different"] == total["unnamed"] == 0
    assert total["equal"] > 9
    assert total["refused"] > 3
