"""Translate a file with CTranslate2, as a short script of its users does.

    python translate_with_ctranslate2.py MODEL TOKENIZER INPUT OUTPUT --compute int8 --threads 1

The tokenizer is that of the run from which the model was converted.
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
    arguments = parser.parse_args()
    tokenizer = Tokenizer.load(arguments.tokenizer)
    model = ctranslate2.Translator(
        str(arguments.model),
        compute_type=arguments.compute,
        inter_threads=arguments.translators,
        intra_threads=arguments.threads,
    )
    words = json.loads((arguments.model / "shared_vocabulary.json").read_text(encoding="utf-8"))
    numbers = {word: number for number, word in enumerate(words)}
    texts = arguments.input.read_text(encoding="utf-8").splitlines()
    sources = [[*(words[number] for number in ids), words[3]] for ids in tokenizer.source.encode_batch(texts)]
    results = model.translate_batch(
        sources,
        beam_size=arguments.beam,
        batch_type="tokens",
        max_batch_size=arguments.batch_tokens,
        max_decoding_length=512,
    )
    lines = [tokenizer.target.decode([numbers[word] for word in result.hypotheses[0]]) for result in results]
    arguments.output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
