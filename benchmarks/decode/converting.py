"""A trained run as `dragoman translate` and CTranslate2 read it."""

from pathlib import Path

from benchmarks.decode.partners import write_ctranslate2
from dragoman.data.tokenizers import Tokenizer
from dragoman.models.quantization import read_arrays
from dragoman.runs.export import export
from dragoman.runs.folder import RunFolder

COMPUTES = ("float32", "int8")


def convert(run: Path, folder: Path) -> None:
    """Models in the folder, those made that are not there already."""
    opened = RunFolder(run)
    model, weights = opened.read_plain_config()["model"], read_arrays(opened.weights)
    folder.mkdir(parents=True, exist_ok=True)
    for compute in COMPUTES:
        if not (ours := folder / f"dragoman-{compute}").exists():
            export(run, ours, compute="int8" if compute == "int8" else "float32")
        if not (theirs := folder / f"ctranslate2-{compute}").exists():
            write_ctranslate2(model, weights, unique_words(opened.read_tokenizer()), theirs, quantization=compute)


def unique_words(tokenizer: Tokenizer) -> list[str]:
    """The vocabulary in the order of its ids, as CTranslate2 wants it: the symbols, and a name for each other entry."""
    return ["<pad>", "<unk>", "<s>", "</s>", *(f"{number}" for number in range(4, len(tokenizer.source)))]
