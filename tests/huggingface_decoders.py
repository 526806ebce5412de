"""Small random decoder-only models of transformers with byte-level tokenizers, one folder per family."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

from tests.huggingface_models import save, sentences

SIZES = {
    "hidden_size": 36,
    "intermediate_size": 53,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 61,
}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write_tokenizer(folder: Path, symbols: list[str], *, size: int = 330, bos: str | None = None, **names: str) -> int:
    """Write a byte-level `tokenizer.json`, and return its size; `bos` precedes each text."""
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, special_tokens=symbols, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(sentences(), trainer)
    if bos is not None:
        trained.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, trained.token_to_id(bos))]
        )
    trained.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return trained.get_vocab_size()


def write_gpt2(folder: Path) -> Any:
    """Write a GPT-2 model, whose one special symbol begins and ends texts."""
    end = "<|endoftext|>"
    size = write_tokenizer(folder, [end], bos_token=end, eos_token=end, unk_token=end)
    config = transformers.GPT2Config(
        vocab_size=size, n_positions=61, n_embd=36, n_layer=3, n_head=6, n_inner=53, bos_token_id=0, eos_token_id=0
    )
    return save(randomized(transformers.GPT2LMHeadModel(config)), folder)


def write_llama(folder: Path, *, dtype: torch.dtype = torch.float32, **options: Any) -> Any:
    """Write a Llama model with a begin symbol before each text, and embeddings without a token."""
    names = {"bos_token": "<s>", "eos_token": "</s>"}
    size = write_tokenizer(folder, ["<unk>", "<s>", "</s>"], bos="<s>", **names)
    config = transformers.LlamaConfig(
        **{**SIZES, **options}, vocab_size=size + 3, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False
    )
    return save(randomized(transformers.LlamaForCausalLM(config)).to(dtype), folder)


def write_smollm(folder: Path) -> Any:
    """Write a tied Llama model with a chat template, and one symbol for padding and ends."""
    symbols = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    names = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    size = write_tokenizer(folder, symbols, chat_template=CHATML, **names)
    config = transformers.LlamaConfig(
        **SIZES, vocab_size=size, bos_token_id=1, eos_token_id=2, pad_token_id=2, tie_word_embeddings=True
    )
    return save(randomized(transformers.LlamaForCausalLM(config)), folder)


def write_mistral(folder: Path) -> Any:
    """Write a Mistral model with a window."""
    size = write_tokenizer(folder, ["<unk>", "<s>", "</s>"], bos="<s>", bos_token="<s>", eos_token="</s>")
    config = transformers.MistralConfig(**SIZES, vocab_size=size, sliding_window=7, head_dim=10)
    return save(randomized(transformers.MistralForCausalLM(config)), folder)


def write_qwen2(folder: Path) -> Any:
    """Write a Qwen2 model, which has no begin symbol."""
    end = "<|endoftext|>"
    size = write_tokenizer(folder, [end, "<|im_start|>", "<|im_end|>"], eos_token="<|im_end|>", pad_token=end)
    config = transformers.Qwen2Config(
        **SIZES, vocab_size=size, eos_token_id=2, pad_token_id=0, bos_token_id=None, tie_word_embeddings=True
    )
    return save(randomized(transformers.Qwen2ForCausalLM(config)), folder)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "gpt2": write_gpt2,
    "llama": write_llama,
    "llama_biases": lambda folder: write_llama(folder, attention_bias=True, mlp_bias=True),
    "llama3": lambda folder: write_llama(
        folder, rope_parameters={**LLAMA3, "original_max_position_embeddings": 32}, dtype=torch.bfloat16
    ),
    "smollm": write_smollm,
    "mistral": write_mistral,
    "qwen2": write_qwen2,
}


def randomized(model: Any) -> Any:
    """Draw all matrices, and add noise to all vectors, which begin with zeros and ones."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(float(parameter.ndim == 1))
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
        model.get_output_embeddings().weight[model.config.eos_token_id].mul_(2.0)
    model.generation_config.update(do_sample=False)
    return model.eval()
