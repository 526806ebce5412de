"""What `import dragoman` promises, and that it costs nothing until it is used."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import dragoman

PACKAGES = [module.name for module in pkgutil.walk_packages(dragoman.__path__, "dragoman.") if module.ispkg]


def test_the_public_names_are_these():
    assert dragoman.__all__ == ["load"]


def test_every_public_name_is_there():
    for name in dragoman.__all__:
        assert getattr(dragoman, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="lode"):
        dragoman.lode  # noqa: B018  # the access is what is tested


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_room_exports_is_there_once(package):
    module = importlib.import_module(package)
    names = list(getattr(module, "__all__", []))
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(set(names)) == len(names)


def test_the_rooms_that_others_import_from_say_what_they_export():
    for room in ("evaluation", "decoding", "data.readers", "data.tokenizers"):
        assert importlib.import_module(f"dragoman.{room}").__all__


def test_importing_the_package_imports_no_engine():
    program = "import sys, dragoman; print(sorted({'torch', 'numpy', 'tokenizers', 'pydantic'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_evaluation_imports_no_torch():
    program = "import sys, dragoman.evaluation; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
