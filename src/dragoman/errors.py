"""What a person can mend: messages say what is wrong, where, and the remedy; the doors print them and exit with 2."""

import sys
import warnings
from types import FrameType

PACKAGE = __name__.partition(".")[0]


class DragomanError(Exception):
    """Base of the errors that the user of a door can mend; anything else that escapes is our fault."""


class ConfigError(DragomanError):
    """A configuration that cannot be obeyed: unknown key, wrong type, sizes that do not fit each other."""


class DataError(DragomanError):
    """A corpus, file or tokenizer that cannot be used as it is; the message names file and line."""


class RunError(DragomanError):
    """A run folder, checkpoint or model that is missing, damaged, or in the way."""


class TrainingError(DragomanError):
    """Training that cannot go on, with what was tried."""


class MissingExtraError(DragomanError):
    """An optional library that is not installed."""

    def __init__(self, *, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional library; install it with: pip install 'dragoman[{extra}]'")


def warn(message: str, category: type[Warning]) -> None:
    """A warning of the line that asked, which is outside of this package.

    It is said every time: those that `warnings.warn` gives are remembered, and each line of a file may have one.
    """
    frame: FrameType = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        frame = frame.f_back
    where = frame.f_globals.get("__name__", "")
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module=where)
