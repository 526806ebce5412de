"""Small random models of transformers with trained tokenizers, one folder per family."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
import torch
import transformers

SENTENCES = 400
SIZES = {
    "d_model": 36,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 53,
    "decoder_ffn_dim": 53,
    "max_position_embeddings": 61,
}
T5_SIZES = {
    "d_model": 36,
    "d_kv": 7,
    "d_ff": 53,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 11,
    "decoder_start_token_id": 0,
}


def sentences(count: int = SENTENCES, *, seed: int = 0) -> list[str]:
    """Return sentences of invented words, with capitals, digits, accents and punctuation."""
    generator = random.Random(seed)
    syllables = ["ba", "de", "ki", "lo", "mu", "nér", "pas", "sto", "tri", "vu", "zö", "han", "gel"]
    words = ["".join(generator.choices(syllables, k=generator.randint(1, 3))) for _ in range(150)]
    found = []
    for _ in range(count):
        text = " ".join(generator.choices(words, k=generator.randint(2, 9))).capitalize()
        found.append(text + generator.choice([".", "!", "?", ", 27.", "; B12."]))
    return found


def train_pieces(path: Path, *, size: int = 120, seed: int = 0, **options: Any) -> list[str]:
    """Train a SentencePiece model, and return its pieces."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(seed=seed)),
        model_prefix=str(path.with_suffix("")),
        vocab_size=size,
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    path.with_suffix(".model").rename(path)
    path.with_suffix(".vocab").unlink()
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(index) for index in range(len(model))]


def write_marian(folder: Path, *, shared: bool = True) -> Any:
    """Write a Marian model with `source.spm`, `target.spm` and `vocab.json`."""
    source = train_pieces(folder / "source.spm", size=140)
    target = train_pieces(folder / "target.spm", size=130, seed=1)
    vocabs = [["</s>", "<unk>", *source[3:]], ["</s>", "<unk>", *target[3:]]]
    if shared:
        vocabs = [list(dict.fromkeys([*vocabs[0], *vocabs[1]]))] * 2
    ids = [{token: index for index, token in enumerate([*vocab, "<pad>"])} for vocab in vocabs]
    _write(folder / "vocab.json", ids[0])
    settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": not shared, "source_lang": "xx"}
    if not shared:
        _write(folder / "target_vocab.json", ids[1])
    _write(folder / "tokenizer_config.json", settings)
    pad = len(ids[1]) - 1
    config = transformers.MarianConfig(
        **SIZES,
        vocab_size=len(ids[0]),
        decoder_vocab_size=len(ids[1]),
        share_encoder_decoder_embeddings=shared,
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
        forced_eos_token_id=0,
    )
    model = randomized(transformers.MarianMTModel(config))
    model.generation_config.update(bad_words_ids=[[pad]], renormalize_logits=True, num_beams=4, max_length=40)
    return save(model, folder)


def write_bart(folder: Path) -> Any:
    """Write a BART model with a byte-level `tokenizer.json`."""
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(sentences(), vocab_size=340, special_tokens=symbols, show_progress=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>"}
    _write(folder / "tokenizer_config.json", {"tokenizer_class": "BartTokenizer", **names, "sep_token": "</s>"})
    config = transformers.BartConfig(**SIZES, vocab_size=tokenizer.get_vocab_size(), forced_bos_token_id=0)
    model = randomized(transformers.BartForConditionalGeneration(config), positions=True)
    model.generation_config.update(
        suppress_tokens=[1], forced_bos_token_id=0, num_beams=4, early_stopping=True, max_length=40
    )
    return save(model, folder)


def write_mbart(folder: Path) -> Any:
    """Write an mBART-50 model."""
    pieces = train_pieces(folder / "sentencepiece.bpe.model")
    vocab = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    vocab += [(piece, model.get_score(index)) for index, piece in enumerate(pieces) if index >= 3]
    languages = transformers.models.mbart50.tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES
    vocab += [(token, 0.0) for token in (*languages, "<mask>")]
    tokenizer = transformers.MBart50Tokenizer(vocab=vocab, src_lang="en_XX", tgt_lang="ro_RO")
    tokenizer.save_pretrained(folder)
    (folder / "sentencepiece.bpe.model").unlink()
    config = transformers.MBartConfig(
        **SIZES, vocab_size=len(tokenizer), scale_embedding=True, decoder_start_token_id=2
    )
    network = randomized(transformers.MBartForConditionalGeneration(config), positions=True)
    network.generation_config.update(suppress_tokens=[1], num_beams=3, max_length=40, early_stopping=True)
    return save(network, folder)


def write_m2m_100(folder: Path) -> Any:
    """Write an M2M100 model with `sentencepiece.bpe.model` and `vocab.json`."""
    pieces = train_pieces(folder / "sentencepiece.bpe.model")
    ids = {token: index for index, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]])}
    _write(folder / "vocab.json", ids)
    tokenizer = transformers.M2M100Tokenizer(
        str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"), src_lang="en", tgt_lang="fr"
    )
    tokenizer.save_pretrained(folder)
    config = transformers.M2M100Config(**SIZES, vocab_size=len(ids) + 100 + tokenizer.num_madeup_words)
    model = randomized(transformers.M2M100ForConditionalGeneration(config))
    model.generation_config.update(suppress_tokens=[1], num_beams=5, max_length=40, early_stopping=True)
    return save(model, folder)


