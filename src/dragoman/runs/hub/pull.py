"""Pull: download a model from the Hugging Face Hub, and import it as a run."""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from dragoman.atomic_files import file_lock, new_folder, write_atomically
from dragoman.data.tokenizers.tokenizer_pair import MAX_FILE
from dragoman.errors import ConfigError, RunError, known_word, nearest
from dragoman.interop.hub.connection import Hub
from dragoman.interop.hub.download import PARTIAL, download
from dragoman.interop.hub.file_patterns import ChosenFiles, FilePatterns, choose_files
from dragoman.interop.hub.repository import Repository, check_sizes, read_repository
from dragoman.interop.imported_model import ImportOptions
from dragoman.interop.recognize_format import PARTNERS
from dragoman.number_words import counted
from dragoman.runs.folder import RunFolder
from dragoman.runs.hub.card_metadata import without_metadata
from dragoman.runs.import_model import ImportResult, Published, check_languages, import_files
from dragoman.runs.load import load
from dragoman.tasks.task import cache_dir

if TYPE_CHECKING:
    from dragoman.runs.load import LoadedModel

RUN_FORMAT: Final = "dragoman"
"""Name of the format of run folders."""
RUN_FILES: Final = FilePatterns(
    weights=(("model.safetensors",), ("decoder.onnx", "encoder.onnx", "prompt.onnx")),
    required=(("config.yaml",), ("tokenizer.json",)),
    optional=(
        *("README.md", "alignment.json", "environment.json", "export.json", "labels.json", "origin.json"),
        *("familiarity.safetensors", "quality.json", "scores.json", "shortlist.safetensors"),
    ),
)
MEBIBYTE = 2**20
Progress = Callable[[int, int], None]
"""Function of the bytes that are there, and of the bytes of all files."""


