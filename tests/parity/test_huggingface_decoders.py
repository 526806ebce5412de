"""Decoder-only models of transformers, imported and written back: equal logits, tokens, outputs and files."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.inference.generator import Generator
from dragoman.interop.huggingface.partner import read, recognizes
from dragoman.interop.huggingface.write_model import write
from dragoman.interop.imported_model import ExportedModel, ImportedModel, ImportOptions
from dragoman.interop.self_check import check_logits, loaded_network
from tests.huggingface_decoders import WRITERS
from tests.huggingface_models import sentences

transformers = pytest.importorskip("transformers", reason="transformers is the judge")
MOST = 12
PROMPTS = [text[: 3 + 2 * number % 17] for number, text in enumerate(sentences(50, seed=5))]


@pytest.fixture(scope="module", params=WRITERS)
def imported(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ImportedModel]:
    folder = tmp_path_factory.mktemp(request.param)
    WRITERS[request.param](folder)
    return folder, read(folder, ImportOptions())


def test_decoder_logits_equal_transformers(imported: tuple[Path, ImportedModel]) -> None:
    folder, model = imported
    assert recognizes(folder)
    found = check_logits(model)
    assert found is not None
    assert found.max_difference < 1e-4
    assert found.same_best == found.positions


def test_decoder_tokens_equal_transformers(imported: tuple[Path, ImportedModel]) -> None:
    folder, model = imported
    theirs, order = transformers.PreTrainedTokenizerFast.from_pretrained(folder), model.origin.orders["source"]
    config: Any = model.tokenizer.config
    for text in [*PROMPTS, "", "  two  spaces ", "Ünknown 語 😀 _x", "a\tb\nc"]:
        ids = [int(order.foreign_ids[index]) for index in model.tokenizer.source.encode(text)]
        assert ids == theirs(text, add_special_tokens=False)["input_ids"], text
        assert [int(order.foreign_ids[2])] * config.bos + ids == theirs(text)["input_ids"], text


@pytest.mark.slow
def test_decoder_outputs_equal_generate(imported: tuple[Path, ImportedModel]) -> None:
    folder, model = imported
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    generator = Generator(loaded_network(model), model.tokenizer, context=model.max_length)
    greedy = generator.generate(PROMPTS, SamplingConfig(temperature=0, allow_unk=True), max_new_tokens=MOST)
    beam = DecodingConfig(beam_size=4, length_penalty=1.0, cut_off="ranked")
    searched = [one for [one, *_] in generator.generate_n_best(PROMPTS, beam, max_new_tokens=MOST)]
    order, outputs = model.origin.orders["target"], set[tuple[int, ...]]()
    for prompt, ours, best in zip(PROMPTS, greedy, searched, strict=True):
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        for completion, options in ((ours, {"num_beams": 1}), (best, {"num_beams": 4, "early_stopping": True})):
            found = _generate(theirs, ids, **options)
            tokens = [int(order.foreign_ids[token]) for token in completion.hypothesis.tokens]
            ends = theirs.config.eos_token_id
            assert tokens == [token for token in found if token != ends], (prompt, options)
            outputs.add(tuple(tokens))
    assert len(outputs) > 20


def _generate(model: Any, ids: torch.Tensor, **options: Any) -> list[int]:
    """Return the ids of the best output of transformers, without symbols that our search never puts out."""
    ends = model.config.eos_token_id
    never = {model.config.bos_token_id, model.config.pad_token_id} - {None, ends}
    with torch.inference_mode():
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=MOST,
            do_sample=False,
            length_penalty=1.0,
            pad_token_id=ends,
            suppress_tokens=sorted(never) or None,
            **options,
        )
    found: list[int] = output[0, ids.shape[1] :].tolist()
    return found


def test_decoder_files_come_back_unchanged(imported: tuple[Path, ImportedModel], tmp_path: Path) -> None:
    folder, model = imported
    exported = ExportedModel(
        name="model",
        task=model.task,
        network=model.network,
        weights=model.weights,
        tokenizer=model.tokenizer,
        max_length=model.max_length,
        origin=model.origin,
    )
    write(exported, tmp_path)
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "model.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype
        assert torch.equal(tensor, after[name]), name
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    first = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([[3, 5, 7, 11, 13]])
    assert torch.equal(again(ids).logits, first(ids).logits)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert (
        tokenizer(PROMPTS[3])["input_ids"]
        == transformers.PreTrainedTokenizerFast.from_pretrained(folder)(PROMPTS[3])["input_ids"]
    )