def write_nllb(folder: Path) -> Any:
    """Write an NLLB model with `tokenizer.json`."""
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=150, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False
    )
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trained.train_from_iterator(sentences(), trainer)
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(one) for one in model["merges"]]
    tokenizer = transformers.NllbTokenizer(vocab=model["vocab"], merges=merges, src_lang="eng_Latn")
    tokenizer.save_pretrained(folder)
    config = transformers.M2M100Config(**SIZES, vocab_size=len(tokenizer))
    network = randomized(transformers.M2M100ForConditionalGeneration(config))
    network.generation_config.update(suppress_tokens=[1], num_beams=4, max_length=40, early_stopping=True)
    return save(network, folder)


def write_pegasus(folder: Path) -> Any:
    """Write a Pegasus model with `spiece.model`-like symbols in `tokenizer.json`."""
    vocab_size = _write_t5_tokenizer(folder, name="PegasusTokenizer")
    config = transformers.PegasusConfig(
        **SIZES, vocab_size=vocab_size, activation_function="relu", scale_embedding=True, eos_token_id=1, pad_token_id=0
    )
    model = randomized(transformers.PegasusForConditionalGeneration(config))
    model.generation_config.update(suppress_tokens=[0], num_beams=4, max_length=40, length_penalty=0.6)
    return save(model, folder)


def write_t5(folder: Path) -> Any:
    """Write a T5 model of version 1.0, with `spiece.model`."""
    pieces = train_pieces(folder / "spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>")
    _write(folder / "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "extra_ids": 10})
    size = len(pieces) + 10 + 3
    model = randomized(transformers.T5ForConditionalGeneration(transformers.T5Config(**T5_SIZES, vocab_size=size)))
    model.generation_config.update(suppress_tokens=[0], num_beams=4, max_length=40, early_stopping=True)
    return save(model, folder)


def write_t5_v1_1(folder: Path) -> Any:
    """Write a T5 model of version 1.1, whose output projection is not tied, with `tokenizer.json`."""
    size = _write_t5_tokenizer(folder, name="T5Tokenizer")
    config = transformers.T5Config(
        **T5_SIZES, vocab_size=size, feed_forward_proj="gated-gelu", tie_word_embeddings=False
    )
    model = transformers.T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(0.2 * torch.randn(size, 36, generator=torch.Generator().manual_seed(5)))
    model = randomized(model)
    model.generation_config.update(suppress_tokens=[0], num_beams=4, max_length=40, early_stopping=True)
    return save(model, folder)


def write_mt5(folder: Path, *, untied: bool = False) -> Any:
    """Write an mT5 model, whose output projection is the embedding or, as in published ones, has its own weights."""
    size = _write_t5_tokenizer(folder, name="T5Tokenizer")
    model = transformers.MT5ForConditionalGeneration(transformers.MT5Config(**T5_SIZES, vocab_size=size))
    if untied:
        weight = 0.2 * torch.randn(size, 36, generator=torch.Generator().manual_seed(5))
        model.lm_head.weight = torch.nn.Parameter(weight)
    model = randomized(model)
    model.generation_config.update(suppress_tokens=[0], num_beams=4, max_length=40, early_stopping=True)
    return save(model, folder)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "marian": write_marian,
    "marian_separate": lambda folder: write_marian(folder, shared=False),
    "bart": write_bart,
    "mbart": write_mbart,
    "m2m_100": write_m2m_100,
    "nllb": write_nllb,
    "pegasus": write_pegasus,
    "t5": write_t5,
    "t5_v1_1": write_t5_v1_1,
    "mt5": write_mt5,
    "mt5_untied": lambda folder: write_mt5(folder, untied=True),
}


def randomized(model: Any, *, positions: bool = False) -> Any:
    """Add noise to all parameters, which begin with zeros and ones in part; computed positions stay.

    The large embedding of the end symbol is the best or the worst continuation, so that outputs end at some length.
    """
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if positions or "embed_positions" not in name:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(generator=generator)
        model.get_output_embeddings().weight[model.config.eos_token_id].mul_(1.8)
    return model.eval()


def save(model: Any, folder: Path) -> Any:
    """Save a model, and return it."""
    model.save_pretrained(folder)
    return model


def _write_t5_tokenizer(folder: Path, *, name: str) -> int:
    """Write the `tokenizer.json` of T5, and return the number of embeddings, some of them without a token."""
    pieces = train_pieces(folder / "spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>")
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    vocab = [(piece, model.get_score(index)) for index, piece in enumerate(pieces)]
    vocab += [(f"<extra_id_{9 - place}>", 0.0) for place in range(10)]
    transformers.T5Tokenizer(vocab=vocab, extra_ids=10).save_pretrained(folder)
    (folder / "spiece.model").unlink()
    return len(vocab) + 3


def _write(path: Path, tree: Any) -> None:
    path.write_text(json.dumps(tree), encoding="utf-8")