@final
@dataclass(frozen=True)
class PullResult:
    """Downloaded model."""

    path: Path
    repository: str
    commit: str
    """Revision of the files, a commit of the repository."""
    format: str
    files: Mapping[str, int]
    """Bytes of each file that was read."""
    imported: ImportResult | None
    """Import of a model of another program; None for a run of dragoman."""

    def describe(self) -> str:
        """Return the model in words."""
        return f"run {self.repository}" if self.imported is None else self.imported.describe()

    def lines(self) -> list[str]:
        """Return what was downloaded, and the self-check of an import, in words."""
        size = sum(self.files.values()) / MEBIBYTE
        first = f"downloaded: {counted(len(self.files), 'files')}, {size:.1f} MiB, commit {self.commit}"
        return [first, *(self.imported.lines() if self.imported is not None else ())]

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `dragoman pull --json`."""
        return {
            "path": str(self.path),
            "repository": self.repository,
            "commit": self.commit,
            "format": self.format,
            "files": dict(self.files),
            "import": None if self.imported is None else self.imported.to_dict(),
        }

    def load(self) -> "LoadedModel":
        """Load the model as `dragoman.load` does."""
        return load(self.path)


def pull(
    repository: str,
    output_dir: str | Path,
    *,
    revision: str | None = None,
    format: str | None = None,  # noqa: A002  # the name of the option
    file: str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    allow_unused: Sequence[str] = (),
    on_progress: Progress | None = None,
) -> PullResult:
    """Download a model from the Hugging Face Hub and write it to a new run folder.

    Only the files that the import reads are downloaded, safetensors rather than pickles. They stay in the cache until
    the run is written, so that an interrupted download is continued. Models of other programs are imported as by
    `import_model`, whose options are those of `pull`; runs that `push` published are taken as they are.

    Args:
        repository: Name of the model, such as `Helsinki-NLP/opus-mt-en-de`.
        output_dir: Folder of the new run; must not exist.
        revision: Branch, tag or commit; by default the main branch.
        format: Name of the format, also `dragoman`; by default it is recognized by the files.
        file: File of the weights, where a repository has several models.
        source_language, target_language: Default languages of a multilingual model.
        allow_unused: Tensors and settings that may be left out; any other one without a place in the model is an error.
        on_progress: Function that is called with the bytes that are there and those of all files.

    Raises:
        HubError: The Hub cannot be reached, or refuses the request.
        DataError: The repository has no model that dragoman reads, or a file differs from the Hub's description.
        ConfigError, RunError: As `import_model`.
    """
    folder = RunFolder(Path(output_dir))
    folder.check_new(resumes=False)
    formats = _formats(format)
    options = ImportOptions(source_language, target_language, tuple(allow_unused))
    hub = Hub.connect()
    found = read_repository(hub, repository, revision)
    chosen = choose_files(formats, found.files, where=repository, format_name=_only(formats), file=file)
    check_sizes(repository, found.files, small=chosen.settings, limit=MAX_FILE)
    if chosen.format == RUN_FORMAT:
        _refuse(repository, options)
    else:
        check_languages(PARTNERS[chosen.format], options, where=repository)
    cache = cache_dir() / "hub" / repository.replace("/", "--")
    with file_lock(cache / ".lock"):
        source = cache / found.commit
        _download_all(hub, found, chosen, source, options, on_progress or _ignore)
        _check_space(folder.path, _size(found, chosen))
        imported: ImportResult | None = None
        if chosen.format == RUN_FORMAT:
            _copy_run(chosen, source, folder)
        else:
            path = source if len(chosen.all) > 1 else source / chosen.weights[0]
            origin = Published(repository, f"{hub.page(repository)}/tree/{found.commit}", found.license)
            imported = import_files(path, folder, format=_only(formats), options=options, published=origin)
        shutil.rmtree(cache, ignore_errors=True)
    sizes = {name: found.files[name].size for name in chosen.all}
    return PullResult(folder.path, repository, found.commit, chosen.format, sizes, imported)


def _ignore(done: int, total: int) -> None:
    """Report no progress."""


def _formats(name: str | None) -> dict[str, FilePatterns]:
    """Return the files of each format, or of the format of a name. Raises ConfigError for an unknown name."""
    partners = {name: one.files for name, one in PARTNERS.items() if one.files.weights}
    known = {"huggingface": partners.pop("huggingface"), RUN_FORMAT: RUN_FILES, **partners}
    if name is None:
        return known
    if (name := known_word(name, known)) not in known:
        near = nearest(name, known)
        remedy = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}."
        raise ConfigError(f"format = {name} is not read from the Hub. {remedy}")
    return {name: known[name]}


def _only(formats: Mapping[str, FilePatterns]) -> str | None:
    """Return the name of the single format that the user named."""
    return next(iter(formats)) if len(formats) == 1 else None


def _refuse(repository: str, options: ImportOptions) -> None:
    """Raise ConfigError if options of imports are given for a run."""
    if given := [name for name, value in asdict(options).items() if value]:
        raise ConfigError(f"{repository}: is a run of dragoman, for which {given[0]} has no effect. Leave it out.")


def _size(found: Repository, chosen: ChosenFiles) -> int:
    return sum(found.files[name].size for name in chosen.all)


def _download_all(
    hub: Hub, found: Repository, chosen: ChosenFiles, source: Path, options: ImportOptions, on_progress: Progress
) -> None:
    """Download the files that are not there, settings first. Raises RunError if they do not fit on the disk."""
    total, before = _size(found, chosen), 0
    _check_space(source, total - _keep_only(source, chosen.all))
    check_settings = PARTNERS[chosen.format].check_settings if chosen.format in PARTNERS else None
    for number, name in enumerate(chosen.all, start=1):
        file = found.files[name]

        def report(done: int, before: int = before) -> None:
            on_progress(before + done, total)

        download(hub, found, file, source / name, report)
        before += file.size
        if number == len(chosen.settings) and check_settings is not None:
            check_settings(source, options)


def _keep_only(source: Path, names: Collection[str]) -> int:
    """Remove other files, which an import could take for those of the model; return the bytes of the rest."""
    there = [one for one in source.rglob("*") if one.is_file()]
    for path in there:
        if path.relative_to(source).as_posix().removesuffix(PARTIAL) not in names:
            path.unlink()
    return sum(path.stat().st_size for path in there if path.exists())


def _check_space(path: Path, needed: int) -> None:
    """Raise RunError if files of this size do not fit on the disk of a path."""
    existing = next(one for one in (path, *path.absolute().parents) if one.is_dir())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise RunError(
            f"{path}: needs {needed / MEBIBYTE:,.0f} MiB, and the disk has {free / MEBIBYTE:,.0f} MiB. Free some "
            "space, or choose other folders with --output-dir and DRAGOMAN_CACHE."
        )


def _copy_run(chosen: ChosenFiles, source: Path, folder: RunFolder) -> None:
    """Write a run folder from one that was downloaded, after the checks of a folder from a stranger."""
    load(source, device="cpu")
    with new_folder(folder.path) as work:
        for name in chosen.all:
            shutil.copyfile(source / name, work / name)
        copy = RunFolder(work)
        if card := copy.read_model_card():
            write_atomically(copy.model_card, without_metadata(card))
