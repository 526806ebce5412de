"""Translates a file by Hugging Face, text to text, as a short script of its users does.

    python benchmarks/decode/with_huggingface.py RUN TOKENIZER INPUT OUTPUT

The network is Pegasus, with the weights of the run.
"""

import argparse
from pathlib import Path

import torch
import yaml
from partners import pegasus
from torch.nn.utils.rnn import pad_sequence

from dragoman.data.tokenizers import Tokenizer
from dragoman.models.quantization import read_arrays


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    asked = parser.parse_args()
    tokenizer = Tokenizer.load(asked.tokenizer)
    config = yaml.safe_load((asked.run / "config.yaml").read_text(encoding="utf-8"))
    model = pegasus(config["model"], read_arrays(asked.run / "model.safetensors"))
    texts = asked.input.read_text(encoding="utf-8").splitlines()
    lines = []
    for first in range(0, len(texts), asked.batch):
        rows = [torch.tensor([*ids, 3]) for ids in tokenizer.source.encode_batch(texts[first : first + asked.batch])]
        ids = pad_sequence(rows, batch_first=True)
        found = model.generate(ids, attention_mask=(ids != 0).long(), num_beams=asked.beam, max_new_tokens=512)
        lines += [tokenizer.target.decode([one for one in row if one > 3]) for row in found.tolist()]
    asked.output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
