"""Suggestions for unknown options, configuration keys and kinds, by meaning and by spelling."""

from collections.abc import Collection, Iterable
from typing import Final

from dragoman.errors import fold, nearest

_LAYERS = "layers num-layers num-hidden-layers n-layer n-layers depth enc-dec-layers"

OPTION_SYNONYMS: Final = {
    "--source": "src source-file src-file train-src train-source source-lang trainpref train-sets train-set train-file "
    "input test-src train",
    "--target": "tgt target-file tgt-file train-tgt train-target target-lang trg hypothesis output-file tgt-lang",
    "--source-language": "source-lang src-lang",
    "--target-language": "target-lang tgt-lang forced-bos-token forced-bos-token-id target-prefix",
    "--valid-source": "valid-src dev-source dev-src validation-source validpref valid-sets validation-file dev",
    "--valid-target": "valid-tgt dev-target dev-tgt validation-target valid-trg",
    "--text": "train-text corpus train-data sentence string train-file",
    "--input": "src source source-file input-file in file infile test-file data-file prompts prompt-file",
    "--output": "tgt target out output-file outfile pred save translations-file output-path hypothesis-file",
    "--output-dir": "output save-dir model-dir output-path save-model model save-data destdir run-dir dir "
    "output-folder",
    "--reference": "ref refs references tgt target target-file gold test-tgt",
    "--hypothesis": "hyp hyps hypotheses predictions pred sys system translations input in",
    "--metric": "metrics eval-metrics valid-metrics measure score",
    "--monolingual": "mono source src input text tgt",
    "--resume": "continue restore-file train-from load-model resume-from-checkpoint restart ckpt checkpoint",
    "--init-from": "finetune-from-model pretrained-model pretrained model-name-or-path load-model finetune base-model "
    "from-pretrained train-from",
    "--beam-size": "beams num-beams beam-width beamsize nbeams width k",
    "--n-best": "nbest num-return-sequences num-hypotheses best top num-samples",
    "--length-penalty": "lenpen alpha beam-alpha normalize length-norm lp len-pen",
    "--max-length": "max-len max-len-b max-new-tokens max-decode-length max-output-length max-target-length",
    "--max-length-ratio": "max-len-a max-length-factor",
    "--max-new-tokens": "max-length max-tokens num-tokens tokens length max-len max-output-tokens",
    "--min-length": "min-len min-new-tokens min-tokens minlen",
    "--decoding": "method strategy decoding-method",
    "--temperature": "temp do-sample sampling sampling-temperature random-sampling-temp sampling-temp",
    "--top-k": "topk sampling-topk random-sampling-topk output-sampling",
    "--top-p": "topp sampling-topp nucleus random-sampling-topp",
    "--seed": "random-seed rng-seed set-seed",
    "--max-steps": "steps max-steps max-update max-updates train-steps after-batches updates num-updates",
    "--stop": "stop-sequence stop-sequences stop-string eos stop-words",
    "--method": "decoding sampling do-sample strategy",
    "--batch-tokens": "batch-size max-tokens mini-batch max-batch-size max-sentences per-device-eval-batch-size "
    "mini-batch-words per-device-train-batch-size",
    "--device": "devices gpu gpus gpu-ranks use-cuda accelerator",
    "--device cpu": "cpu no-cuda cpu-threads use-cpu",
    "--device cuda": "cuda",
    "--compute-type": "dtype precision quantization torch-dtype quantize",
    "--compute-type bfloat16": "bf16 fp16 half bfloat16 float16",
    "--compute-type int8": "int8 quantize quantized load-in-8bit",
    "--compute-type int8_int16": "q8-0 q4-0 w8a16 group-size",
    "--shortlist": "lex lexical-shortlist vocab-restriction vmap",
    "--scores": "score print-scores with-score print-score save-scores verbose-scores return-scores",
    "--ensemble": "models path model-overrides average with",
    "--format jsonl": "json jsonl output-format json-lines",
    "--json": "format output-format jsonl",
    "--split": "split-sentences sentence-split segment segmentation",
    "--prompt": "text input-text message query",
    "--question": "query ask",
    "--context": "passage document paragraph text",
    "--set": "config-override override overrides param option define",
    "--data": "data-dir data-folder corpus-dir data-path root",
    "--out": "output output-dir report html output-file save-html",
    "--prepared": "data preprocessed dataset dataset-dir data-bin shards",
    "--tokenizer": "vocab vocabs spm sentencepiece vocabulary src-vocab",
    "--workers": "num-workers num-proc jobs threads processes",
    "--to": "lang language target tgt locale target-lang",
    "--batch": "batch-size batch-sizes batch-tokens",
    "--rounds": "repeat repeats runs repetitions iterations",
    "--memory": "ram mem vram gpu-memory",
    "--price": "cost hourly price-per-hour",
    "--tensorboard": "tensorboard-logdir tensorboard-dir tb report-to tensorboard-log-dir",
    "--preset": "arch model-size size model-type type task architecture",
    "--epochs": "max-epoch max-epochs num-train-epochs after-epochs num-epochs n-epochs epoch",
    "--learning-rate": "lr learn-rate",
    "--set preset=tiny": "arch model-size size architecture preset",
    "--set model.kind=encoder_decoder": "model-type type arch architecture model-arch encoder-type decoder-type",
    "--set task=translation": "task-type task-name mode",
    "--set init_from=RUN": "finetune-from-model pretrained-model pretrained model-name-or-path load-model base-model "
    "from-pretrained train-from restore-file params checkpoint",
    "--set training.max_epochs=N": "epochs epoch max-epoch max-epochs num-train-epochs after-epochs num-epochs after "
    "n-epochs max-num-epochs",
    "--set training.max_steps=N": "steps max-steps max-update max-updates train-steps after-batches updates "
    "num-updates num-steps total-steps max-iter iterations num-train-steps total-num-update",
    "--set training.optimizer.learning_rate=N": "lr learn-rate learning-rate peak-lr max-lr base-lr "
    "initial-learning-rate",
    "--set training.schedule.warmup=N": "warmup warmup-steps warmup-updates lr-warmup num-warmup-steps "
    "warmup-init-lr learning-rate-warmup warm-up warmup-iters warmup-ratio",
    "--set training.schedule.min_lr_ratio=N": "min-lr end-learning-rate min-lr-rate learning-rate-min stop-min-lr",
    "--set training.schedule.kind=cosine": "lr-scheduler lr-scheduler-type scheduler scheduling "
    "learning-rate-scheduler-type decay-method lr-schedule lr-decay lr-decay-strategy decay",
    "--set training.batch_tokens=N": "batch-size max-tokens mini-batch batch-tokens per-device-train-batch-size "
    "train-batch-size max-sentences mini-batch-words mini-batch-fit batch-type micro-batch-size batch",
    "--set training.grad_accumulation=N": "update-freq update-interval accum-count gradient-accumulation-steps "
    "optimizer-delay batch-multiplier grad-accumulation accumulate accumulate-grad-batches grad-accum "
    "gradient-accumulation accumulation-steps",
    "--set training.optimizer.kind=adamw": "optimizer optim optimizer-type optimizer-name",
    "--set training.optimizer.betas=[0.9,0.98]": "adam-betas adam-beta1 adam-beta2 beta1 beta2 optimizer-params "
    "optimizer-betas",
    "--set training.optimizer.epsilon=N": "adam-epsilon adam-eps eps optimizer-eps",
    "--set training.optimizer.weight_decay=N": "weight-decay wd l2 decay-rate",
    "--set training.max_grad_norm=N": "clip-norm max-grad-norm clip-grad-norm clip clip-grad gradient-clipping "
    "gradient-clipping-threshold gradient-clip-val grad-clip gradient-clipping-type",
    "--set training.label_smoothing=N": "label-smoothing label-smoothing-factor smoothing label-smooth",
    "--set training.validate_every=N": "valid-freq valid-steps eval-steps eval-every validate-interval-updates "
    "validation-freq validate-every valid-interval eval-interval save-steps save-freq save-interval-updates "
    "save-checkpoint-steps save-every save-interval checkpoint-interval checkpoint-every decode-and-evaluate",
    "--set training.validate_every_epochs=N": "validate-interval eval-strategy evaluation-strategy save-strategy "
    "eval-epochs",
    "--set training.log_every=N": "log-interval logging-steps disp-freq report-every logging-freq log-every "
    "log-steps print-every log-freq",
    "--set training.keep_checkpoints=N": "keep-last-epochs save-total-limit keep-checkpoint keep-checkpoints "
    "keep-best-ckpts keep-best-checkpoints keep-last-n-checkpoints keep-last-params keep-interval-updates "
    "keep-last-ckpts average-checkpoints avg-checkpoints",
    "--set training.patience=N": "patience early-stopping early-stopping-patience early-stop "
    "max-num-checkpoint-not-improved early-stopping-threshold",
    "--set training.ema_decay=N": "exponential-smoothing ema ema-decay average-decay",
    "--set training.precision=bfloat16": "fp16 bf16 amp half precision mixed-precision dtype torch-dtype model-dtype "
    "fp32 tf32 apex-amp float16 bfloat16 memory-efficient-fp16 compute-type",
    "--set training.compile=true": "compile torch-compile",
    "--set training.num_workers=N": "num-workers world-size nproc-per-node dataloader-num-workers workers "
    "distributed-world-size n-gpu num-gpus gpu-ranks use-cuda local-rank",
    "--set training.sharding=full": "fsdp ddp-backend zero deepspeed sharding-strategy sharding-ddp",
    "--set training.gradient_checkpointing=true": "checkpoint-activations activation-checkpointing "
    "gradient-checkpointing use-ckpting gradient-checkpointing-enable",
    "--set training.seed=N": "seed random-seed manual-seed data-seed",
    "--set training.lora.kind=lora": "peft use-lora lora-config adapter",
    "--set training.lora.rank=N": "lora-r lora-rank lora-dim",
    "--set training.lora.alpha=N": "lora-alpha",
    "--set training.lora.targets=…": "target-modules lora-layers lora-target-modules",
    "--set training.loss.kind=cross_entropy": "criterion loss-fn loss-function cost-type",
    "--set training.validation_beam_size=N": "eval-beam valid-beam-size eval-bleu-args generation-num-beams",
    "--set training.validate_bleu=true": "eval-bleu predict-with-generate",
    "--set model.dropout.residual=N --set model.dropout.embedding=N": "dropout transformer-dropout hidden-dropout "
    "hidden-dropout-prob hidden-dropout-rate dropout-rate resid-pdrop embd-pdrop transformer-dropout-prepost",
    "--set model.dropout.attention=N": "attention-dropout attn-dropout attn-pdrop attention-probs-dropout-prob "
    "attention-dropout-prob transformer-dropout-attention",
    "--set model.dropout.feed_forward=N": "activation-dropout relu-dropout ffn-dropout transformer-dropout-ffn "
    "transformer-dropout-act",
    "--set model.num_heads=N": "heads encoder-attention-heads decoder-attention-heads transformer-heads num-heads "
    "num-attention-heads n-head n-heads nhead nheads attention-heads transformer-attention-heads "
    "num-encoder-attention-heads",
    "--set model.num_kv_heads=N": "num-key-value-heads n-kv-heads num-kv kv-heads",
    "--set model.d_model=N": "encoder-embed-dim decoder-embed-dim dim-emb word-vec-size rnn-size hidden-size d-model "
    "embedding-dim embed-dim model-dim n-embd n-embed dim hidden-dim transformer-model-size num-embed size width "
    "emb-dim",
    "--set model.d_ff=N": "encoder-ffn-embed-dim decoder-ffn-embed-dim ffn-embed-dim transformer-dim-ffn "
    "transformer-ff d-ff ffn-dim encoder-ffn-dim decoder-ffn-dim feed-forward-size intermediate-size n-inner ff-size "
    "dim-feedforward ffn-size ff-dim transformer-feed-forward-num-hidden mlp-dim",
    "--set model.encoder_layers=N --set model.decoder_layers=N": _LAYERS,
    "--set model.encoder_layers=N": "encoder-layers enc-depth enc-layers num-encoder-layers encoder-depth n-enc-layers",
    "--set model.decoder_layers=N": "decoder-layers dec-depth dec-layers num-decoder-layers decoder-depth n-dec-layers",
    "--set model.num_layers=N": f"{_LAYERS} encoder-layers decoder-layers",
    "--set model.tie_embeddings=…": "share-all-embeddings tied-embeddings-all share-embeddings tied-embeddings "
    "share-decoder-input-output-embed tied-embeddings-src tie-word-embeddings tied-softmax share-embed weight-tying "
    "weight-tying-type tie-weights share-input-output-embed",
    "--set model.activation=gelu": "activation-fn activation-function hidden-act transformer-ffn-activation "
    "pos-ffn-activation-fn act-fn",
    "--set model.norm_position=pre": "encoder-normalize-before decoder-normalize-before normalize-before layer-norm "
    "transformer-preprocess transformer-postprocess pre-norm prenorm norm-first",
    "--set model.norm=rms": "norm-type layer-norm-type normalization-type rms-norm layernorm",
    "--set model.decoder_layer=ssru": "transformer-decoder-autoreg dec-cell dec-cell-type ssru sru",
    "--set model.norm_epsilon=N": "layer-norm-eps layer-norm-epsilon rms-norm-eps norm-eps layernorm-epsilon",
    "--set model.head_size=N": "head-dim kv-channels d-kv",
    "--set model.qkv_bias=true": "attention-bias qkv-bias",
    "--set model.scale_embedding=true": "scale no-scale-embedding embedding-scale",
    "--set model.norm_embedding=true": "layernorm-embedding normalize-embedding",
    "--set model.positions.kind=rotary": "position-encoding position-encoding-type position-embedding-type "
    "positional-embedding-type positional-encoding pos-enc pos-embedding rope transformer-train-position-embeddings "
    "encoder-learned-pos decoder-learned-pos self-attn-type",
    "--set model.positions.base=N": "rope-theta rotary-base rotary-theta",
    "--set data.context_length=N": "block-size context-size seq-length tokens-per-sample max-seq-length ctx-len "
    "sequence-length max-length seq-len context-window",
    "--set model.positions.max_length=N": "max-position-embeddings max-relative-positions n-positions block-size "
    "n-ctx max-positions",
    "--set tokenizer.vocab_size=N": "vocab-size dim-vocabs src-vocab-size tgt-vocab-size bpe-size num-symbols "
    "bpe-operations num-words voc-limit n-vocab num-merges bpe-codes",
    "--set tokenizer.kind=bpe": "bpe tokenizer remove-bpe subword sentencepiece tokenizer-type level model-type type "
    "algorithm tokenizer-name src-subword-type tokenizer-class",
    "--set tokenizer.shared=true": "joint-vocab joined-dictionary share-vocab joint-dictionary shared-vocab",
    "--set tokenizer.casing=lower": "lowercase do-lower-case lower lower-case",
    "--set tokenizer.byte_fallback=true": "character-coverage bytes",
    "--set tokenizer.min_frequency=N": "min-freq voc-min-freq thresholdsrc thresholdtgt word-min-count "
    "src-words-min-frequency vocab-min-freq",
    "--set tokenizer.dropout=N": "bpe-dropout alpha sentencepiece-alphas src-subword-alpha enable-sampling",
    "--set data.train.source=FILE": "src train-src train-source trainpref train-sets train-file path-src "
    "train-set src-train",
    "--set data.train.target=FILE": "tgt train-tgt train-target trg path-tgt tgt-train",
    "--set data.valid.source=FILE": "valid-src dev-source dev-src validation-source validpref valid-sets "
    "validation-file dev",
    "--set data.valid.target=FILE": "valid-tgt dev-target dev-tgt validation-target valid-trg",
    "--set data.train.path=FILE": "corpus text-file dataset-path",
    "--set data.valid_size=N": "validation-split dev-size test-size split validation-size",
    "--set data.max_source_length=N --set data.max_target_length=N": "max-length max-sent-length max-seq-length "
    "max-len seq-len",
    "--set data.max_source_length=N": "max-source-length max-source-positions max-src-len src-seq-length",
    "--set data.max_target_length=N": "max-target-length max-target-positions max-tgt-len tgt-seq-length",
    "--set decoding.beam_size=N": "beam beams beam-size num-beams beam-width",
    "--set decoding.length_penalty=N": "length-penalty lenpen normalize beam-alpha length-norm",
    "--set metrics=[bleu,chrf]": "metric eval-metrics eval-metric valid-metrics best-checkpoint-metric "
    "early-stopping-metric metric-for-best-model optimized-metric",
}
"""Names that other toolkits (fairseq, Marian, Hugging Face, OpenNMT, JoeyNMT) and newcomers use for our options.

Entries are tried in this order; an entry counts if the verb has its option. `--set KEY=EXAMPLE` is also the entry of a
configuration key, and the entry of another option that of the key of this name.
"""

