"""Translates a file by CTranslate2, text to text, as a short script of its users does.

    python benchmarks/decode/with_ctranslate2.py MODEL TOKENIZER INPUT OUTPUT --compute int8 --threads 1

The tokenizer is that of the run that the model was made from.
"""

import argparse
import json
from pathlib import Path

import ctranslate2

from dragoman.data.tokenizers import Tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--compute", default="int8")
    parser.add_argument("--translators", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--beam", type=int, default=5)
    asked = parser.parse_args()
    tokenizer = Tokenizer.load(asked.tokenizer)
    model = ctranslate2.Translator(
        str(asked.model), compute_type=asked.compute, inter_threads=asked.translators, intra_threads=asked.threads
    )
    words = json.loads((asked.model / "shared_vocabulary.json").read_text(encoding="utf-8"))
    numbers = {word: number for number, word in enumerate(words)}
    texts = asked.input.read_text(encoding="utf-8").splitlines()
    sources = [[*(words[number] for number in ids), words[3]] for ids in tokenizer.source.encode_batch(texts)]
    found = model.translate_batch(
        sources, beam_size=asked.beam, batch_type="tokens", max_batch_size=asked.batch_tokens, max_decoding_length=512
    )
    lines = [tokenizer.target.decode([numbers[word] for word in one.hypotheses[0]]) for one in found]
    asked.output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
