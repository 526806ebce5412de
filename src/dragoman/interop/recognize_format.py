"""The formats of other programs, and the recognition of a format by the content of its files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from dragoman.errors import ConfigError, DataError, nearest, suggest_path
from dragoman.interop import g2p_en, marian
from dragoman.interop.ctranslate2 import argos_package, read_model, write_model
from dragoman.interop.ctranslate2.read_model import is_ctranslate2
from dragoman.interop.fairseq import partner as fairseq
from dragoman.interop.gguf import partner as gguf
from dragoman.interop.hub.file_patterns import FilePatterns
from dragoman.interop.huggingface import partner as huggingface
from dragoman.interop.huggingface.write_model import write as write_huggingface
from dragoman.interop.imported_model import ExportedModel, ImportedModel, ImportOptions
from dragoman.interop.joeynmt import partner as joeynmt
from dragoman.interop.onnx import partner as onnx

NO_FILES = FilePatterns(())


@final
@dataclass(frozen=True)
class Partner:
    """Format of another program."""

    description: str
    """Description of a source of this format, such as `fairseq checkpoint next to its dictionaries`."""
    recognizes: Callable[[Path], bool]
    """Return whether a file or folder has this format, from names and first bytes; never raises on invalid content."""
    read: Callable[[Path, ImportOptions], ImportedModel] | None
    """Read a model; None for formats that are only written.

    Raises DataError on invalid files and ConfigError on models that dragoman cannot compute.
    """
    write: Callable[[ExportedModel, Path], str | None] | None = None
    """Write a model to a new folder, which exists and is empty, and return what a check of the files found, if any.

    Raises ConfigError if the format lacks a part of the model; None for formats that are only read.
    """
    has_shortlists: bool = False
    """Whether the format holds lexical shortlists."""
    is_run: bool = False
    """Whether the files are written into an exported run, which dragoman uses with them in the place of weights."""
    reads_languages: bool = False
    """Whether `read` obeys the languages of `ImportOptions`."""
    files: FilePatterns = NO_FILES
    """Names of the files that `read` reads, for a download; no patterns for a format that is not downloaded."""
    check_settings: Callable[[Path, ImportOptions], None] | None = None
    """Raise the errors of `read` that the settings of a model cause, from a folder that may lack the weights."""


PARTNERS: Mapping[str, Partner] = {
    "huggingface": Partner(
        "folder of a Hugging Face model, with config.json, weights and tokenizer",
        huggingface.recognizes,
        huggingface.read,
        write_huggingface,
        reads_languages=True,
        files=huggingface.FILES,
        check_settings=huggingface.check_settings,
    ),
    "gguf": Partner("GGUF file of llama.cpp", gguf.recognizes, gguf.read, files=gguf.FILES),
    "argos": Partner(
        "package of Argos Translate",
        argos_package.recognizes,
        argos_package.read,
        argos_package.write,
        files=argos_package.FILES,
    ),
    "ctranslate2": Partner(
        "folder of CTranslate2",
        is_ctranslate2,
        read_model.read,
        write_model.write,
        reads_languages=True,
        files=read_model.FILES,
    ),
    "fairseq": Partner(
        "fairseq checkpoint next to its dictionaries",
        fairseq.recognizes,
        fairseq.read,
        reads_languages=True,
        files=fairseq.FILES,
    ),
    "joeynmt": Partner("folder of a JoeyNMT training", joeynmt.recognizes, joeynmt.read, files=joeynmt.FILES),
    "g2p_en": Partner("checkpoint of the package g2p-en", g2p_en.recognizes, g2p_en.read, files=g2p_en.FILES),
    "marian": Partner(
        "model of Marian or Firefox, next to its vocabularies",
        marian.recognizes,
        marian.read,
        marian.write,
        has_shortlists=True,
        reads_languages=True,
        files=marian.FILES,
    ),
    "onnx": Partner("graphs of ONNX", lambda _: False, None, onnx.write, has_shortlists=True, is_run=True),
}
"""Partner by the name of its format."""


def recognize_format(source: Path, name: str | None = None) -> Partner:
    """Return the format of a file or folder, which is that of a `name` if it is given.

    Raises ConfigError for an unknown name, and DataError if no format, or several formats, match the files.
    """
    if name is not None:
        return require_format(name)
    if not source.exists():
        near = suggest_path(source)
        raise DataError(f"{source}: does not exist. {f'Did you mean {near}?' if near else 'Give a file or folder.'}")
    found = [name for name, partner in PARTNERS.items() if partner.recognizes(source)]
    if len(found) == 1:
        return PARTNERS[found[0]]
    if source.is_dir() and not any(source.iterdir()):
        raise DataError(f"{source}: is an empty folder. Give the folder of a model.")
    what = f"could be of several formats ({', '.join(found)})" if found else "has no format that dragoman reads"
    raise DataError(f"{source}: {what}. Name its format with --format: {', '.join(_known(writes=False))}.")


def require_format(name: str, *, writes: bool = False) -> Partner:
    """Return the format of a name. Raises ConfigError if there is none, or with `writes` if it is only read."""
    known = _known(writes=writes)
    if name in known:
        return known[name]
    near = nearest(name, known)
    problem = f"is only {'read' if writes else 'written'}" if name in PARTNERS else "does not exist"
    remedy = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known) or 'none'}."
    raise ConfigError(f"format = {name} {problem}. {remedy}")


def _known(*, writes: bool) -> dict[str, Partner]:
    """Return the formats that can be written or, if not `writes`, read."""
    return {name: one for name, one in PARTNERS.items() if (one.write if writes else one.read) is not None}
