"""Entry point of the command `dragoman`: verbs, errors and exit codes.

Exit codes: 0 success; 2 an error of the user (one message: what, where, remedy); 1 an internal error; 130 interrupted
by Ctrl-C; 143 stopped by SIGTERM; 129 the terminal was closed (SIGHUP); 141 the reader of a pipe closed it.
A verb's module is imported when the verb is called, so that `dragoman --help` answers in under 0.3 seconds.
"""

import errno
import os
import sys
import traceback
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

import dragoman
from dragoman.cli import messages
from dragoman.cli.escaped_output import escape_standard_streams
from dragoman.cli.short_help import describe_panels, fold_panels
from dragoman.cli.signals import SIGNALED, exit_on_signals
from dragoman.cli.usage_errors import USAGE_ERROR, describe_usage_error
from dragoman.errors import ConfigError, DragomanError, StoppedError, TextError

_USER_ERROR: Final = 2
INTERNAL_ERROR: Final = 1
LEVEL_FLAGS: Final = ("--quiet", "--verbose")
INTERRUPTED: Final = SIGNALED + 2
BROKEN_PIPE: Final = SIGNALED + 13
STREAM_ERRORS: Final = (errno.EBADF, errno.EISDIR, errno.EIO, errno.EAGAIN, errno.EFBIG, errno.EINVAL)
"""Errors of reading and writing that name no file, because the stream was opened by the caller of the command."""

COMMAND_GROUPS: Final = {
    "Use a model": {
        "translate": "Translate text, one segment per line.",
        "generate": "Generate text from prompts with a language model.",
        "classify": "Print the label of each text, or of each word, with its probability.",
        "embed": "Write a vector for each text.",
        "answer": "Answer questions with a part of the given text.",
        "score": "Print the log-probability of given translations, or the perplexity of a text.",
        "serve": "Answer requests over HTTP, as LibreTranslate, DeepL and OpenAI do.",
    },
    "Train a model": {
        "demo": "Train a small translator in minutes and show its translations.",
        "train": "Train a model, or continue a run.",
        "plan": "Estimate the memory, time and cost of a training.",
        "data": "Prepare corpora for training.",
        "distill": "Translate text with a teacher, as training data for a student.",
        "backtranslate": "Translate monolingual target text back into the source language, as training data.",
        "prune": "Remove the least important attention heads of a run.",
        "reproduce": "Train a recipe and compare its scores with the expected ones.",
    },
    "Evaluate and inspect": {
        "info": "Describe a run: model, data, scores.",
        "evaluate": "Score translations, or a run on a test set, against references.",
        "compare": "Compare systems with paired significance tests, or runs in one table.",
        "analyse": "Analyze the errors of systems on a test set in an HTML report.",
        "inspect": "Show attention, alignments and the beam for a text in an HTML report.",
        "calibrate": "Measure what the confidence of a translator is worth, on held-out pairs.",
        "bench": "Measure the decoding speed of a run on this machine.",
    },
    "Import and export": {
        "import": "Read a model of another program and write it as a run.",
        "pull": "Download a model from the Hugging Face Hub and write it as a run.",
        "push": "Publish the model of a run on the Hugging Face Hub.",
        "export": "Write the model of a run to a folder, also for another program.",
    },
}
"""The commands as the help groups them, and the first line of the help of each, known without an import."""
SUMMARIES: Final = {name: summary for group in COMMAND_GROUPS.values() for name, summary in group.items()}
"""The commands and the first line of the help of each."""
MODULES: Final = {"import": "import_model"}
"""Module and function of a verb that is a word of Python; those of all others have its name."""


class _FlagsWithoutType:
    """Part of a command whose help shows flags without `<bool>`, because they take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in parameters:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return parameters


class Command(_FlagsWithoutType, TyperCommand):
    """Command of one verb, which refuses a second --input, because the first file would not be read."""

    def make_parser(self, ctx: Any) -> Any:
        parser: Any = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            values, rest, order = parse(args)
            for one in order:
                if "--input" in one.opts and order.count(one) > 1:
                    raise ConfigError(f"{one.opts[0]} is given twice. Give it once.")
            return values, rest, order

        parser.parse_args = parse_args
        return parser

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the options of most panels by name only, unless `--help-all` is given."""
        panels = fold_panels(self.get_params(ctx), ctx)
        folded = [option for options in panels.values() for option in options]
        for option in folded:
            option.hidden = True
        self.epilog = describe_panels(panels, ctx.command_path) if panels else None
        try:
            super().format_help(ctx, formatter)
        finally:
            for option in folded:
                option.hidden = False


class CommandGroup(_FlagsWithoutType, TyperGroup):
    """Command with commands below it."""


