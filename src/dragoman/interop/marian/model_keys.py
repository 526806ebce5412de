"""Keys of Marian, with what the import does with each: settings inside a model file, and those of its decoder.

Source: `marian/src/common/config_parser.cpp` of Marian 1.12, older names of Marian 1.7 to 1.9, and bergamot-translator.
Tests compare the tables with a list of the options that Marian's help shows.
"""

from collections.abc import Mapping
from typing import Any, Final

from dragoman.interop.key_table import KeyTable, Only, Treatment, computed, no_effect

FIXED: Final[Mapping[str, Any]] = {
    "type": "transformer",
    "transformer-ffn-depth": 2,
    "transformer-no-projection": False,
    "transformer-rnn-projection": False,
    "transformer-pool": False,
    "transformer-tied-layers": [],
    "lemma-dim-emb": 0,
    "factors-dim-emb": 0,
    "ulr": False,
    "right-left": False,
    "input-types": [],
    "layer-normalization": False,
    "dec-cell-base-depth": 2,
    "transformer-train-positions": False,
}
"""The only values that dragoman computes; a missing key has them."""
MODEL_KEYS: Final[KeyTable] = {
    **{key: Only((value,), "another network") for key, value in FIXED.items()},
    **computed(
        {
            "dim-emb": "`d_model`",
            "enc-depth": "`encoder_layers`",
            "dec-depth": "`decoder_layers`",
            "dec-cell": "`decoder_layer`",
            "tied-embeddings": "`tie_embeddings`",
            "tied-embeddings-src": "`tie_embeddings`",
            "tied-embeddings-all": "`tie_embeddings`",
            "output-omit-bias": "the biases of the file say it, too",
            "transformer-heads": "`num_heads`",
            "transformer-dim-ffn": "`d_ff`",
            "transformer-ffn-activation": "`activation`",
            "transformer-decoder-autoreg": "`decoder_layer`",
            "transformer-preprocess": "`norm_position`",
            "transformer-postprocess": "`norm_position`",
            "transformer-postprocess-top": "`norm_position`",
            "transformer-postprocess-emb": "`norm_embedding`",
            "version": "the version in the record of the origin",
        }
    ),
    "alibi": Only((False,), "ALiBi positions"),
    "best-deep": Only((False,), "a recurrent network"),
    "input-join-fields": Only((False,), "several sources"),
    "input-reorder": Only(([],), "several sources"),
    "transformer-alibi-shift": Only((False,), "ALiBi positions"),
    "transformer-alibi-trainable": Only((False,), "ALiBi positions"),
    "transformer-attention-mask": Only(("default", ""), "ALiBi positions"),
    "transformer-decoder-dim-ffn": Only((0,), "decoder layers of another size"),
    "transformer-decoder-ffn-depth": Only((0, 2), "decoder layers of another depth"),
    "transformer-disable-position-embeddings": Only((False,), "a network without positions"),
    "transformer-no-affine": Only((False,), "norms without scale"),
    "transformer-no-bias": Only((False,), "layers without biases"),
    **no_effect("the shapes of the embeddings say it, too", "dim-vocabs"),
    **no_effect("only recurrent networks read it", "dim-rnn enc-cell enc-cell-depth enc-type dec-cell-high-depth skip"),
    **no_effect(
        "only average attention, which is refused, reads it",
        "transformer-dim-aan transformer-aan-depth transformer-aan-activation transformer-aan-nogate",
    ),
    **no_effect("only factored vocabularies, which are refused, read it", "factors-combine lemma-dependency"),
    **no_effect(
        "only the universal representation, which is refused, reads it",
        "ulr-dim-emb ulr-trainable-transformation ulr-dropout ulr-query-vectors ulr-keys-vectors "
        "ulr-softmax-temperature",
    ),
    **no_effect(
        "only BERT models read it",
        "bert-train-type-embeddings bert-type-vocab-size bert-mask-symbol bert-sep-symbol bert-class-symbol "
        "bert-masking-fraction",
    ),
    **no_effect(
        "only models of COMET read it",
        "comet-augment-bad comet-dropout comet-final-sigmoid comet-mix comet-mix-norm comet-mix-transformation "
        "comet-mixup comet-mixup-reg comet-pool comet-pooler-ffn comet-prepend-zero comet-stop-grad "
        "comet-use-separator separator-symbol",
    ),
    **no_effect(
        "only character models read it", "char-stride char-highway char-conv-filters-num char-conv-filters-widths"
    ),
    **no_effect(
        "only training reads it",
        "dropout-rnn dropout-src dropout-trg transformer-dropout transformer-dropout-attention transformer-dropout-ffn "
        "transformer-depth-scaling transformer-guided-alignment-layer special-vocab original-type",
    ),
    **no_effect(
        "Marian reads the setting of trained positions, and ignores it", "transformer-train-position-embeddings"
    ),
}
"""Settings inside a model file."""
_DECODER: Final[dict[str, Treatment]] = {
    **computed(
        {
            "models": "the model file",
            "vocabs": "the vocabularies",
            "shortlist": "the shortlist",
            "relative-paths": "files are looked up next to the configuration",
            "beam-size": "`decoding.beam_size`",
            "normalize": "`decoding.length_penalty`",
            "max-length-factor": "`decoding.max_length_ratio`",
            "allow-unk": "`decoding.allow_unk`",
        }
    ),
    "word-penalty": Only((0,), "a penalty per word"),
    "allow-special": Only((False,), "special symbols in outputs"),
    "force-decode": Only((False,), "forced prefixes"),
    "ignore-model-config": Only((False,), "other settings than those of the model"),
    "output-sampling": Only((False, []), "sampling"),
    "output-approx-knn": Only(([],), "an approximate search for words"),
    "weights": Only(([1], [1.0], []), "weights of several models"),
    "encryption-key-path": Only((), "an encrypted model"),
    "no-spm-encode": Only((False,), "sources that are split already"),
    "no-spm-decode": Only((False,), "outputs that are not joined"),
    "tsv": Only((False,), "several sources"),
    **no_effect("costs do not change a greedy output", "skip-cost"),
    **no_effect(
        "it chooses the number format or the speed of Marian's computation",
        "fp16 precision optimize gemm-type gemm-precision quantize-range cpu-threads devices num-devices workspace "
        "mini-batch mini-batch-words maxi-batch maxi-batch-sort data-threads model-mmap check-nan cache-size "
        "max-length-break",
    ),
    **no_effect(
        "it chooses what is printed",
        "n-best n-best-feature alignment word-scores stat-freq quiet quiet-translation log log-level log-time-zone "
        "authors cite build-info dump-config help quality",
    ),
    **no_effect(
        "it names inputs and outputs of a program",
        "input output port config interpolate-env-vars tsv-fields ssplit-mode ssplit-prefix-file max-length "
        "max-length-crop seed",
    ),
}
DECODER_KEYS: Final[KeyTable] = {**no_effect("the settings inside the model take precedence", MODEL_KEYS), **_DECODER}
"""Settings of a `decoder.yml`."""
