"""Annotations of axes, where no test checks them."""

import subprocess
import sys

PROGRAM = """
import importlib, pkgutil, sys
import dragoman

for module in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

import numpy
from dragoman.array_types import Float

print(sorted({"jaxtyping", "beartype", "hypothesis", "pytest"} & set(sys.modules)), Float[numpy.ndarray, "batch size"])
"""


def test_no_module_needs_what_only_the_tests_install():
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[] <class 'numpy.ndarray'>"
