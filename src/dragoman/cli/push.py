"""`dragoman push`: publish a model on the Hugging Face Hub."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.cli import messages
from dragoman.cli.export import LanguageCode, StoredType, language_pair
from dragoman.cli.options import RunArgument
from dragoman.cli.pull import RepositoryArgument
from dragoman.cli.verb_command import Outcome


def push(
    run: RunArgument,
    repository: RepositoryArgument,
    *,
    model_format: Annotated[
        str, typer.Option("--format", help="Format of the files: dragoman, or one that export writes.")
    ] = "dragoman",
    private: Annotated[bool, typer.Option("--private", help="Create the model for its owner only.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch, created if it does not exist.", show_default="the main branch")
    ] = None,
    compute_type: StoredType = "float32",
    source_language: LanguageCode = None,
    target_language: LanguageCode = None,
) -> Outcome:
    """Publish the model of a run on the Hugging Face Hub.

    Uploads what dragoman export writes, and the model card of the run. The access token is that of hf auth login or
    HF_TOKEN.
    """
    from dragoman.runs.hub.push import push as push_run

    result = push_run(
        run,
        repository,
        format=model_format,
        private=private,
        revision=revision,
        compute_type=compute_type,
        languages=language_pair(source_language, target_language),
        report=messages.say,
    )
    return Outcome(result.to_dict, lambda: print(result.describe()))
