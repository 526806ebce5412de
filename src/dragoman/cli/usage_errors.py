"""Messages of wrong usage: unknown verbs and options, missing and invalid values, with what was probably meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

USAGE_ERROR: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""Class of all errors of usage, which typer does not export."""

VERB_SYNONYMS: Final = {
    "translate": "interactive infer inference predict decode run translator",
    "train": "fit finetune fine-tune learn resume onmt_train",
    "evaluate": "eval test bleu sacrebleu chrf metric metrics validate",
    "data prepare": "preprocess prepare tokenize build-vocab clean binarize",
    "export": "convert converter quantize save",
    "info": "show describe ls list status summary",
    "compare": "diff significance bootstrap",
    "analyse": "analyze analyse-errors errors",
    "inspect": "attention visualize explain plot",
    "generate": "chat complete completion sample prompt",
    "score": "perplexity ppl forced-decoding rescore log-prob",
    "classify": "label tag tagger classifier",
    "answer": "qa squad question",
    "bench": "benchmark speed profile",
    "plan": "estimate dry-run cost",
    "backtranslate": "back-translate bt",
    "distill": "distil distillation",
    "--help": "help usage man",
    "--version": "version",
}
"""Words for what a verb does, in other programs and in everyday language."""

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


def describe_usage_error(error: Any, verb: str | None) -> str:
    """Return one message for an error of the command line's parser: what is wrong, and what to write instead.

    The message is empty if the help has been printed instead.
    """
    context = error.ctx
    command = context.command_path if context is not None else f"dragoman {verb or ''}".strip()
    options = [name for one in context.command.params for name in one.opts if name[:1] == "-"] if context else []
    more = f"All options: {command} --help"
    match type(error).__name__:
        case "NoArgsIsHelpError":
            return ""  # typer has printed the help
        case "NoSuchOption":
            meant = suggest_option(error.option_name, options)
            remedy = f"Did you mean {meant[0]}? {more}" if meant else more
            return f"{error.option_name}: {command} has no such option. {remedy}"
        case "MissingParameter":
            return _describe_missing(error, command)
        case "BadParameter":
            return _describe_bad_value(error, more)
        case "BadOptionUsage" if "requires" in error.message:
            return f"{error.option_name}: needs a value. Give one after it. {more}"
        case "BadOptionUsage":
            return f"{error.option_name}: takes no value. Leave out what follows it. {more}"
    text = str(error.message)
    if text.startswith("No such command"):
        return _describe_unknown_verb(text.split("'")[1], context.command.commands, command)
    if text.startswith("Missing command"):
        return f"{command}: a command is missing. Choose one of {', '.join(context.command.commands)}."
    if text.startswith("Got unexpected extra argument"):
        return _describe_extra(text.partition("(s) (")[2].removesuffix(")"), context, options)
    return f"{text} {more}"


def suggest_option(name: str, known: Iterable[str]) -> list[str]:
    """Return the option of a verb that an unknown option probably means, by meaning or by spelling; or nothing."""
    known = [option for option in known if option.startswith("--")]
    word = name.lstrip("-").replace("_", "-").lower()
    if f"--{word}" in known:
        return [f"--{word}"]
    meant = [ours for ours, theirs in OPTION_SYNONYMS.items() if ours.split()[0] in known and word in theirs.split()]
    near = difflib.get_close_matches(f"--{word}", known, n=1, cutoff=0.75)
    return meant[:1] or near


def _describe_missing(error: Any, command: str) -> str:
    parameter = error.param
    if parameter.param_type_name == "argument":
        name = parameter.name.upper()
        return f"{name} is missing. Write: {command} {name} [OPTIONS]. All options: {command} --help"
    what = (getattr(parameter, "help", None) or "").partition(".")[0]
    return f"{parameter.opts[0]} is missing{f': {_decapitalize(what)}' if what else ''}. All options: {command} --help"


def _decapitalize(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _describe_bad_value(error: Any, more: str) -> str:
    """Describe an invalid value; its rule is that of the type of the option."""
    parameter = error.param
    name = parameter.name.upper() if parameter.param_type_name == "argument" else parameter.opts[0]
    details = getattr(error.__cause__, "errors", None)
    if details is None:
        return f"{name}: {_decapitalize(str(error.message))} {more}"
    from dragoman.config import describe_rule

    found = details()[0]
    choices = parameter.type_descriptor.choices if hasattr(parameter, "type_descriptor") else None
    if choices:
        names = [str(getattr(one, "value", one)) for one in choices]
        near = difflib.get_close_matches(str(found["input"]), names, n=1, cutoff=0.5)
        return f"{name} {found['input']}: must be one of {', '.join(names)}." + (
            f" Did you mean {near[0]}?" if near else ""
        )
    return f"{name} {found['input']}: {describe_rule(found)}. {more}"


def _describe_unknown_verb(verb: str, known: Mapping[str, Any], command: str) -> str:
    verbs = {ours: theirs for ours, theirs in VERB_SYNONYMS.items() if ours.split()[0] in known or ours[0] == "-"}
    meant = [ours for ours, theirs in verbs.items() if verb.lower() in theirs.split()]
    near = difflib.get_close_matches(verb, known, n=1)
    suggestions = meant or near
    remedy = f"Did you mean {command} {suggestions[0]}?" if suggestions else f"All verbs: {command} --help"
    return f"{verb}: {command} has no such verb. {remedy}"


def _describe_extra(extra: str, context: Any, options: list[str]) -> str:
    arguments = [one.name.upper() for one in context.command.params if one.param_type_name == "argument"]
    takes = f"takes only {' '.join(arguments)}" if arguments else "takes options only"
    files = next((option for option in ("--input", "--text", "--source") if option in options), None)
    remedy = f"Give a file with {files}." if files else "Leave it out."
    return f"{extra}: is not expected. {context.command_path} {takes}. {remedy}"
