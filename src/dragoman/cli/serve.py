"""`dragoman serve`: answer requests over HTTP with the models of run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli import messages
from dragoman.errors import ConfigError, MissingExtraError

ModelsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=]RUN", help="Run folders; a name such as en-de tells the languages.", show_default=False
    ),
]


def serve(
    models: ModelsArgument = None,
    *,
    config: Annotated[Path | None, typer.Option(help="YAML file of settings.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="8000")] = None,
    glossary: Annotated[
        list[str] | None,
        typer.Option(metavar="PAIR=FILE", help="Terms that always apply, as in en-de=FILE (repeatable)."),
    ] = None,
    api_keys: Annotated[Path | None, typer.Option(help="File of the keys that clients must give.")] = None,
    add_key: Annotated[str | None, typer.Option(metavar="NAME", help="Make a key, print it, and end.")] = None,
    assignments: Annotated[list[str] | None, typer.Option("--set", help="Override a setting (repeatable).")] = None,
) -> None:
    """Answer requests over HTTP, as LibreTranslate, DeepL and OpenAI do.

    Without a model, serve the demos that `dragoman demo` trained in the folder runs.

    The settings of --config are overridden by environment variables such as DRAGOMAN_SERVE_PORT, and these by options.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(feature="Serving models", extra="serve") from error
    if add_key is not None:
        _add_key(add_key, api_keys)
        return
    from dragoman.serving.read_settings import find_demo_models, read_settings
    from dragoman.serving.run_server import run_server

    given: dict[str, Any] = {
        "host": host,
        "port": port,
        "api_keys": None if api_keys is None else str(api_keys),
        "models": models or None,
        "glossaries": glossary or None,
    }
    settings = read_settings(
        config, {name: value for name, value in given.items() if value is not None}, assignments or []
    )
    if not settings.models:
        settings = settings.model_copy(update={"models": (demos := find_demo_models())})
        names = ", ".join(one.path for one in demos)
        messages.say(f"no model is named: serving {names}. Name others, as in: dragoman serve en-de=runs/en-de")
    run_server(settings, on_ready=lambda address: messages.say(f"listening on {address}"))


def _add_key(name: str, path: Path | None) -> None:
    from dragoman.serving.access.api_keys import add_key

    if path is None:
        raise ConfigError("--add-key needs the file of keys. Give it with --api-keys FILE.")
    print(add_key(path, name))
