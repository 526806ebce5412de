"""Argos packages (Argos Translate, LibreTranslate): an archive with a model of CTranslate2, both ways.

The zip archive `.argosmodel` holds one folder with `metadata.json` (languages, version), the folder `model` and the
tokenizer `sentencepiece.model`. Packages with `bpe.model` split texts with Moses' rules, which dragoman does not have.
Format: `argostranslate/package.py`.
"""

import json
import shutil
import stat
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

from dragoman.data.tokenizers import Tokenizer
from dragoman.data.tokenizers.prefixes import Language, Prefixes
from dragoman.errors import ConfigError, DataError, RunError, shorten
from dragoman.interop.ctranslate2 import read_model, write_model
from dragoman.interop.ctranslate2.model_file import FILE_NAME
from dragoman.interop.ctranslate2.read_model import CONFIG_NAME
from dragoman.interop.hub.file_patterns import FilePatterns
from dragoman.interop.imported_model import ExportedModel, ImportedModel, ImportOptions
from dragoman.untrusted_files import MEBIBYTE, FileKind

FORMAT: Final = "argos"
SUFFIX: Final = ".argosmodel"
FILES: Final = FilePatterns(weights=((f"*{SUFFIX}",),))
METADATA: Final = "metadata.json"
SENTENCEPIECE: Final = "sentencepiece.model"
DECODING: Final = read_model.DECODING.model_copy(update={"beam_size": 4, "length_penalty": 0.2})
"""Search of Argos Translate."""
MAX_MEMBERS, MAX_BYTES, MAX_RATIO = 10_000, 2**34, 100
"""Bounds of an archive: members, bytes after decompression, and their ratio to the bytes of the archive."""
_ARCHIVE = FileKind(MAX_BYTES, "download the package again", error=RunError)
_METADATA = FileKind(MEBIBYTE, "download the package again")
_MODEL_FILES: Final = (
    *(FILE_NAME, CONFIG_NAME),
    *(
        f"{name}.{ending}"
        for name in ("shared_vocabulary", "source_vocabulary", "target_vocabulary")
        for ending in ("json", "txt")
    ),
)


def recognizes(path: Path) -> bool:
    """Return whether a path is a package, or the folder of an installed one."""
    if path.is_dir():
        return (path / METADATA).is_file() and (path / "model" / FILE_NAME).is_file()
    return path.suffix == SUFFIX and path.is_file()


def read(path: Path, options: ImportOptions) -> ImportedModel:
    """Read a package, or the folder of an installed one. Raises DataError or RunError if it is damaged or dangerous.

    Only files with the names of the format leave the archive, for a folder of temporary files.
    """
    if path.is_dir():
        return _read_folder(path, options, package=path / METADATA)
    folder = Path(mkdtemp(prefix="dragoman-argos-"))
    try:
        _unpack(path, folder)
        model = _read_folder(folder, options, package=path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if model.reference is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:  # the comparison with CTranslate2 reads the files
        weakref.finalize(model.reference.logits, shutil.rmtree, folder, ignore_errors=True)
    return model


def _read_folder(folder: Path, options: ImportOptions, *, package: Path) -> ImportedModel:
    metadata = _METADATA.read_json_object(folder / METADATA)
    if not (folder / SENTENCEPIECE).is_file():
        raise DataError(
            f"{package}: has no {SENTENCEPIECE}. Packages with bpe.model split texts with the rules of Moses, which "
            "dragoman does not have. Use a newer package of these languages."
        )
    model = read_model.read_folder(folder / "model", options, tokenizers=folder)
    codes = [_text(metadata, name, where=package) for name in ("from_code", "to_code", "target_prefix")]
    prefixes = replace(_prefixes(model.tokenizer, *codes, where=package), source=model.tokenizer.prefixes.source)
    tokenizer = Tokenizer(model.tokenizer.source, model.tokenizer.target, model.tokenizer.config, prefixes)
    documents = dict(model.origin.documents) | {METADATA: metadata}
    origin = replace(
        model.origin, format=FORMAT, version=str(metadata.get("package_version")), documents=documents, files=(package,)
    )
    note = "Argos Translate replaces unknown words by the source word with the highest attention. Here they become ⁇."
    return replace(model, tokenizer=tokenizer, origin=origin, decoding=DECODING, notes=(*model.notes, note))


def _text(metadata: Mapping[str, Any], name: str, *, where: Path) -> str:
    value = metadata.get(name, "")
    if not isinstance(value, str) or len(value) > MAX_RATIO:
        raise DataError(f"{where}: {name} = {shorten(value)} in {METADATA} is no text")
    return value


def _prefixes(tokenizer: Tokenizer, source: str, target: str, prefix: str, *, where: Path) -> Prefixes:
    """Return the languages of a package, and the symbol that its outputs begin with."""
    begin: tuple[int, ...] = ()
    if prefix:
        if prefix not in tokenizer.target.tokens:
            raise DataError(f"{where}: target_prefix = {shorten(prefix)} in {METADATA} is not in the vocabulary")
        begin = (tokenizer.target.tokens.index(prefix),)
    if not source or not target or source == target:
        return Prefixes(target=begin)
    languages = {source: Language(), target: Language()}
    return Prefixes(
        target=begin,
        languages=languages,
        directions=((source, target),),
        source_language=source,
        target_language=target,
    )


def _unpack(path: Path, folder: Path) -> None:
    """Write the files of a package that are needed to a folder, by fixed names. Raises RunError for a bad archive."""
    with _ARCHIVE.open(path) as file:
        size = file.seek(0, 2)
        try:
            with zipfile.ZipFile(file) as archive:
                members = _check_members(path, archive.infolist(), size=size)
                root = next((name.removesuffix(METADATA) for name in members if name.endswith(f"/{METADATA}")), "")
                (folder / "model").mkdir()
                for name in (METADATA, SENTENCEPIECE, *(f"model/{one}" for one in _MODEL_FILES)):
                    if (member := members.get(root + name)) is not None:
                        with archive.open(member) as content, (folder / name).open("wb") as copy:
                            shutil.copyfileobj(content, copy, MEBIBYTE)  # at most `member.file_size`
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError, zlib.error) as error:
            raise _ARCHIVE.damaged(path, f"no zip archive that can be read: {shorten(str(error))}") from error
    if not (folder / METADATA).exists():
        raise RunError(f"{path}: has no folder with {METADATA}, so it is no Argos package")


