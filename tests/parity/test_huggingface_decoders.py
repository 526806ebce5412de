"""Decoder-only models of transformers, imported and written back: equal logits, tokens, outputs and files."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.inference.generation.generator import Generator
from dragoman.interop.huggingface.partner import read, recognizes
from dragoman.interop.huggingface.write_model import write
from dragoman.interop.imported_model import ExportedModel, ImportedModel, ImportOptions
from dragoman.interop.self_check import check_logits, loaded_network
from dragoman.runs.import_model import import_model
from dragoman.runs.load import load, load_torch_model
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
    rule = {"early_stopping": True, "keep_greedy": False}
    beam = DecodingConfig(beam_size=4, length_penalty=1.0, cut_off="ranked", **rule)
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


@pytest.fixture(scope="module")
def two_ends(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ImportedModel]:
    """Qwen2 model whose outputs end at two symbols, of which one pads, with sampling as its authors recommend."""
    folder = tmp_path_factory.mktemp("two_ends")
    model = WRITERS["qwen2"](folder)
    with torch.no_grad():
        model.get_output_embeddings().weight[0] *= 1.3
    model.save_pretrained(folder)
    settings = {"eos_token_id": [2, 0], "pad_token_id": 0, "do_sample": True, "temperature": 0.7, "top_p": 0.9}
    (folder / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder, read(folder, ImportOptions())


def test_several_end_symbols_end_outputs_as_in_generate(two_ends: tuple[Path, ImportedModel]) -> None:
    folder, model = two_ends
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    order = model.origin.orders["target"]
    assert order.foreign_ids[[0, 3, *model.generation.end_tokens]].tolist() == [0, 2, 0]
    generator = Generator(loaded_network(model), model.tokenizer, context=model.max_length, config=model.generation)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    ended = set()
    rule = {"early_stopping": True, "keep_greedy": False}
    for prompt in PROMPTS[:12]:
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        for config, beam in (
            (SamplingConfig(temperature=0, allow_unk=True), 1),
            (DecodingConfig(beam_size=3, length_penalty=1.0, cut_off="ranked", **rule), 3),
        ):
            [[found]] = generator.generate_n_best([prompt], config, max_new_tokens=MOST)
            with torch.inference_mode():
                options = {"num_beams": beam, "early_stopping": True} if beam > 1 else {}
                output = theirs.generate(ids, max_new_tokens=MOST, do_sample=False, length_penalty=1.0, **options)
            expected = output[0, ids.shape[1] :].tolist()
            length = next((place for place, token in enumerate(expected) if token in (2, 0)), len(expected))
            assert order.foreign_ids[list(found.hypothesis.tokens)].tolist() == expected[:length]
            assert found.hypothesis.finished or length == len(expected)
            ended |= set(expected[length : length + 1])
    assert ended == {0, 2}


def test_sampling_of_the_files_is_that_of_the_run(two_ends: tuple[Path, ImportedModel], tmp_path: Path) -> None:
    folder, model = two_ends
    import_model(folder, tmp_path / "run")
    for loaded in (load(tmp_path / "run", Generator, device="cpu"), load_torch_model(tmp_path / "run", device="cpu")):
        assert loaded.config == model.generation
        assert (loaded.config.temperature, loaded.config.top_p) == (0.7, 0.9)
        given = SamplingConfig(temperature=0.7, top_p=0.9, top_k=50)
        assert str(loaded.generate("a", max_new_tokens=9)) == str(loaded.generate("a", given, max_new_tokens=9))
        greedy = loaded.generate("a", temperature=0, max_new_tokens=9)
        assert str(greedy) == str(loaded.generate("a", SamplingConfig(temperature=0), max_new_tokens=9))