KIND_SYNONYMS: Final = {
    "unigram": "sentencepiece spm sp",
    "bpe": "sentencepiece spm sp subword subword-nmt byte-level-bpe bytelevel wordpiece hft gpt2",
    "characters": "char chars character byte bytes",
    "words": "word whitespace moses",
    "rotary": "rope rotary-embedding",
    "shaw": "relative relative-key relative-key-query rpe",
    "t5_bias": "t5 relative-bias relative-attention-bias",
    "sinusoidal": "sinusoid sin fixed absolute positional",
    "learned": "absolute learnable embedding trained",
    "none": "nope no off null false",
    "inverse_sqrt": "noam noamwd inverse-square-root rsqrt invsqrt inv-sqrt-decay warmupinversesquareroot",
    "linear": "polynomial polynomial-decay linear-decay linear-with-warmup linear-warmup",
    "cosine": "cosine-with-restarts cosine-with-min-lr cosine-with-warmup cosine-annealing",
    "constant": "constant-with-warmup fixed none",
    "warmup_stable_decay": "wsd tri-stage trapezoidal",
    "adam": "fusedadam apex-fused-adam sparseadam nag",
    "adamw": "adamw-torch adamw-torch-fused adamw-hf pagedadamw adamw-8bit",
    "encoder_decoder": "transformer seq2seq encoder-decoder marian t5 bart mbart transformer-base vaswani",
    "decoder_only": "gpt gpt2 llama lm transformer-lm causal-lm language-model decoder",
    "encoder_only": "bert roberta masked-lm encoder",
    "recurrent": "rnn lstm gru s2s nematus",
    "cross_entropy": "ce nll crossentropy ce-mean label-smoothed-cross-entropy label-smoothing",
    "distillation": "kd distil distill knowledge-distillation",
    "r_drop": "rdrop label-smoothed-cross-entropy-with-rdrop",
    "full": "dense global",
    "sliding_window": "local window longformer",
    "bleu": "sacrebleu",
    "exact": "accuracy exact-match",
    "scaled_dot": "dot-product scaled-dot-product sdpa",
    "additive": "bahdanau mlp concat",
    "multiplicative": "luong general bilinear",
    "files": "parallel plain txt text lines",
    "text": "plain txt file",
    "tsv": "csv tab",
    "jsonl": "json jsonlines json-lines ndjson",
}
"""Names that other toolkits and newcomers use for our kinds, such as those of tokenizers, positions and schedules."""


