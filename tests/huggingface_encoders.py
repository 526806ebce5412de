"""Small random encoder-only models of transformers with their tokenizers, one folder per family and head."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from tests.huggingface_models import save, sentences

SIZES = {
    "hidden_size": 36,
    "intermediate_size": 53,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 61,
}
BERT_SYMBOLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def write_word_pieces(folder: Path) -> int:
    """Write the WordPiece tokenizer of BERT, whose symbols are not first, and return its size."""
    trained = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.normalizer = normalizers.BertNormalizer(lowercase=True)
    trained.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trained.train_from_iterator(
        sentences(), trainers.WordPieceTrainer(vocab_size=230, special_tokens=["[PAD]", "[unused]", *BERT_SYMBOLS[1:]])
    )
    ends = [(one, trained.token_to_id(one)) for one in ("[CLS]", "[SEP]")]
    trained.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    trained.enable_truncation(7)
    trained.enable_padding()
    return _write(trained, folder, dict(zip(ROLES, BERT_SYMBOLS, strict=True)))


def write_bytes(folder: Path) -> int:
    """Write the byte-level tokenizer of RoBERTa, and return its size."""
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator(
        sentences(),
        trainers.BpeTrainer(vocab_size=330, special_tokens=list(ROBERTA_SYMBOLS), initial_alphabet=alphabet),
    )
    trained.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return _write(trained, folder, dict(zip(ROLES, ("<pad>", "<unk>", "<s>", "</s>", "<mask>"), strict=True)))


def write_bert(folder: Path, name: str = "BertForMaskedLM") -> Any:
    """Write a BERT model."""
    config = transformers.BertConfig(**SIZES, vocab_size=write_word_pieces(folder) + 2)
    return save(randomized(getattr(transformers, name)(config)), folder)


def write_roberta(folder: Path, name: str = "RobertaForMaskedLM") -> Any:
    """Write a RoBERTa model."""
    config = transformers.RobertaConfig(
        **SIZES, vocab_size=write_bytes(folder), pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5
    )
    return save(randomized(getattr(transformers, name)(config)), folder)


def write_distilbert(folder: Path, name: str = "DistilBertForMaskedLM") -> Any:
    """Write a DistilBERT model."""
    config = transformers.DistilBertConfig(
        vocab_size=write_word_pieces(folder), dim=36, hidden_dim=53, n_layers=3, n_heads=6, max_position_embeddings=61
    )
    return save(randomized(getattr(transformers, name)(config)), folder)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "bert": write_bert,
    "bert_base": lambda folder: write_bert(folder, "BertModel"),
    "roberta": write_roberta,
    "roberta_base": lambda folder: write_roberta(folder, "RobertaModel"),
    "distilbert": write_distilbert,
    "distilbert_base": lambda folder: write_distilbert(folder, "DistilBertModel"),
}


def randomized(model: Any) -> Any:
    """Add noise to all parameters, which begin with zeros and ones in part."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def _write(trained: Any, folder: Path, names: dict[str, str]) -> int:
    trained.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    size: int = trained.get_vocab_size()
    return size
