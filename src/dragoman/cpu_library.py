"""The compiled core, `dragoman-cpu`: whether it is here, and whether it fits this package."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

CORE = "dragoman_cpu"
API_VERSION = 2
"""Version of the library's interface that this package uses."""
PACKAGE = "dragoman-cpu"
INSTRUCTION_SET = "DRAGOMAN_INSTRUCTION_SET"
"""The environment variable that forces the core's instructions, for who wants others than the best there are."""


def is_installed() -> bool:
    """Whether the core is there."""
    return find_spec(CORE) is not None


def fault() -> str | None:
    """Why the core cannot be used; None where it can."""
    if (mismatch := _mismatch()) is not None:
        return f"the compiled core is {mismatch}; install the one that fits: pip install -U dragoman {PACKAGE}"
    try:
        library = import_module(CORE)
    except Exception as error:  # a binary for another system or another numpy fails in its own way
        words = " ".join(str(error).split())
        return f"the compiled core is there and cannot be loaded ({words}); install it anew: pip install {PACKAGE}"
    if (found := getattr(library, "API_VERSION", None)) != API_VERSION:
        return (
            f"the CPU library has interface version {found}, and dragoman needs {API_VERSION}; "
            f"install both together: pip install -U dragoman {PACKAGE}"
        )
    return None


def _mismatch() -> str | None:
    """How its version differs from this package's: both are released together, and their interface is their own."""
    try:
        ours, its = version("dragoman"), version(PACKAGE)
    except PackageNotFoundError:  # sources on the path, which nothing installed
        return None
    return None if its == ours else f"of version {its}, and dragoman of {ours}"
