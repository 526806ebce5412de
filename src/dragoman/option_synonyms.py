"""Suggestions for unknown options of the command line and of the Python API, by meaning and by spelling."""

import difflib
from collections.abc import Collection, Iterable
from typing import Final

OPTION_SYNONYMS: Final = {
    "--source": "src source-file src-file train-src train-source source-lang trainpref train-sets train-set train-file "
    "input test-src train",
    "--target": "tgt target-file tgt-file train-tgt train-target target-lang trg hypothesis output-file tgt-lang",
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
    "--set preset=tiny": "arch model-size size type architecture preset",
    "--set training.max_epochs=N": "epochs epoch max-epoch max-epochs num-train-epochs after-epochs num-epochs after",
    "--set training.max_steps=N": "steps max-steps max-update max-updates train-steps after-batches updates "
    "num-updates",
    "--set training.optimizer.learning_rate=N": "lr learn-rate learning-rate",
    "--set training.schedule.warmup=N": "warmup warmup-steps warmup-updates lr-warmup num-warmup-steps warmup-init-lr",
    "--set training.batch_tokens=N": "batch-size max-tokens mini-batch batch-tokens per-device-train-batch-size "
    "max-sentences mini-batch-words",
    "--set training.grad_accumulation=N": "update-freq accum-count gradient-accumulation-steps optimizer-delay "
    "batch-multiplier grad-accumulation accumulate",
    "--set training.optimizer.kind=adamw": "optimizer optim",
    "--set training.optimizer.weight_decay=N": "weight-decay",
    "--set training.max_grad_norm=N": "clip-norm max-grad-norm clip-grad-norm clip",
    "--set training.label_smoothing=N": "label-smoothing label-smoothing-factor",
    "--set training.validate_every=N": "valid-freq valid-steps eval-steps validate-interval-updates validation-freq "
    "validate-every valid-interval eval-interval save-steps save-freq save-interval-updates save-checkpoint-steps "
    "save-every save-interval",
    "--set training.log_every=N": "log-interval logging-steps disp-freq report-every logging-freq log-every",
    "--set training.keep_checkpoints=N": "keep-last-epochs save-total-limit keep-checkpoint keep-checkpoints "
    "keep-best-ckpts keep-interval-updates",
    "--set training.patience=N": "patience early-stopping early-stopping-patience",
    "--set training.ema_decay=N": "exponential-smoothing ema ema-decay average-decay",
    "--set training.precision=bfloat16": "fp16 bf16 amp half precision mixed-precision",
    "--set training.compile=true": "compile torch-compile",
    "--set training.num_workers=N": "num-workers world-size nproc-per-node dataloader-num-workers workers",
    "--set training.seed=N": "seed random-seed",
    "--set training.lora.kind=lora": "lora peft use-lora",
    "--set model.dropout.residual=N": "dropout transformer-dropout hidden-dropout",
    "--set model.num_heads=N": "heads encoder-attention-heads decoder-attention-heads transformer-heads num-heads",
    "--set model.d_model=N": "encoder-embed-dim decoder-embed-dim dim-emb word-vec-size rnn-size hidden-size d-model "
    "embedding-dim",
    "--set model.d_ff=N": "encoder-ffn-embed-dim transformer-dim-ffn transformer-ff d-ff ffn-dim feed-forward-size",
    "--set model.encoder_layers=N": "encoder-layers enc-depth enc-layers layers num-layers num-hidden-layers",
    "--set model.decoder_layers=N": "decoder-layers dec-depth dec-layers",
    "--set model.tie_embeddings=all": "share-all-embeddings tied-embeddings-all share-embeddings tied-embeddings",
    "--set tokenizer.vocab_size=N": "vocab-size dim-vocabs src-vocab-size tgt-vocab-size bpe-size num-symbols",
    "--set tokenizer.kind=bpe": "bpe tokenizer remove-bpe subword sentencepiece",
    "--set data.max_source_length=N": "max-source-length max-source-positions max-src-len src-seq-length",
    "--set data.max_target_length=N": "max-target-length max-target-positions max-tgt-len tgt-seq-length",
}
"""Names that other toolkits (fairseq, Marian, Hugging Face, OpenNMT, JoeyNMT) and newcomers use for our options.

Entries are tried in this order; an entry counts if the verb has its option.
"""


def suggest_option(name: str, known: Iterable[str]) -> list[str]:
    """Return the option of a verb that an unknown option probably means, by meaning or by spelling; or nothing."""
    known = [option for option in known if option.startswith("--")]
    word = name.lstrip("-").replace("_", "-").lower()
    if f"--{word}" in known:
        return [f"--{word}"]
    meant = [ours for ours, theirs in OPTION_SYNONYMS.items() if ours.split()[0] in known and word in theirs.split()]
    near = difflib.get_close_matches(f"--{word}", known, n=1, cutoff=0.75)
    return meant[:1] or near or _similar_first_word(word, known)


def _similar_first_word(word: str, known: Iterable[str]) -> list[str]:
    """Return the option whose first word alone is similar, such as --beam-size for beem."""
    first_words: dict[str, list[str]] = {}
    for option in known:
        first_words.setdefault(option.removeprefix("--").partition("-")[0], []).append(option)
    near = difflib.get_close_matches(word, first_words, n=1, cutoff=0.75)
    return first_words[near[0]] if near and len(first_words[near[0]]) == 1 else []


def describe_unknown_option(name: str, known: Collection[str]) -> str:
    """Return what to write in place of an unknown keyword argument: what it probably means, and all that exist."""
    meant = suggest_option(name, [f"--{one.replace('_', '-')}" for one in known])
    words = [one.split()[0].removeprefix("--").replace("-", "_") for one in meant]
    question = f" Did you mean {words[0]}?" if words else ""
    return f"{name}: no such option.{question} Options: {', '.join(known)}."