def build_command(verb: str | None = None) -> typer.Typer:
    """Build the command with one verb, or with the summaries of all verbs where `verb` is None."""
    app = typer.Typer(
        name="dragoman",
        help="Train, run and inspect Transformer sequence models.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        cls=CommandGroup,
    )
    app.callback()(_global_options)
    if verb is None:
        for panel, summaries in COMMAND_GROUPS.items():
            for name, summary in summaries.items():
                app.command(name, help=summary, rich_help_panel=panel)(lambda: None)
        return app
    name = MODULES.get(verb, verb)
    function = getattr(import_module(f"dragoman.cli.{name}"), name)
    if isinstance(function, typer.Typer):
        app.add_typer(function)
    else:
        from dragoman.cli.verb_command import complete_verb

        app.command(verb, cls=Command)(complete_verb(function))
    return app


def main() -> None:
    """Run the command line of this process and end the process with its exit code."""
    _open_closed_streams()
    escape_standard_streams()
    exit_on_signals()
    arguments, debug = _without_debug(_level_flags_last(sys.argv[1:]))
    if not debug:
        warnings.showwarning = messages.show_warning
    _set_library_defaults()
    status = run(arguments, debug=debug)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = BROKEN_PIPE
    except OSError as error:
        status = status or _report(error)
    if status:  # Python would try to flush the rest of the buffer at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def _open_closed_streams() -> None:
    """Open the standard streams that are closed, so that no file of the command takes their place.

    Reading such an input and writing to such an output fail. Messages to a closed standard error are lost.
    """
    for number, name, flags in ((0, "stdin", os.O_WRONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _set_library_defaults() -> None:
    """Set environment variables that libraries read when they are first imported; the user's own values win.

    `GOMP_SPINCOUNT`: OpenMP threads spin for microseconds instead of milliseconds before they sleep. On cores shared
    with another process, training is several times faster; with a larger number, waiting threads take the time of
    the threads that they wait for. `ONEDNN_PRIMITIVE_CACHE_CAPACITY`: oneDNN caches the code of
    64 matrix shapes instead of 1,024. Batches of a training rarely repeat a shape, and the cache would grow larger than
    the training itself. `PYDANTIC_DISABLE_PLUGINS`: pydantic would read the metadata of every installed distribution.
    `OPENBLAS_NUM_THREADS`: numpy multiplies nothing large here, and idle OpenBLAS threads spin.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def run(arguments: list[str], *, debug: bool) -> int:
    """Run one command and return its exit code; the message of an error goes to standard error."""
    verb = arguments[0] if arguments and arguments[0] in SUMMARIES else None
    messages.start()
    try:
        try:
            status = build_command(verb)(arguments, prog_name="dragoman", standalone_mode=False)
        finally:
            messages.summarize_warnings()
    except SystemExit as ending:  # after SIGTERM, or by typer after a broken pipe
        if isinstance(ending.__context__, BrokenPipeError):
            return BROKEN_PIPE
        return ending.code if isinstance(ending.code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:  # the entry point reports every kind, with its exit code
        if debug:
            print(traceback.format_exc(), end="", file=sys.stderr)  # colors would be escaped
        return _report(error, verb)
    return status if isinstance(status, int) else 0  # the code of `typer.Exit`


def _report(error: Exception, verb: str | None = None) -> int:
    """Print the message of an error to standard error and return the exit code."""
    message, status = _describe(error, verb)
    if message:
        with suppress(OSError):  # standard error may be full or closed
            print(f"dragoman: {message}", file=sys.stderr)
    return status


def _describe(error: Exception, verb: str | None) -> tuple[str, int]:
    """Return the message and the exit code of an error."""
    match error:
        case StoppedError():
            return str(error), SIGNALED + error.signal_number
        case TextError():
            return messages.with_options(error.by_line()), _USER_ERROR
        case DragomanError():
            return messages.with_options(str(error)), _USER_ERROR
        case USAGE_ERROR():
            return describe_usage_error(error, verb), _USER_ERROR
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            place = error.filename or "the disk"
            return f"{place}: no space is left. Free some space, or write to another disk.", _USER_ERROR
        case OSError() if error.filename is not None:
            return f"{error.filename}: {error.strerror}. Check the path and its permissions.", _USER_ERROR
        case OSError() if error.errno in STREAM_ERRORS:
            streams = "standard input or output cannot be used"
            return f"{streams} ({error.strerror}). Open it, or name a file instead.", _USER_ERROR
    return (
        f"unexpected {type(error).__name__}: {error}\n"
        "This is an error in dragoman, not in your input. Run again with --debug and report the output."
    ), INTERNAL_ERROR


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Remove `--debug` wherever it occurs before `--`: the option belongs to no verb."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:end] if argument != "--debug"]
    return kept + arguments[end:], len(kept) < end


def _level_flags_last(arguments: list[str]) -> list[str]:
    """Move the flags of the messages from before the verb, where they are accepted too, to its options."""
    count = next((place for place, one in enumerate(arguments) if one not in LEVEL_FLAGS), len(arguments))
    rest = arguments[count:]
    end = rest.index("--") if "--" in rest else len(rest)
    return rest[:end] + arguments[:count] + rest[end:]


def _print_version(requested: bool) -> None:
    if requested:
        print(f"dragoman {dragoman.__version__}")
        raise typer.Exit


def _global_options(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print results, warnings and errors only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print every warning instead of summaries.")] = False,
) -> None: ...
