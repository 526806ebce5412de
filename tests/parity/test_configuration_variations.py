"""Configurations varied one key at a time: imports equal transformers, or an error names the key."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

transformers = pytest.importorskip("transformers", reason="transformers is the judge")
judging = pytest.importorskip("tests.configuration_variations")
CONFIG, GENERATION = judging.CONFIG, judging.GENERATION
MANY = 60
"""Variations of a model in the slow tests."""
LIMITS = {"max_length", "eos_token_id"}
"""Keys whose absence has another meaning in transformers: a limit of 20 tokens, or outputs without an end."""
CHOSEN: dict[str, list[tuple[str, str, Any]]] = {
    "marian": [(GENERATION, "forced_bos_token_id", 9), (GENERATION, "eos_token_id", [0, 9])],
    "pegasus": [(GENERATION, "forced_bos_token_id", 9), (GENERATION, "suppress_tokens", [7, 9, 11])],
    "t5": [(GENERATION, "forced_bos_token_id", 9), (CONFIG, "num_hidden_layers", 3)],
    "mt5": [(GENERATION, "forced_bos_token_id", 9), (CONFIG, "tie_word_embeddings", False)],
    "mt5_untied": [(CONFIG, "tie_word_embeddings", True)],
    "llama": [(CONFIG, "rope_scaling", {"rope_type": "linear", "factor": 3.0}), (GENERATION, "suppress_tokens", [7])],
    "mistral": [(CONFIG, "sliding_window", judging.REMOVED), (GENERATION, "min_new_tokens", 7)],
    "qwen2": [(CONFIG, "attention_bias", False), (GENERATION, "repetition_penalty", 1.3)],
}
"""Variations that other libraries and earlier versions read differently."""
Judge = Callable[[str], Any]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Return the judge of a model."""
    return lambda model: judging.Judge(model, tmp_path_factory.mktemp(model))


@pytest.mark.parametrize("model", CHOSEN)
def test_chosen_variations_equal_transformers(model: str, judge: Judge) -> None:
    judged = judge(model)
    for change in CHOSEN[model]:
        outcome = judged.judge(judging.Variation(*change))
        assert outcome.outcome == "equal", outcome


@pytest.mark.slow
@pytest.mark.parametrize("model", [model for group in judging.GROUPS.values() for model in group])
def test_many_variations_are_equal_or_refused(model: str, judge: Judge) -> None:
    check_variations(judge(model), MANY)


def check_variations(judged: Any, count: int) -> None:
    """Assert that the first variations of a model are equal, or refused with an error that names the key."""
    changes = judging.variations(judged.model, judged.original)[:count]
    outcomes = [judged.judge(change) for change in changes if change.key not in LIMITS]
    wrong = [outcome for outcome in outcomes if outcome.outcome not in ("equal", "refused", "no judge")]
    assert wrong == []
    assert any(outcome.outcome == "equal" for outcome in outcomes)


def test_import_without_a_listed_key_is_refused(tmp_path: Path, judge: Judge) -> None:
    outcome = judge("gpt2").judge(judging.Variation(CONFIG, "some_new_key", 1))
    assert outcome.outcome == "refused"
    assert "--allow-unused some_new_key" in outcome.message
