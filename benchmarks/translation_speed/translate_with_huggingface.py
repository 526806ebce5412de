"""Translate a file with Hugging Face's Pegasus and the weights of a run, as a short script of its users does.

python -m benchmarks.translation_speed.translate_with_huggingface RUN TOKENIZER INPUT OUTPUT
"""

import argparse
from pathlib import Path

import torch
import yaml
from torch.nn.utils.rnn import pad_sequence

from dragoman.data.tokenizers import Tokenizer
from dragoman.models.weight_quantization import load_arrays
from tests.pegasus import pegasus


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.load(arguments.tokenizer)
    config = yaml.safe_load((arguments.run / "config.yaml").read_text(encoding="utf-8"))
    model = pegasus(config["model"], load_arrays(arguments.run / "model.safetensors"))
    texts = arguments.input.read_text(encoding="utf-8").splitlines()
    lines = []
    for first in range(0, len(texts), arguments.batch):
        rows = [
            torch.tensor([*ids, 3]) for ids in tokenizer.source.encode_batch(texts[first : first + arguments.batch])
        ]
        ids = pad_sequence(rows, batch_first=True)
        outputs = model.generate(ids, attention_mask=(ids != 0).long(), num_beams=arguments.beam, max_new_tokens=512)
        lines += [tokenizer.target.decode([one for one in row if one > 3]) for row in outputs.tolist()]
    arguments.output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
