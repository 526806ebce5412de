"""The command `dragoman`: its verbs, and how every ending becomes an exit code.

0 done; 2 the person can mend it (one message: what, where, the remedy); 1 our fault; 130 interrupted. The verbs import
what they need when they are called, so that `dragoman --help` answers at once.
"""

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Final

import typer

from dragoman.errors import DragomanError

MENDABLE: Final = 2
OUR_FAULT: Final = 1
INTERRUPTED: Final = 130
READER_LEFT: Final = 141
"""128 + SIGPIPE, as the shell reports other programs whose reader went away (`dragoman ... | head`)."""

USING: Final = ("translate", "generate", "classify", "answer", "score")
LOOKING: Final = ("evaluate", "compare", "analyse", "inspect", "bench", "info")
MAKING: Final = ("prune", "export", "distill", "backtranslate", "reproduce")
VERBS: Final = ("demo", "plan", "train", *USING, *LOOKING, *MAKING, "data")
"""Each is what a module of this room defines by this name."""


def command(verbs: Sequence[str] = VERBS) -> typer.Typer:
    """The command with these verbs."""
    app = typer.Typer(
        name="dragoman",
        help="From a parallel corpus to a translator: train, run and look into Transformer models.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in verbs:
        verb = getattr(import_module(f"dragoman.cli.{name}"), name)
        if isinstance(verb, typer.Typer):
            app.add_typer(verb)
        else:
            app.command()(verb)
    return app


def main() -> None:
    """Run the command line of this process and end the process with its exit code."""
    arguments, debug = _without_debug(sys.argv[1:])
    if not debug:
        warnings.formatwarning = _one_line
    _let_waiting_threads_sleep()
    _keep_few_products()
    _load_no_plugins()
    _start_no_idle_threads()
    status = run(arguments, debug=debug)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = READER_LEFT
    if status == READER_LEFT:  # what is still buffered has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def _let_waiting_threads_sleep() -> None:
    """Have OpenMP's threads spin for microseconds, not milliseconds, before they sleep.

    That is long enough from one operation to the next, and on cores that are shared with another process it makes
    training several times faster. OpenMP reads this when PyTorch is first imported, which the verbs do later.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def _keep_few_products() -> None:
    """Have oneDNN keep the code of 64 products for use again, not of 1,024.

    It writes such code for every shape. Hardly two batches of a training are of one shape, so that what is kept from
    one update to the next is memory alone, in the end more than the training itself takes. PyTorch reads this when it
    is first imported.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")


def _load_no_plugins() -> None:
    """Have pydantic look for no plugins of its own: it would read what every installed distribution says of itself."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _start_no_idle_threads() -> None:
    """Have OpenBLAS, for numpy, start no threads: they spin for a moment at first, and multiply nothing large here."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def run(arguments: list[str], *, debug: bool) -> int:
    """Run one command and return its exit code; the message of an error goes to standard error."""
    asked = arguments[:1]
    try:
        # To build all verbs where one is asked for would take a sixth of the start.
        command(asked if asked and asked[0] in VERBS else VERBS)(arguments, prog_name="dragoman")
    except (
        SystemExit
    ) as ending:  # typer ends this way, with 0, with 2 for wrong usage, or with the code of `typer.Exit`
        if isinstance(ending.__context__, BrokenPipeError):
            return READER_LEFT
        return ending.code if isinstance(ending.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error)
    return 0


def _explain(error: Exception) -> int:
    """Say on standard error what went wrong, and return the exit code."""
    if isinstance(error, DragomanError):
        return _complain(str(error))
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _complain(f"{error.filename or 'the disk'}: no space is left; free some, or write to another disk")
    if isinstance(error, OSError) and error.filename is not None:
        return _complain(f"{error.filename}: {error.strerror}; check the path and its permissions")
    print(
        f"dragoman: unexpected {type(error).__name__}: {error}\n"
        "This is a fault of dragoman, not of your input. Run the command again with --debug and report what it prints.",
        file=sys.stderr,
    )
    return OUR_FAULT


def _complain(message: str) -> int:
    print(f"dragoman: {message}", file=sys.stderr)
    return MENDABLE


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Take `--debug` out, wherever it stands before `--`: it belongs to no verb."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:end] if argument != "--debug"]
    return kept + arguments[end:], len(kept) < end


def _one_line(message: Warning | str, *_place: object, **_line: object) -> str:
    return f"dragoman: warning: {message}\n"


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"dragoman {version('dragoman')}")
        raise typer.Exit


def _options(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None: ...
