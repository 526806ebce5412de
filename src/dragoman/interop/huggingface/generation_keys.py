"""Keys of `generation_config.json`, with what the import does with each; tests compare them with transformers.

`SEARCH_KEYS` are those of encoder-decoder models, which translate by beam search, and `SAMPLING_KEYS` those of language
models.
"""

from typing import Final

from dragoman.interop.key_table import KeyTable, Only, computed, no_effect

ID_KEYS: Final = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
"""Keys of symbols, which `generate` takes from `config.json` where `generation_config.json` lacks them."""
_NO_COUNTERPART: Final = "a setting of the search without counterpart"
_COMMON: Final[KeyTable] = {
    **no_effect(
        "it chooses how transformers computes, or what it returns",
        "use_cache cache_implementation cache_config max_cache_len return_dict_in_generate output_scores "
        "output_logits output_attentions output_hidden_states return_legacy_cache compile_config disable_compile "
        "continuous_batching_config prefill_chunk_size low_memory max_time monitor_memory",
    ),
    **no_effect("it names versions and defaults", "_from_model_config transformers_version use_model_defaults"),
    **no_effect("it is code or a service of the Hub", "generation_kwargs trust_remote_code custom_generate"),
    **no_effect(
        "speculative decoding changes the time of an output, not the output",
        "is_assistant num_assistant_tokens num_assistant_tokens_schedule assistant_confidence_threshold "
        "prompt_lookup_num_tokens max_matching max_matching_ngram_size assistant_early_exit assistant_lookbehind "
        "target_lookbehind assistant_ensemble_weight speculation_type use_mtp",
    ),
    **no_effect("logits are finite, or the import stops", "remove_invalid_values"),
    **no_effect("`--n-best` says how many outputs there are", "num_return_sequences"),
    "num_beam_groups": Only((1,), _NO_COUNTERPART),
    "diversity_penalty": Only((0,), _NO_COUNTERPART),
    "begin_suppress_tokens": Only(([],), _NO_COUNTERPART),
    "forced_decoder_ids": Only(([],), _NO_COUNTERPART),
    "sequence_bias": Only(({}, []), _NO_COUNTERPART),
    "guidance_scale": Only((1,), _NO_COUNTERPART),
    "encoder_repetition_penalty": Only((1,), _NO_COUNTERPART),
    "encoder_no_repeat_ngram_size": Only((0,), _NO_COUNTERPART),
    "exponential_decay_length_penalty": Only((), _NO_COUNTERPART),
    **no_effect("transformers 5 has no contrastive search", "penalty_alpha"),
    "constraints": Only((), _NO_COUNTERPART),
    "force_words_ids": Only((), _NO_COUNTERPART),
    "stop_strings": Only(([],), "strings that end an output; give them with `--stop`"),
    "watermarking_config": Only((), _NO_COUNTERPART),
    "dola_layers": Only((), _NO_COUNTERPART),
    "token_healing": Only((False,), _NO_COUNTERPART),
}
_SYMBOLS: Final = computed(
    {
        "pad_token_id": "the padding symbol, which no output contains",
        "bos_token_id": "the begin symbol; before outputs, where no file names `decoder_start_token_id`",
        "eos_token_id": "the end symbol; further ones are `end_tokens`",
        "decoder_start_token_id": "the symbol before an output",
    }
)
_FORBIDDEN: Final = computed(
    {
        "suppress_tokens": "`suppress_tokens`",
        "bad_words_ids": "`suppress_tokens`; words of several symbols are refused",
    }
)
SEARCH_KEYS: Final[KeyTable] = {
    **_COMMON,
    **_SYMBOLS,
    **_FORBIDDEN,
    **computed(
        {
            "num_beams": "`beam_size`",
            "length_penalty": "`length_penalty`, of kind `average`; negative ones are refused in a beam search",
            "early_stopping": "`early_stopping`; `never` is refused in a beam search",
            "max_length": "`max_length`, without the start symbol",
            "max_new_tokens": "`max_length`",
            "min_length": "`min_length`, without the start symbol",
            "min_new_tokens": "`min_length`",
            "forced_bos_token_id": "the symbol that outputs begin with, or the default target language",
            "forced_eos_token_id": "`cut_off: ended` if it is the end symbol; other symbols are refused",
            "renormalize_logits": "the bias of the logits of the start symbol, if it is forbidden",
        }
    ),
    "do_sample": Only((False,), "sampling, and translations are searched"),
    "repetition_penalty": Only((1,), _NO_COUNTERPART),
    "no_repeat_ngram_size": Only((0,), _NO_COUNTERPART),
    **no_effect(
        "it has no effect without `do_sample`",
        "temperature top_k top_p min_p typical_p epsilon_cutoff eta_cutoff top_h",
    ),
}
SAMPLING_KEYS: Final[KeyTable] = {
    **_COMMON,
    **_SYMBOLS,
    **_FORBIDDEN,
    **no_effect("a language model has no decoder of its own", "decoder_start_token_id"),
    **computed(
        {
            "do_sample": "`temperature: 0` if it is false",
            "temperature": "`temperature`",
            "top_k": "`top_k`, by default 50",
            "top_p": "`top_p`",
            "min_p": "`min_p`",
            "typical_p": "`typical_p`",
            "repetition_penalty": "`repetition_penalty`",
            "no_repeat_ngram_size": "`no_repeat_ngram_size`",
            "min_new_tokens": "`min_length`",
        }
    ),
    "num_beams": Only((1,), "a beam search, which `dragoman generate --beam-size` asks for"),
    **computed(
        {
            "epsilon_cutoff": "nothing: other values than 0 are refused with `do_sample`",
            "eta_cutoff": "nothing: other values than 0 are refused with `do_sample`",
            "top_h": "nothing: it is refused with `do_sample`",
            "forced_bos_token_id": "a note: in transformers, the symbol follows a prompt of one symbol",
        }
    ),
    "min_length": Only((0,), "a length with the prompt; `min_new_tokens` is one without it"),
    "forced_eos_token_id": Only((), _NO_COUNTERPART),
    **no_effect("`--max-new-tokens` says how long a continuation is", "max_length max_new_tokens"),
    **no_effect("it has no effect without a beam", "length_penalty early_stopping"),
    **no_effect("it does not change which tokens are drawn", "renormalize_logits"),
}
