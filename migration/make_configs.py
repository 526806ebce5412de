"""Writes references/configs/<name>.yaml, in the old vocabulary. Corpora are named relative to references/corpora, and other
runs (`start`, `teacher`, and `beside` a teacher) by their names here. The order of RUNS is the order of training."""

from pathlib import Path

import yaml

OUT = Path("references/configs")


def merge(one, other):
    both = dict(one)
    for key, value in other.items():
        replace = (
            not isinstance(value, dict)
            or not isinstance(both.get(key), dict)
            or value.get("kind") != both[key].get("kind", value.get("kind"))
        )
        both[key] = value if replace else merge(both[key], value)
    return both


def files(name, part, **more):
    return {"kind": "files", "source": f"{name}.{part}.en", "target": f"{name}.{part}.de", **more}


def training(updates=120, rate=0.004, **more):
    return merge({
        "length": {"kind": "updates", "count": updates}, "interval": {"kind": "updates", "count": updates // 2},
        "batch_tokens": 1024, "optimiser": {"kind": "adamw", "learning_rate": rate},
        "schedule": {"kind": "cosine", "warmup": 20}, "keep": 2, "report": 1, "workers": 1,
    }, more)  # fmt: skip


BPE = {"kind": "bpe", "vocabulary": 900}
SMALL = {"size": 64, "heads": 4, "feed_forward": 128}


def translation(corpus="short", tokenizer=BPE, model={}, train={}, data={}, **more):
    return merge({
        "task": "translation",
        "data": {"train": files(corpus, "train"), "valid": files(corpus, "valid"), "test": files(corpus, "test"), **data},
        "tokenizer": tokenizer,
        "model": {"kind": "transformer", **SMALL, "encoder_layers": 2, "decoder_layers": 2, **model},
        "training": training(**train),
        "decoding": {"beam": 4},
    }, more)  # fmt: skip


def recurrent(**model):
    return {**translation(train={"rate": 0.008}), "model": {"kind": "recurrent", "size": 64, **model}}


def attention(encoder=None, decoder=None, cross=None, encoder_pattern=None, decoder_pattern=None):
    def one(score, pattern=None):
        return {key: value for key, value in (("score", score), ("pattern", pattern)) if value}

    found = {"encoder": one(encoder, encoder_pattern), "decoder": one(decoder, decoder_pattern), "cross": one(cross)}
    return {name: value for name, value in found.items() if value}


def causal(**model):
    return {"kind": "causal", **SMALL, "layers": 2, **model}


def reader(**model):
    return {"kind": "encoder", **SMALL, "layers": 2, "activation": "gelu", "scale_embedding": False, "norm_embedding": True,
            "positions": {"kind": "learned", "length": 128}, **model}  # fmt: skip


LOWER = {"kind": "bpe", "vocabulary": 900, "casing": "lower", "byte_fallback": False}
TREES = {part: files("short", part, source_trees=f"short.{part}.conllu") for part in ("train", "valid", "test")}
WIKI = {"train": {"kind": "text", "path": "wiki.train.txt", "documents": "line"},
        "valid": {"kind": "text", "path": "wiki.valid.txt", "documents": "line"}, "context": 64}  # fmt: skip
SENTIMENT = {
    "train": {"kind": "jsonl", "path": "sentiment.train.jsonl"},
    "valid": {"kind": "jsonl", "path": "sentiment.dev.jsonl"},
}
TAGS = {part: {"kind": "columns", "path": f"tags.{part}.tsv"} for part in ("train", "valid", "test")}


def squad(first, last):
    return {"kind": "squad", "path": "squad.json", "articles": [first, last]}


RUNS = {
    # The five whose losses and final weights are to stay bit for bit (and those of all others too): exactly 60 updates.
    "sixty_adamw": translation(train={"updates": 60, "moving_average": 0.98}),
    "sixty_muon_rdrop": translation(
        model={"positions": {"kind": "learned", "length": 300}, "norm_position": "post", "norm_embedding": True, "activation": "gelu"},
        train={"updates": 60, "precision": "float32", "optimiser": {"kind": "muon", "learning_rate": 0.01}, "objective": {"kind": "r_drop", "weight": 2.0}},
    ),
    "sixty_lstm": {**recurrent(attention={"kind": "additive"}, encoder_layers=2, decoder_layers=2), "training": training(60, 0.008)},
    "sixty_lm": {
        "task": "language_modelling",
        "data": {"kind": "text", "train": {"kind": "text", "path": "plays.txt"}, "held_out": 0.05, "context": 64},
        "tokenizer": {"kind": "characters", "byte_fallback": False, "whitespace": "keep"},
        "model": causal(positions={"kind": "rotary"}, activation="silu", gated=True, norm="rms", bias=False, key_value_heads=2, scale_embedding=False),
        "training": training(60, 0.006),
    },
    "sixty_classification": {
        "task": "classification",
        "data": {"train": {"kind": "lines", "path": "questions.train.txt", "encoding": "latin-1"},
                 "test": {"kind": "lines", "path": "questions.test.txt", "encoding": "latin-1"}, "held_out": 100, "longest": 32},
        "tokenizer": {"kind": "words", "vocabulary": 2000, "minimum_count": 2, "casing": "lower"},
        "model": reader(layers=1, segments=1), "head": {"pooling": "mean"},
        "training": training(60, 0.004, label_smoothing=0.1),
    },
    # Translation: every kind of position, score and pattern, and every way to train.
    "mt_second_seed": translation(train={"updates": 120, "rate": 0.006, "seed": 2}),
    "mt_sinusoidal": translation(train={"updates": 240, "rate": 0.006, "moving_average": 0.97}),
    "mt_toy": translation(
        "toy", tokenizer={"kind": "bpe", "vocabulary": 160, "byte_fallback": False}, model={"positions": {"kind": "rotary"}, "dropout": {"embedding": 0.0, "residual": 0.0}},
        train={"updates": 300, "rate": 0.007, "label_smoothing": 0.05},
    ),
    "mt_rotary_swiglu": translation(
        tokenizer={**BPE, "dropout": 0.1},
        model={"positions": {"kind": "rotary"}, "activation": "silu", "gated": True, "norm": "rms", "bias": False, "key_value_heads": 2},
        train={"updates": 200, "rate": 0.006},
        data={"noise": {"capitals": 0.05, "lower": 0.1, "title": 0.05, "no_end_mark": 0.1, "typing": 0.05, "truncated": 0.05}},
    ),
    "mt_shaw_characters": translation(tokenizer={"kind": "characters"}, model={"positions": {"kind": "relative", "reach": 4}}, train={"updates": 60}),
    "mt_t5_two_vocabularies": translation(
        tokenizer={**BPE, "shared": False, "split_digits": False, "normalisation": "nfkc"},
        model={"positions": {"kind": "bucketed", "buckets": 8, "furthest": 16}, "tie": "target", "scale_embedding": False,
               "attention": attention({"kind": "dot"}, {"kind": "dot"}, {"kind": "dot"})},
    ),
    "mt_alibi_words": translation(
        tokenizer={"kind": "words", "vocabulary": 1500, "minimum_count": 2, "casing": "lower", "shared": False},
        model={"positions": {"kind": "alibi"}, "tie": "none", "dropout": {"attention": 0.1, "feed_forward": 0.1}},
        train={"optimiser": {"kind": "adam", "learning_rate": 0.004}, "schedule": {"kind": "inverse_sqrt", "warmup": 30}},
    ),
    "mt_structural": translation(model={"positions": {"kind": "structural", "reach": 4}}, data=TREES),
    "mt_scores": translation(data={"valid": None, "held_out": 50}, model={"positions": {"kind": "none"}, "attention": attention({"kind": "additive", "hidden_size": 8}, {"kind": "cosine"}, {"kind": "multiplicative"})}),
    "mt_scores_too": translation(
        model={"positions": {"kind": "sinusoidal", "join": "concatenate"}, "attention": attention({"kind": "reduced_rank", "rank": 4}, {"kind": "dot"}, {"kind": "additive", "hidden_size": 8})},
        train={"schedule": {"kind": "warmup_stable_decay", "warmup": 20}},
    ),
    "mt_bigbird_window": translation("captions", model={"attention": attention(encoder_pattern={"kind": "bigbird", "block": 4, "random": 1}, decoder_pattern={"kind": "window", "reach": 4})}),
    "mt_linformer": translation("captions", model={"attention": attention(encoder_pattern={"kind": "linformer", "width": 8, "length": 128})}, data={"longest_source": 120, "longest_target": 120}),
    "mt_window_relative": translation("captions", model={"positions": {"kind": "relative", "reach": 4, "values": False}, "attention": attention(encoder_pattern={"kind": "window", "reach": 3}, decoder_pattern={"kind": "window", "reach": 5})}),
    "mt_workers": translation(train={"updates": 60, "workers": 2, "accumulate": 2, "batch_tokens": 1024}),
    "mt_bfloat16": translation(train={"updates": 60, "precision": "bfloat16", "optimiser": {"kind": "muon", "learning_rate": 0.01}}),
    "mt_recompute": translation(train={"updates": 60, "recompute": True}),
    "mt_corpora_at_temperature": translation(data={"temperature": 2.0, "beside": [{"corpus": {"kind": "tsv", "path": "more.tsv"}}, {"corpus": {"kind": "jsonl", "path": "some.jsonl"}}]}, train={"updates": 60}),
    "mt_corpora_by_times": translation(data={"beside": [{"corpus": {"kind": "tsv", "path": "more.tsv"}, "times": 0.5}, {"corpus": {"kind": "jsonl", "path": "some.jsonl"}, "times": 2.0}]}, train={"updates": 60, "length": {"kind": "epochs", "count": 1}, "interval": {"kind": "epochs", "count": 1}}),
    "mt_prepared": translation(data={"train": {"kind": "prepared", "folder": "prepared"}, "valid": None, "test": None}, train={"updates": 60}),
    "mt_lora": {"task": "translation", "start": "mt_sinusoidal", "data": {part: files("captions", part) for part in ("train", "valid", "test")},
                "training": training(60, 0.004, adapters={"kind": "lora", "rank": 4, "targets": ["query", "key", "value", "output", "inner", "outer"]}), "decoding": {"beam": 4}},
    "mt_extended": {"task": "translation", "start": "mt_sinusoidal", "extend_vocabulary": 40, "data": {part: files("captions", part) for part in ("train", "valid", "test")},
                    "training": training(60, 0.002, schedule={"kind": "linear", "warmup": 10}), "decoding": {"beam": 4}},
    "mt_distilled": {**translation(model={"size": 32, "decoder_layers": 1}), "tokenizer": {},
                     "training": training(60, objective={"kind": "word_distillation", "teacher": "mt_sinusoidal", "beside": ["mt_second_seed"], "temperature": 2.0})},
    "mt_lstm": recurrent(attention={"kind": "additive"}, dropout={"embedding": 0.1, "output": 0.1}),
    "mt_gru_bottleneck": recurrent(cell="gru", attention={"kind": "none"}, encoder_layers=2, embedding_size=48, encoder_size=32, tie="none"),
    "mt_gru_multiplicative": recurrent(cell="gru", attention={"kind": "multiplicative"}, input_feeding=False, decoder_layers=2),
    # Decoder-only.
    "lm_text": {
        "task": "language_modelling", "data": {"kind": "text", **WIKI}, "tokenizer": {**LOWER, "vocabulary": 1200},
        "model": causal(positions={"kind": "learned", "length": 64}, activation="gelu_tanh"), "training": training(150, 0.005),
    },
    "lm_window": {
        "task": "language_modelling", "data": {"kind": "text", "train": {"kind": "text", "path": "plays.txt", "documents": "blank_line"}, "context": 48},
        "tokenizer": {**BPE, "whitespace": "keep"},
        "model": causal(positions={"kind": "alibi"}, attention={"pattern": {"kind": "window", "reach": 6}}, tie=False), "training": training(100),
    },
    "lm_prompts": {
        "task": "language_modelling", "data": {"kind": "pairs", **{part: files("short", part) for part in ("train", "valid", "test")}}, "tokenizer": BPE,
        "model": causal(positions={"kind": "rotary"}, tie=True), "training": training(150, 0.005),
        "template": {"user": {"prefix": "U: ", "suffix": "\n"}, "assistant": {"prefix": "A: ", "suffix": "\n"}},
    },
    # Encoders.
    "mlm": {"task": "masked_modelling", "data": WIKI, "tokenizer": LOWER, "model": reader(predict_hidden=True, segments=2), "training": training(150, 0.004)},
    "classification_from_mlm": {"task": "classification", "start": "mlm", "data": {**SENTIMENT, "longest": 48}, "head": {"pooling": "first", "dense": True}, "training": training(80, 0.002)},
    "classification_causal": {"task": "classification", "start": "lm_text", "data": {**SENTIMENT, "longest": 48}, "head": {"pooling": "last"}, "training": training(60, 0.002)},
    "tagging": {"task": "tagging", "data": {**TAGS, "longest": 64}, "tokenizer": LOWER, "model": reader(positions={"kind": "relative", "reach": 4, "values": False}, segments=1), "training": training(80, 0.004)},
    "tagging_from_mlm": {"task": "tagging", "start": "mlm", "data": {**TAGS, "longest": 64}, "training": training(60, 0.002)},
    "answering": {"task": "answering", "data": {"train": squad(1, 3), "valid": squad(4, 4), "test": squad(5, 5), "windows": {"longest": 96, "longest_question": 24, "stride": 32}},
                  "tokenizer": LOWER, "model": reader(positions={"kind": "relative", "reach": 8, "values": False}, segments=2), "training": training(80, 0.003)},
    "answering_from_mlm": {"task": "answering", "start": "mlm", "data": {"train": squad(1, 5), "valid": {"kind": "jsonl", "path": "unanswerable.jsonl"}, "windows": {"longest": 96, "longest_question": 24, "stride": 32}},
                           "training": training(60, 0.002), "answers": {"threshold": 0.0}},
}  # fmt: skip

if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for name, tree in RUNS.items():
        (OUT / f"{name}.yaml").write_text(
            yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8"
        )
    (OUT / "ORDER").write_text("".join(f"{name}\n" for name in RUNS), encoding="utf-8")