def suggest_option(name: str, known: Iterable[str]) -> list[str]:
    """Return the option of a verb that an unknown option probably means, by meaning or by spelling; or nothing."""
    known = [option for option in known if option.startswith("--")]
    word = fold(name.lstrip("-"))
    if f"--{word}" in known:
        return [f"--{word}"]
    meant = [ours for ours in _entries(word) if ours.split()[0] in known]
    near = nearest(f"--{word}", known, cutoff=0.75)
    return meant[:1] or near or _similar_first_word(word, known)


def _entries(word: str) -> list[str]:
    return [ours for ours, theirs in OPTION_SYNONYMS.items() if word in theirs.split()]


def _similar_first_word(word: str, known: Iterable[str]) -> list[str]:
    """Return the option or key whose first word alone is similar, such as --beam-size for beem."""
    first_words: dict[str, list[str]] = {}
    for one in known:
        first_words.setdefault(fold(one).removeprefix("--").partition("-")[0], []).append(one)
    near = nearest(word, first_words, cutoff=0.75)
    return first_words[near[0]] if near and len(first_words[near[0]]) == 1 else []


def describe_unknown_option(name: str, known: Collection[str]) -> str:
    """Return what to write in place of an unknown keyword argument: what it probably means, and all that exist."""
    meant = suggest_option(name, [f"--{one.replace('_', '-')}" for one in known])
    words = [one.split()[0].removeprefix("--").replace("-", "_") for one in meant]
    question = f" Did you mean {words[0]}?" if words else ""
    return f"{name}: no such option.{question} Options: {', '.join(known)}."


