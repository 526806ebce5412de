"""Names that packages export, and what their import loads."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import dragoman

PACKAGES = [module.name for module in pkgutil.walk_packages(dragoman.__path__, "dragoman.") if module.ispkg]


@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_exist_once(package):
    module = importlib.import_module(package)
    names = list(getattr(module, "__all__", []))
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(set(names)) == len(names)


def test_shared_packages_define_all():
    for package in ("evaluation", "decoding", "data.tokenizers"):
        assert importlib.import_module(f"dragoman.{package}").__all__


def test_evaluation_imports_no_torch():
    program = "import sys, dragoman.evaluation; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
