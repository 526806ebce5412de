"""Availability of the CPU library, `dragoman-cpu`, and its fit to this version of dragoman."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

MODULE = "dragoman_cpu"
PACKAGE = "dragoman-cpu"
API_VERSION = 6
"""Version of the library's interface that this package uses."""
INSTRUCTION_SET = "DRAGOMAN_INSTRUCTION_SET"
"""Environment variable that forces an instruction set other than the best available one."""


def is_installed() -> bool:
    """Return whether the library is installed."""
    return find_spec(MODULE) is not None


def unusable_reason() -> str | None:
    """Explain why the installed library cannot be used; return None if it can."""
    try:
        ours, installed = version("dragoman"), version(PACKAGE)
    except PackageNotFoundError:  # sources on the path, without package metadata
        ours = installed = ""
    if installed != ours:
        return (
            f"the CPU library has version {installed}, but dragoman has version {ours}; "
            f"install both together: pip install -U dragoman {PACKAGE}"
        )
    try:
        library = import_module(MODULE)
    except Exception as error:  # a binary for another system or another NumPy may raise any error
        words = " ".join(str(error).split())
        return f"the CPU library cannot be loaded ({words}); install it again: pip install {PACKAGE}"
    if (found := getattr(library, "API_VERSION", None)) != API_VERSION:
        return (
            f"the CPU library has interface version {found}, but dragoman needs version {API_VERSION}; "
            f"install both together: pip install -U dragoman {PACKAGE}"
        )
    return None