def suggest_kinds(name: str, kinds: Collection[str]) -> list[str]:
    """Return the kinds that an unknown kind probably means, by meaning or by spelling; or nothing."""
    return [kind for kind in kinds if fold(name) in KIND_SYNONYMS.get(kind, "").split()] or nearest(name, kinds)


def suggest_keys(name: str, keys: Iterable[str], *, group: str = "", local: Collection[str] = ()) -> str:
    """Return the dotted keys that an unknown key of a group probably means, as a phrase; or nothing.

    By meaning and by name, first in the section of the group, then elsewhere; then by spelling. `local` are the keys of
    the group itself.
    """
    known, section = list(dict.fromkeys(keys)), f"{group}.".partition(".")[0]
    if name in known and "." in name:
        return f"the key {name.rpartition('.')[2]} inside {name.rpartition('.')[0]}"
    names = {key: key.rpartition(".")[2] for key in known if not key.endswith("kind")}
    by_meaning = _by_meaning(fold(name), known)
    by_name = [key for key in names if fold(names[key]) == fold(name)]
    own = {key.rpartition(".")[2]: key for key in local}
    candidates = [
        *(phrase for phrase in by_meaning if phrase.startswith(f"{section}.")),
        _shallowest(key for key in by_name if key.startswith(f"{section}.")),
        *(own[one] for one in nearest(name, own, cutoff=0.75)),
        *by_meaning,
        _shallowest(by_name),
    ]
    if not _entries(fold(name)):  # a word whose meaning is known is no typing error
        similar = nearest(name, set(names.values()), cutoff=0.75)
        candidates.append(_shallowest(key for key in names if names[key] in similar))
        candidates.extend(own[one] for one in nearest(name, own) or _similar_first_word(name, own))
    return next(filter(None, candidates), "")


def _by_meaning(word: str, known: Collection[str]) -> list[str]:
    """Return what to write for a word of other toolkits: keys, with their value if it is no number."""
    found = []
    for ours in _entries(word):
        option, *assignments = ours.split("--set ") if ours.startswith("--set ") else [ours]
        pairs = [one.strip().partition("=") for one in assignments]
        if pairs and all(key in known for key, _, _ in pairs):
            found.append(
                " and ".join(key if value in ("N", "FILE", "…") else f"{key}={value}" for key, _, value in pairs)
            )
        name = option.removeprefix("--").partition(" ")[0].replace("-", "_")
        found.extend(key for key in known if option and key.count(".") < 2 and key.rpartition(".")[2] == name)
    return found


def _shallowest(keys: Iterable[str]) -> str:
    """Return the keys inside the fewest groups, unless there are more than three."""
    found = list(keys)
    depth = min((key.count(".") for key in found), default=0)
    top = [key for key in found if key.count(".") == depth]
    return " or ".join(top) if len(top) <= 3 else ""
