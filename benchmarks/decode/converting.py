"""A trained run as `dragoman translate` and CTranslate2 read it."""

from pathlib import Path

from benchmarks.decode.partners import write_ctranslate2
from dragoman.data.tokenizer import Tokenizer
from dragoman.experiment.exporting import export
from dragoman.experiment.run import RunFolder
from dragoman.models.arrays import read_arrays

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
