"""Suggestions for configuration keys and kinds as other toolkits name them."""

import pytest

from dragoman.config_keys import keys_of
from dragoman.option_synonyms import KIND_SYNONYMS, suggest_keys
from dragoman.runs.config import check_keywords
from dragoman.tasks.config import TASK_CONFIGS

LAYERS = "model.encoder_layers and model.decoder_layers"
DROPOUT = "model.dropout.residual and model.dropout.embedding"
KEYS = {
    # Hugging Face
    "training.lr": "training.optimizer.learning_rate",
    "training.learning_rate": "training.optimizer.learning_rate",
    "decoding.num_beams": "decoding.beam_size",
    "num_beams": "decoding.beam_size",
    "model.num_attention_heads": "model.num_heads",
    "model.hidden_size": "model.d_model",
    "model.intermediate_size": "model.d_ff",
    "model.num_hidden_layers": LAYERS,
    "warmup_steps": "training.schedule.warmup",
    "training.warmup_steps": "training.schedule.warmup",
    "eval_steps": "training.validate_every",
    "save_steps": "training.validate_every",
    "logging_steps": "training.log_every",
    "gradient_accumulation_steps": "training.grad_accumulation",
    "fp16": "training.precision=bfloat16",
    "training.bf16": "training.precision=bfloat16",
    "max_grad_norm": "training.max_grad_norm",
    "save_total_limit": "training.keep_checkpoints",
    "seed": "training.seed",
    "num_train_epochs": "training.max_epochs",
    "per_device_train_batch_size": "training.batch_tokens",
    "lr_scheduler_type": "training.schedule.kind=cosine",
    "label_smoothing_factor": "training.label_smoothing",
    "adam_beta1": "training.optimizer.betas=[0.9,0.98]",
    "gradient_checkpointing": "training.gradient_checkpointing=true",
    "tie_word_embeddings": "model.tie_embeddings",
    "max_position_embeddings": "model.positions.max_length",
    "hidden_act": "model.activation=gelu",
    "decoding.length_penalty": "decoding.length_penalty",
    "decoding.num_return_sequences": "decoding.n_best",
    "decoding.max_new_tokens": "decoding.max_length",
    # fairseq
    "encoder_embed_dim": "model.d_model",
    "model.ffn_embed_dim": "model.d_ff",
    "encoder_ffn_embed_dim": "model.d_ff",
    "share_all_embeddings": "model.tie_embeddings",
    "update_freq": "training.grad_accumulation",
    "clip_norm": "training.max_grad_norm",
    "max_tokens": "training.batch_tokens",
    "max_update": "training.max_steps",
    "encoder_normalize_before": "model.norm_position=pre",
    "attention_dropout": "model.dropout.attention",
    "lenpen": "decoding.length_penalty",
    "arch": "preset",
    "patience": "training.patience",
    "keep_last_epochs": "training.keep_checkpoints",
    # JoeyNMT
    "training.batch_multiplier": "training.grad_accumulation",
    "training.scheduling": "training.schedule.kind=cosine",
    "training.validation_freq": "training.validate_every",
    "training.keep_best_ckpts": "training.keep_checkpoints",
    "training.random_seed": "training.seed",
    "training.epochs": "training.max_epochs",
    "model.tied_embeddings": "model.tie_embeddings",
    "model.ff_size": "model.d_ff",
    "data.max_length": "data.max_source_length and data.max_target_length",
    "tokenizer.level": "tokenizer.kind=bpe",
    "decoding.beam_alpha": "decoding.length_penalty",
    # OpenNMT
    "accum_count": "training.grad_accumulation",
    "valid_steps": "training.validate_every",
    "train_steps": "training.max_steps",
    "word_vec_size": "model.d_model",
    "transformer_ff": "model.d_ff",
    "enc_layers": "model.encoder_layers",
    "heads": "model.num_heads",
    "position_encoding": "model.positions.kind=rotary",
    "src_vocab_size": "tokenizer.vocab_size",
    "report_every": "training.log_every",
    # Marian
    "dim-emb": "model.d_model",
    "enc-depth": "model.encoder_layers",
    "dec-depth": "model.decoder_layers",
    "transformer-dim-ffn": "model.d_ff",
    "learn-rate": "training.optimizer.learning_rate",
    "lr-warmup": "training.schedule.warmup",
    "optimizer-delay": "training.grad_accumulation",
    "exponential-smoothing": "training.ema_decay",
    "early-stopping": "training.patience",
    "disp-freq": "training.log_every",
    "beam-size": "decoding.beam_size",
    "normalize": "decoding.length_penalty",
    "dim-vocabs": "tokenizer.vocab_size",
    "tied-embeddings-all": "model.tie_embeddings",
    # Sockeye
    "num_layers": LAYERS,
    "transformer_model_size": "model.d_model",
    "transformer_attention_heads": "model.num_heads",
    "transformer_feed_forward_num_hidden": "model.d_ff",
    "update_interval": "training.grad_accumulation",
    "initial_learning_rate": "training.optimizer.learning_rate",
    "max_num_checkpoint_not_improved": "training.patience",
    "optimized_metric": "metrics=[bleu,chrf]",
    "checkpoint_interval": "training.validate_every",
    # a setting on a wrong level
    "label_smoothing": "training.label_smoothing",
    "model.label_smoothing": "training.label_smoothing",
    "training.loss.label_smoothing": "training.label_smoothing",
    "model.dropout.dropout": DROPOUT,
    "training.dropout": DROPOUT,
    "training.alpha": "training.lora.alpha",
    "data.batch_size": "training.batch_tokens",
    "training.beam_size": "decoding.beam_size",
    "model.vocab_size": "tokenizer.vocab_size",
    "training.metrics": "metrics",
    "training.preset": "preset=tiny",
    # spelling
    "Training": "training",
    "model.D-Model": "model.d_model",
    "decoding.beem": "decoding.beam_size",
    "presett": "preset",
    "xyzzy": "",
}
"""From an unknown key of translation to the phrase that answers it."""