def _check_members(path: Path, members: list[zipfile.ZipInfo], *, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name. Raises RunError for links, paths out of the archive, and archives that explode."""
    total = sum(member.file_size for member in members)
    if len(members) > MAX_MEMBERS or total > min(MAX_BYTES, MEBIBYTE + MAX_RATIO * size):
        raise RunError(
            f"{path}: claims {len(members):,} files of {total:,} bytes in {size:,}, so it is no Argos package"
        )
    for member in members:
        parts = member.filename.replace("\\", "/").split("/")
        if ".." in parts or member.filename.startswith(("/", "\\")) or ":" in parts[0]:
            raise RunError(f"{path}: {shorten(member.filename)} leads out of the package, which may be an attack")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise RunError(f"{path}: {shorten(member.filename)} is a symbolic link, which may be an attack")
    return {member.filename: member for member in members}


def write(model: ExportedModel, folder: Path) -> None:
    """Write a package to an empty folder, named by its languages, with the measured scores in `metadata.json`.

    Raises ConfigError if the languages are unknown, or CTranslate2 or SentencePiece have no such model.
    """
    metadata = _metadata(model)
    name = f"translate-{metadata['from_code']}_{metadata['to_code']}-{metadata['package_version'].replace('.', '_')}"
    with _temporary_folder() as work:
        inner = work / "model"
        inner.mkdir()
        write_model.write(model, inner)
        if not (inner / SENTENCEPIECE).exists():
            raise ConfigError(
                "tokenizer: an Argos package needs one SentencePiece model for both languages. Train with "
                "tokenizer.kind = bpe or unigram, shared = true, casing = preserve and whitespace = collapse."
            )
        (inner / SENTENCEPIECE).rename(work / SENTENCEPIECE)
        (work / METADATA).write_text(json.dumps(metadata, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (work / "README.md").write_text(_readme(model, metadata), encoding="utf-8")
        with zipfile.ZipFile(folder / f"{name}{SUFFIX}", "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for path in sorted(file for file in work.rglob("*") if file.is_file()):
                _add(archive, path, f"{name}/{path.relative_to(work).as_posix()}")


def _metadata(model: ExportedModel) -> dict[str, Any]:
    known = {} if model.origin is None else dict(model.origin.documents.get(METADATA, {}))
    prefixes = model.tokenizer.prefixes
    own = prefixes.source_language or known.get("from_code"), prefixes.target_language or known.get("to_code")
    source, target = model.languages or own
    if model.task != "translation" or source is None or target is None:
        raise ConfigError(
            "An Argos package holds a translator and names its languages. Give --source-language and --target-language."
        )
    for code in (source, target):
        if not code.replace("-", "").replace("_", "").isalnum():
            raise ConfigError(f"language = {code!r} is no language code. Give one such as en, de or pt-BR.")
    defaults = {"package_version": "1.0", "argos_version": "1.9", "from_name": source, "to_name": target}
    found = defaults | known | {"from_code": source, "to_code": target}
    if model.scores:
        found["scores"] = {metric: round(value, 2) for metric, value in model.scores.items()}
    return found


def _readme(model: ExportedModel, metadata: Mapping[str, Any]) -> str:
    scores = metadata.get("scores", {})
    measured = ", ".join(f"{metric} {value}" for metric, value in scores.items()) or "not measured"
    return (
        f"# {metadata['from_name']} to {metadata['to_name']}\n\nModel `{model.name}`, exported by dragoman.\n\n"
        f"Scores on its test set: {measured}.\n"
    )


def _add(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    """Add a file without the time, so that the same model gives the same package."""
    member = zipfile.ZipInfo(name)
    member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    with path.open("rb") as content, archive.open(member, "w", force_zip64=True) as copy:
        shutil.copyfileobj(content, copy, MEBIBYTE)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    folder = Path(mkdtemp(prefix="dragoman-argos-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
