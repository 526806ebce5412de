"""Write a tiny model per family of Hugging Face and GGUF, with logits and outputs of transformers.

    python -m tests.golden.record_imports

The folders are committed, so that `test_recorded_imports.py` needs no transformers. All weights are random.
"""

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors

from tests import gguf_models
from tests.configuration_variations import their_results

FOLDER = Path(__file__).parent / "imports"
SYMBOLS = ("<pad>", "</s>", "<unk>", "<s>", "<mask>")
TEXTS = ["the cat sat on a mat", "big dogs run", "no"]
BART = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 40,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
T5 = {"d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2}
BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}
LLAMA = {**BERT, "num_attention_heads": 4, "num_key_value_heads": 2}
SEARCH: dict[str, Any] = {"num_beams": 3, "max_length": 14, "forced_bos_token_id": 7}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": ("MarianMTModel", {**BART, "activation_function": "swish", "scale_embedding": True}),
    "bart": ("BartForConditionalGeneration", BART),
    "mbart": ("MBartForConditionalGeneration", BART),
    "m2m_100": ("M2M100ForConditionalGeneration", BART),
    "pegasus": ("PegasusForConditionalGeneration", BART),
    "t5": ("T5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu"}),
    "mt5": ("MT5ForConditionalGeneration", T5),
    "gpt2": ("GPT2LMHeadModel", {"n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 24}),
    "llama": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": {"rope_type": "linear", "factor": 3.0}}),
    "mistral": ("MistralForCausalLM", {**LLAMA, "sliding_window": 5}),
    "qwen2": ("Qwen2ForCausalLM", {**LLAMA, "tie_word_embeddings": True}),
    "bert": ("BertForMaskedLM", BERT),
    "roberta": ("RobertaForMaskedLM", {**BERT, "type_vocab_size": 1}),
    "distilbert": ("DistilBertForMaskedLM", {"dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 2}),
}
"""Class of transformers and configuration of each model."""
SEEDS = {"bart": 5, "marian": 5}
"""Seed of the weights of each model whose outputs would be equal for all texts with the usual one."""


def write_tokenizer(folder: Path, kind: str) -> int:
    """Write a tokenizer of characters with the symbols around a text of a kind of model; return its size."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    vocab = {token: index for index, token in enumerate([*SYMBOLS, "▁", *letters, "th", "an", "▁a"])}
    merges = [("t", "h"), ("a", "n"), ("▁", "a")]
    built = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>"))
    built.pre_tokenizer = pre_tokenizers.Metaspace()
    built.decoder = decoders.Metaspace()
    template = {"seq2seq": "$A </s>", "bart": "<s> $A </s>", "encoder": "<s> $A </s>", "decoder": "<s> $A"}[kind]
    built.post_processor = processors.TemplateProcessing(template, f"{template} $B", [("</s>", 1), ("<s>", 3)])
    built.add_special_tokens(list(SYMBOLS))
    built.save(str(folder / "tokenizer.json"), pretty=False)
    roles = ("pad_token", "eos_token", "unk_token", "bos_token", "mask_token")
    names = {**dict(zip(roles, SYMBOLS, strict=True)), "cls_token": "<s>", "sep_token": "</s>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return len(vocab)


def write_model(family: str, folder: Path) -> Any:
    """Write a model, whose weights are numbers of float16, and return it in float32."""
    name, options = MODELS[family]
    kind = "bart" if family == "bart" else "seq2seq"
    if family in ("gpt2", "llama", "mistral", "qwen2"):
        kind = "decoder"
    if family in ("bert", "roberta", "distilbert"):
        kind = "encoder"
    size = write_tokenizer(folder, kind)
    symbols = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 3}
    model_class = getattr(transformers, name)
    model = model_class(model_class.config_class(**{**options, **symbols, "vocab_size": size}))
    generator = torch.Generator().manual_seed(SEEDS.get(family, 8))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.6 * torch.randn(parameter.shape, generator=generator))
        model.get_input_embeddings().weight[1].mul_(0.3)  # so that outputs do not end at once
    if kind != "encoder":
        model.generation_config.update(suppress_tokens=[0, 2, 3, 9])
    if kind in ("seq2seq", "bart"):
        model.generation_config.update(**SEARCH)
    model.half().save_pretrained(folder)
    return model_class.from_pretrained(folder, dtype=torch.float32).eval()


def round_logits(results: dict[str, Any]) -> dict[str, Any]:
    """Return the results as plain values."""
    return {**results, "logits": [[round(float(value), 5) for value in row] for row in results["logits"]]}


def main() -> None:
    """Write all models."""
    transformers.utils.logging.set_verbosity_error()
    for family in MODELS:
        folder = FOLDER / family
        folder.mkdir(parents=True, exist_ok=True)
        model = write_model(family, folder)
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
        results = round_logits(their_results(model, tokenizer, None, texts=TEXTS))
        (folder / "expected.json").write_text(json.dumps(results), encoding="utf-8")
        print(family, sum(path.stat().st_size for path in folder.iterdir()), results.get("outputs"))
    write_gguf()


def write_gguf() -> None:
    """Write a GGUF file of the layout of Llama, and the logits of the same weights in transformers."""
    folder = FOLDER / "gguf"
    folder.mkdir(exist_ok=True)
    sizes = {**LLAMA, "hidden_size": 32, "intermediate_size": 32, "vocab_size": 256 + len(gguf_models.SYMBOLS)}
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, tie_word_embeddings=True)).half().float()
    gguf_models.write_gguf(folder / "model.gguf", model, gguf_models.gguf.GGMLQuantizationType.F16)
    again = transformers.LlamaForCausalLM(model.config)  # with the base of the positions that was written
    again.load_state_dict(model.state_dict())
    ids = [25, 39, 13, 21]
    with torch.inference_mode():
        logits = again.eval()(torch.tensor([ids])).logits[0]
    results = round_logits({"logits": logits, "ids": ids})
    (folder / "expected.json").write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