@pytest.mark.parametrize("unknown", KEYS)
def test_keys_of_other_toolkits_lead_to_ours(unknown):
    keys = ["preset", *keys_of(TASK_CONFIGS["translation"])]
    group, _, name = unknown.rpartition(".")
    local = [key for key in keys if key.rpartition(".")[0] == group]
    assert suggest_keys(name, keys, group=group, local=local) == KEYS[unknown]


@pytest.mark.parametrize(
    ("unknown", "ours"),
    [
        ("model.n_layer", "model.num_layers"),
        ("num_hidden_layers", "model.num_layers"),
        ("block_size", "data.context_length"),
        ("model.block_size", "model.positions.max_length"),
        ("data.block_size", "data.context_length"),
        ("max_seq_length", "data.context_length"),
        ("generation.num_beams", ""),
    ],
)
def test_keys_of_a_language_model(unknown, ours):
    keys = list(dict.fromkeys(keys_of(TASK_CONFIGS["language_modeling"])))
    group, _, name = unknown.rpartition(".")
    local = [key for key in keys if key.rpartition(".")[0] == group]
    assert suggest_keys(name, keys, group=group, local=local) == ours


def test_all_kinds_with_synonyms_exist():
    kinds = set()
    for settings in TASK_CONFIGS.values():
        kinds |= _kinds(settings)
    assert KIND_SYNONYMS.keys() <= kinds
    for kind, words in KIND_SYNONYMS.items():
        assert kind not in words.split()


def _kinds(group: object) -> set[str]:
    from dragoman.config_keys import alternatives, is_config, kinds_of, list_members

    found: set[str] = set()
    for field in group.model_fields.values():
        for annotation in (field.annotation, *list_members(field.annotation)):
            found |= set(kinds_of(annotation))
            for inner in alternatives(annotation):
                found |= _kinds(inner) if is_config(inner) else set()
    return found


@pytest.mark.parametrize(
    ("keyword", "remedy"),
    [
        ("lr", 'overrides={"training.optimizer.learning_rate": …}'),
        ("gradient_accumulation_steps", "grad_accumulation"),
        ("epochs", "max_epochs"),
        ("Max-Epochs", "max_epochs"),
        ("model_size", "preset"),
        ("num_beams", 'overrides={"decoding.beam_size": …}'),
        ("fp16", "precision"),
    ],
)
def test_keywords_of_train_lead_to_ours(keyword, remedy):
    known = ["output_dir", "preset", "max_epochs", "grad_accumulation", "precision"]
    with pytest.raises(TypeError) as caught:
        check_keywords({keyword: 1}, known)
    assert str(caught.value).endswith(f"{keyword!r}. Did you mean {remedy}?")
