"""Keys of JoeyNMT's `config.yaml`, with what the import does with each; nested keys are joined by dots.

Source: `config.py`, `model.py`, `data.py`, `tokenizers.py`, `encoders.py` and `decoders.py` of JoeyNMT 1 to 2.3.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dragoman.interop.key_table import KeyTable, Only, Treatment, computed, no_effect

_STACK: Final[dict[str, Treatment]] = {
    "type": Only(("transformer",), "a recurrent network"),
    "alpha": Only((1, 1.0), "weighted residual connections"),
    "activation": Only(("relu", "gelu", "swish"), "another activation function"),
    **computed(
        {
            "hidden_size": "`d_model`",
            "ff_size": "`d_ff`",
            "num_layers": "`encoder_layers` or `decoder_layers`",
            "num_heads": "`num_heads`",
            "layer_norm": "`norm_position`",
            "embeddings.scale": "`scale_embedding`",
        }
    ),
    **no_effect("the shapes of the weights say it, too", "embeddings.embedding_dim embeddings.vocab_size"),
    **no_effect(
        "only training reads it",
        "dropout emb_dropout freeze embeddings.dropout embeddings.freeze embeddings.load_pretrained",
    ),
    **no_effect(
        "only recurrent networks read it",
        "rnn_type bidirectional init_hidden input_feeding attention hidden_dropout",
    ),
}
_SIDE: Final[dict[str, Treatment]] = {
    **computed(
        {
            "lang": "the language",
            "level": "the kind of tokenizer",
            "lowercase": "the tokenizer",
            "normalize": "a note",
            "tokenizer_type": "the tokenizer",
            "tokenizer_cfg.model_file": "the SentencePiece model",
            "tokenizer_cfg.codes": "the merges",
            "tokenizer_cfg.codes_path": "the merges",
            "tokenizer_cfg.pretokenizer": "a note",
            "bpe_type": "the tokenizer, in version 1",
        }
    ),
    "has_prompt": Only((False,), "a prompt before texts"),
    "tokenizer_cfg.separator": Only(("@@",), "another mark of joined tokens"),
    **no_effect(
        "only training reads it",
        "max_length min_length voc_limit voc_min_freq voc_file max_sent_length "
        "tokenizer_cfg.nbest_size tokenizer_cfg.alpha tokenizer_cfg.dropout tokenizer_cfg.num_merges "
        "tokenizer_cfg.model_type tokenizer_cfg.character_coverage tokenizer_cfg.lang tokenizer_cfg.vocab_size",
    ),
}
_SYMBOLS: Final[dict[str, Treatment]] = {
    f"special_symbols.{name}_{part}": treatment
    for part in ("token", "id")
    for name, treatment in computed(dict.fromkeys(("unk", "pad", "bos", "eos"), "a special symbol")).items()
}
_DATA: Final[dict[str, Treatment]] = {
    **_SYMBOLS,
    **computed({"src": "the language, in version 1", "trg": "the language, in version 1"}),
    **computed({"level": "the kind of tokenizer, in version 1", "lowercase": "the tokenizer, in version 1"}),
    "special_symbols.sep_id": Only((), "a separator"),
    "special_symbols.sep_token": Only((), "a separator"),
    "special_symbols.lang_tags": Only(([],), "tags of languages"),
    **no_effect(
        "only training reads it",
        "train dev test dataset_type sample_train_subset random_train_subset sample_dev_subset random_dev_subset "
        "max_sent_length src_voc_limit trg_voc_limit src_voc_min_freq trg_voc_min_freq src_vocab trg_vocab bpe_type "
        "src_voc_file trg_voc_file",
    ),
    **{f"{side}.{key}": treatment for side in ("src", "trg") for key, treatment in _SIDE.items()},
}
_TESTING: Final[dict[str, Treatment]] = {
    **computed(
        {
            "beam_size": "`decoding.beam_size`",
            "beam_alpha": "`decoding.length_penalty`",
            "alpha": "`decoding.length_penalty`, in version 1",
            "min_output_length": "`decoding.min_length`",
            "max_output_length": "`decoding.max_length`",
            "generate_unk": "`decoding.allow_unk`",
        }
    ),
    "repetition_penalty": Only((-1, 1), "a penalty of repeated tokens"),
    "no_repeat_ngram_size": Only((-1, 0), "a bound of repeated n-grams"),
    **no_effect(
        "it chooses batches, scores or what is printed",
        "n_best batch_size batch_type batch_multiplier eval_metric eval_metrics sacrebleu sacrebleu_cfg "
        "return_attention return_prob load_model postprocess bpe_type",
    ),
}
_MODEL: Final[dict[str, Treatment]] = {
    **{f"{side}.{key}": treatment for side in ("encoder", "decoder") for key, treatment in _STACK.items()},
    **computed({"tied_softmax": "`tie_embeddings`", "tied_embeddings": "`tie_embeddings`"}),
    **no_effect(
        "only training reads it",
        "initializer init_gain init_weight bias_initializer bias_init_weight embed_initializer embed_init_gain "
        "embed_init_weight init_rnn_orthogonal lstm_forget_gate",
    ),
}
KEYS: Final[KeyTable] = {
    **{f"model.{key}": treatment for key, treatment in _MODEL.items()},
    **{f"data.{key}": treatment for key, treatment in _DATA.items()},
    **{f"testing.{key}": treatment for key, treatment in _TESTING.items()},
    **computed({"joeynmt_version": "the version in the record of the origin"}),
    **no_effect("it names the model or the computer", "name model_dir use_cuda fp16 random_seed num_workers task"),
}
"""Keys of the sections `model`, `data` and `testing`; `training` has no effect on a trained model."""
_WHOLE: Final = ("training", "data.dataset_cfg", "testing.sacrebleu", "testing.sacrebleu_cfg")
"""Sections of any content."""


def flat_settings(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings that tables list by their dotted keys."""
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if name in _WHOLE:
            continue
        if isinstance(value, Mapping):
            yield from flat_settings(value, f"{name}.")
        else:
            yield name, value
