"""Push: publish the model of a run on the Hugging Face Hub, with its model card."""

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, final

from dragoman.atomic_files import write_atomically
from dragoman.errors import ConfigError, RunError, shorten_text
from dragoman.interop.hub.connection import LOG_IN, MAX_REASON, Hub, HubError, require_library
from dragoman.interop.hub.repository import check_name
from dragoman.interop.recognize_format import require_format
from dragoman.models.weight_quantization import ComputeType
from dragoman.number_words import counted
from dragoman.runs.export import export, renamed_card
from dragoman.runs.folder import RunFolder
from dragoman.runs.hub.card_metadata import with_metadata
from dragoman.runs.hub.pull import MEBIBYTE, RUN_FORMAT
from dragoman.runs.load import open_run
from dragoman.untrusted_files import FileKind

COMMIT_MESSAGE: Final = "Upload a model of dragoman"
_FILES = FileKind(2**42, error=RunError)
_MALFORMED: Final = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, OSError)
"""What the library raises for answers that it does not expect, and for failures of its storage."""


@final
@dataclass(frozen=True)
class PushResult:
    """Published model."""

    repository: str
    url: str
    """Page of the model."""
    commit: str
    format: str
    files: dict[str, int]
    """Bytes of each file."""

    def describe(self) -> str:
        """Return what was published in words."""
        size = sum(self.files.values()) / MEBIBYTE
        return f"{self.url}: {self.format}, {counted(len(self.files), 'files')}, {size:.1f} MiB, commit {self.commit}"

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `dragoman push --json`."""
        return {
            "repository": self.repository,
            "url": self.url,
            "commit": self.commit,
            "format": self.format,
            "files": self.files,
        }


def push(
    run: str | Path,
    repository: str,
    *,
    format: str = RUN_FORMAT,  # noqa: A002  # the name of the option
    private: bool = False,
    revision: str | None = None,
    compute_type: ComputeType = "float32",
    languages: tuple[str, str] | None = None,
    report: Callable[[str], None] | None = None,
) -> PushResult:
    """Publish the model of a finished run on the Hugging Face Hub, which is created if it does not exist.

    The files are those of `export`, and the model card of the run with metadata and the command that pulls the model.
    An exported model is published as it is. Files of the repository with other names stay.

    Args:
        run: Run folder or exported model.
        repository: Name of the model on the Hub, `ORGANIZATION/MODEL`.
        format: `dragoman` for a run folder, which `pull` takes as it is, or a format of `export`.
        private: Create the repository for the owner only; one that exists stays as it is.
        revision: Branch to write to, which is created if it does not exist; by default the main branch.
        compute_type: Number format of the weights.
        languages: Codes of source and target language, for formats that name them.
        report: Function that is called with a message before the upload.

    Raises:
        HubError: The Hub cannot be reached, or refuses the request; there is no access token.
        ConfigError, RunError: The run cannot be exported in this way.
    """
    hub = Hub.connect()
    check_name(repository, needs_organization=True)
    _check_login(hub)
    folder = open_run(run)
    if format != RUN_FORMAT:
        require_format(format, writes=True)
    elif languages is not None:
        raise ConfigError("languages has no effect on a run of dragoman, which knows its own. Leave it out.")
    with _exported(folder, repository, format, compute_type, languages) as path:
        sizes = {one.relative_to(path).as_posix(): one.stat().st_size for one in path.rglob("*") if one.is_file()}
        size = sum(sizes.values()) / MEBIBYTE
        if report is not None:
            report(f"uploads {counted(len(sizes), 'files')}, {size:.1f} MiB, to {hub.page(repository)}")
        commit = _upload(hub, path, repository, private=private, revision=revision)
    return PushResult(repository, hub.page(repository), commit, format, dict(sorted(sizes.items())))


def _check_login(hub: Hub) -> None:
    """Raise HubError without an access token, before a long export."""
    if not require_library().get_token():
        raise HubError(f"{hub.shown}: needs an access token to publish a model. Set HF_TOKEN, or {LOG_IN}")


@contextmanager
def _exported(
    folder: RunFolder,
    repository: str,
    format_name: str,
    compute_type: ComputeType,
    languages: tuple[str, str] | None,
) -> Iterator[Path]:
    """Write the files to publish to a temporary folder."""
    folder.check()
    name = repository.rpartition("/")[2]
    with TemporaryDirectory(prefix="dragoman-push-") as work:
        path = Path(work, name)
        if folder.read_export():
            _check_export(folder, format_name, compute_type)
            path.mkdir()
            _copy_files(folder, path)
        else:
            written = None if format_name == RUN_FORMAT else format_name
            export(folder.path, path, format=written, compute_type=compute_type, languages=languages)
        write_atomically(RunFolder(path).model_card, _card(folder, path, repository, format_name))
        yield path


def _copy_files(folder: RunFolder, path: Path) -> None:
    """Copy an exported model. Raises RunError for links, which could lead to files that are not to be published."""
    for file in {*folder.files(), *folder.weight_files()}:
        with _FILES.open(file) as source, (path / file.name).open("wb") as target:
            shutil.copyfileobj(source, target)


def _check_export(folder: RunFolder, format_name: str, compute_type: ComputeType) -> None:
    """Raise an error if an exported model would have to be exported again."""
    stored = folder.read_export().get("compute_type") or "float32"
    if format_name != RUN_FORMAT:
        raise RunError(f"{folder.path}: is an exported model. Push the run that it comes from as {format_name}.")
    if compute_type not in ("float32", stored):
        raise ConfigError(f"{folder.path}: has {stored} weights, so that compute_type has no effect. Leave it out.")


def _card(folder: RunFolder, path: Path, repository: str, format_name: str) -> str:
    """Return the model card of a run under its new name, with metadata and the command that pulls the model."""
    name, experiment = path.name, folder.read_config()
    written = RunFolder(path)
    card = renamed_card(written if written.config.exists() else folder, experiment, name).rstrip()
    command = f"```\npip install 'dragoman[hub]'\ndragoman pull {repository} --output-dir {name}\n```"
    scores = folder.read_scores().get("scores", {})
    metrics = {str(score["metric"]).lower(): score for some in scores.values() for score in some}
    return with_metadata(
        f"{card}\n\n## Download\n\n{command}\n",
        task=experiment.task,
        format_name=format_name,
        origin=folder.read_origin(),
        metrics=metrics,
    )


@contextmanager
def _without_progress() -> Iterator[None]:
    """Show no progress of the library, which would write to standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if HF_HUB_DISABLE_PROGRESS_BARS is set
        disabled = require_library().utils.disable_progress_bars()
    with disabled:
        yield


@contextmanager
def _unwrapped(hub: Hub) -> Iterator[None]:
    """Raise the error of a request for the error of an upload that it caused, or HubError for another cause."""
    library = require_library()
    try:
        yield
    except library.errors.HTTPError:
        raise
    except _MALFORMED as error:
        if isinstance(error.__cause__, library.errors.HTTPError):
            raise error.__cause__ from None
        if isinstance(error, OSError) and error.errno is not None:  # of the disk
            raise
        reason = shorten_text(str(error).split("\n", 1)[0], MAX_REASON)
        raise HubError(f"{hub.shown}: the upload failed ({reason}). Run again.") from error


def _upload(hub: Hub, path: Path, repository: str, *, private: bool, revision: str | None) -> str:
    """Create the repository and the branch, and upload a folder in one commit; return the commit."""
    library = require_library()
    api = library.HfApi(endpoint=hub.endpoint, library_name="dragoman")
    with hub.explained(repository, revision), _unwrapped(hub), _without_progress():
        api.create_repo(repository, private=private or None, exist_ok=True)
        if revision is not None:
            api.create_branch(repository, branch=revision, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository, folder_path=path, revision=revision, commit_message=COMMIT_MESSAGE
        )
    return str(commit.oid)
