"""Usage: convert_tokenizer.py OLD_tokenizer.json NEW_tokenizer.json   (format version 1 or 2 -> 3); prints old and new fingerprints."""

import hashlib
import json
import sys

old = json.load(open(sys.argv[1], encoding="utf-8"))
KEYS = {
    "normalisation": "normalization",
    "words_begin_with_space": "add_prefix_space",
    "vocabulary": "vocab_size",
    "minimum_count": "min_frequency",
}
KINDS = {"merges": "bpe", "scores": "unigram", "words": "words"}
SPECIAL = [" <pad>", " <unk>", " <bos>", " <eos>"]


def renamed(tree):
    return {KEYS.get(k, k): v for k, v in tree.items()} | ({} if "whitespace" in tree else {"whitespace": "collapse"})


def side(tree):
    if tree is None:
        return None
    n = renamed(tree["preparation"])
    s = tree["segmentation"]
    m = {
        "kind": KINDS[s["kind"]],
        "vocab": SPECIAL + s["pieces"][4:],
        **{k: s[k] for k in ("merges", "scores") if k in s},
    }
    order = ["normalization", "casing", "add_prefix_space", "split_punctuation", "split_digits", "whitespace"]
    return {"normalizer": {k: n[k] for k in order}, "model": m}


sides = {"source": side(old["source"]), "target": side(old["target"])}
digest = hashlib.sha256(json.dumps(sides, sort_keys=True).encode()).hexdigest()
new = {
    "format": "dragoman.tokenizer",
    "format_version": 3,
    "fingerprint": digest,
    "config": renamed(old["settings"]),
    **sides,
}
open(sys.argv[2], "w", encoding="utf-8").write(json.dumps(new, ensure_ascii=False, indent=1) + "\n")
print(old["fingerprint"], digest)
