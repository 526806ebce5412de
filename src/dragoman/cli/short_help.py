"""Help of commands with many options: `--help` lists the names of most of them, `--help-all` describes every option."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, get_args

import typer
from typer.models import ParameterInfo

MAX_DESCRIBED: Final = 12
"""Options in panels of their own up to which `--help` describes all of them."""
HELP_ALL: Final = "help_all"
"""Parameter of a command whose `--help` is short."""
_IS_WHOLE: Final = "dragoman.whole_help"
_MESSAGES: Final = "Messages"


def _show_all(ctx: typer.Context, value: bool) -> None:
    if value:
        ctx.meta[_IS_WHOLE] = True
        print(ctx.get_help(), end="")
        raise typer.Exit


HelpAllFlag = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=_show_all, help="Describe every option and exit.")
]


def has_many_options(parameters: Iterable[inspect.Parameter]) -> bool:
    """Return whether the help of a command with these parameters would be several screens long."""
    panels = [
        info.rich_help_panel
        for parameter in parameters
        for info in get_args(parameter.annotation)
        if isinstance(info, ParameterInfo)
    ]
    return sum(panel is not None for panel in panels) > MAX_DESCRIBED


def fold_panels(parameters: Iterable[Any], ctx: Any) -> Mapping[str, list[Any]]:
    """Return the options that the help shows by name only, by the title of their panel."""
    options = list(parameters)
    if ctx.meta.get(_IS_WHOLE) or not any(option.name == HELP_ALL for option in options):
        return {}
    panels: dict[str, list[Any]] = {}
    for option in options:
        title = getattr(option, "rich_help_panel", None)
        if title not in (None, _MESSAGES) and not option.hidden:
            panels.setdefault(title, []).append(option)
    return panels


def describe_panels(panels: Mapping[str, list[Any]], command: str) -> str:
    """Return the names of the options of each panel as a text of one paragraph per panel."""
    paragraphs = [f"{title}: {', '.join(option.opts[0] for option in options)}" for title, options in panels.items()]
    return "\n\n".join([*paragraphs, f"{command} --help-all describes these options."])
