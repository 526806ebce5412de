"""Translation models trained here, in transformers: the same tokens, logits and translations."""

from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.data.tokenizers import BpeConfig, CharacterConfig, TokenizerConfig, UnigramConfig
from dragoman.errors import ConfigError
from dragoman.models.special_symbols import BOS, EOS
from tests.huggingface_models import sentences
from tests.untrained_runs import finished_run

transformers = pytest.importorskip("transformers", reason="transformers is the judge")
TEXTS = [*sentences(9), "two dogs play .", "  a   cat\tsits\n", "Ünïcode ﬁ 語 😀", "12,5 x_y ▁ <pad>", "İX É"]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("PegasusForConditionalGeneration", {}),
    ("PegasusForConditionalGeneration", {"activation": "gelu", "positions": {"kind": "learned", "max_length": 61}}),
    ("MarianMTModel", {"norm_position": "post", "activation": "silu"}),
    ("MarianMTModel", {"norm_position": "post", "positions": {"kind": "sinusoidal", "order": "halves"}}),
    (
        "BartForConditionalGeneration",
        {
            "norm_position": "post",
            "norm_embedding": True,
            "positions": {"kind": "learned", "max_length": 61, "offset": 2},
        },
    ),
    (
        "MBartForConditionalGeneration",
        {"norm_embedding": True, "positions": {"kind": "learned", "max_length": 61, "offset": 2}},
    ),
]


def export(folder: Path, model: dict[str, Any], vocabulary: TokenizerConfig) -> tuple[Any, Any, Any]:
    """Return a random model of dragoman, and the model and tokenizer that transformers loads from its export."""
    data = {"data": {"max_source_length": 60, "max_target_length": 60}}
    run = finished_run(folder / "run", {"model": model, **data}, vocabulary=vocabulary)
    dragoman.export(run.path, folder / "out", format="huggingface")
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder / "out").eval()
    return dragoman.load(run.path, device="cpu"), network, transformers.AutoTokenizer.from_pretrained(folder / "out")


@pytest.mark.parametrize(("name", "model"), CASES)
@torch.no_grad()
def test_logits_and_outputs_equal_transformers(name: str, model: dict[str, Any], tmp_path: Path) -> None:
    ours, theirs, tokenizer = export(tmp_path, model, BpeConfig(vocab_size=300))
    assert type(theirs).__name__ == name
    source, target = "two dogs play", ours.tokenizer.target.encode("zwei Hunde")
    [scored] = ours.score([source], ["zwei Hunde"])
    logits = theirs(**tokenizer([source], return_tensors="pt"), decoder_input_ids=torch.tensor([[BOS, *target]])).logits
    log_probs = logits[0].log_softmax(dim=-1)[range(len(target) + 1), [*target, EOS]]
    assert log_probs.tolist() == pytest.approx(scored.token_log_probs, abs=1e-4)


@pytest.mark.parametrize(
    "vocabulary",
    [
        BpeConfig(vocab_size=300),
        BpeConfig(vocab_size=300, casing="lower", normalization="nfkc"),
        UnigramConfig(vocab_size=300),
        CharacterConfig(),
    ],
)
def test_tokens_and_texts_equal_transformers(vocabulary: TokenizerConfig, tmp_path: Path) -> None:
    ours, _, tokenizer = export(tmp_path, {}, vocabulary)
    for text in TEXTS:
        ids = ours.tokenizer.source.encode(text)
        if "<" not in text:
            assert tokenizer(text)["input_ids"] == [*ids, EOS], text
        assert tokenizer.decode([*ids, EOS], skip_special_tokens=True) == ours.tokenizer.target.decode(ids)


def test_network_without_counterpart_is_refused(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run", {"model": {"norm": "rms"}})
    with pytest.raises(ConfigError, match=r"has this network \(.* has another model.norm\)"):
        dragoman.export(run.path, tmp_path / "out", format="huggingface")
