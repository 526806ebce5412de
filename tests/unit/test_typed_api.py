"""The types of the public API: a program of a user passes `mypy --strict`, and none of its mistakes does."""

import ast
import os
import re
import subprocess
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.config import Config
from dragoman.config_keys import alternatives
from dragoman.decoding import DecodingConfig, SamplingConfig
from dragoman.evaluation import MetricName
from dragoman.inference.generation.generation_options import SamplingOptions
from dragoman.inference.translation_options import DecodingOptions
from dragoman.runs.evaluate import METRIC
from dragoman.runs.load import LOADED_AS
from dragoman.runs.presets import PRESETS, PresetName
from dragoman.tasks.config import TASK_CONFIGS
from dragoman.training.config import TrainingOptions, TranslationTrainingConfig

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "typed_user_program.py"
MYPY = """
[mypy]
strict = true
follow_imports = silent
[mypy-torch.*]
follow_imports = skip
"""
"""The types of dragoman are needed, and those of PyTorch would take half a minute."""

MISTAKES = {
    "keyword": ("beam_size=5, n_best=3", "beem=5, n_best=3", 'Unexpected keyword argument "beem"'),
    "type of an option": ("DecodingConfig(beam_size=4), length_penalty=0.6", "length_penalty='much'", "translate"),
    "beam size": ('"Two dogs play.", beam_size=5', '"Two dogs play.", beam_size="5"', "translate"),
    "attribute of a result": ("one.text.upper()", "one.txt.upper()", 'has no attribute "txt"'),
    "attribute of a list": ("for result in many]", "for result in many.text]", 'has no attribute "text"'),
    "metric": ('"chrf"]', '"chfr"]', "Literal['chfr']"),
    "preset": ('preset="tiny"', 'preset="tinny"', "Literal['tinny']"),
    "setting of the training": ("max_epochs=3", "max_epoch=3", 'Unexpected keyword argument "max_epoch"'),
    "type of a setting": ("validate_bleu=False", "validate_bleu='no'", "validate_bleu"),
    "await": ("await translator.translate_async(texts[0]", "translator.translate_async(texts[0]", "Coroutine"),
    "compute type": ('compute_type="int8"', 'compute_type="int4"', '"load"'),
    "unchecked task": ("model = dragoman.load(path)", "model = dragoman.load(path).translate('')", "union-attr"),
    "kind": ("run.load(Translator", "run.load(Generator", "return-value"),
    "class of a run": ("dragoman.load(run, Translator,", "dragoman.load(run, DecodingConfig,", '"load"'),
    "name": ("dragoman.__version__", "dragoman.version", 'has no attribute "version"'),
    "text": ("model.generate(", "model.generate(None, ", "generate"),
    "words of a sentence": ('model.tag([["Two", "dogs"]])', "model.tag([2])", "list-item"),
    "attribute of an answer": ("answer.probability", "answer.probabilities", '"probabilities"'),
    "method of another task": ('model.classify("Two', 'model.tag("Two', 'has no attribute "tag"'),
    "role of a message": ('Message("user"', 'Message("usr"', "arg-type"),
}
"""From the mistake to the text it replaces, the text it writes, and a part of the message."""


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[str]]:
    """Messages of mypy by program: that of the user, and one for each mistake."""
    folder, text = tmp_path_factory.mktemp("typed"), PROGRAM.read_text(encoding="utf-8")
    programs = {"program": text}
    for number, (old, new, _) in enumerate(MISTAKES.values()):
        assert text.count(old) == 1, old
        programs[f"mistake_{number}"] = text.replace(old, new)
    for name, program in programs.items():
        (folder / f"{name}.py").write_text(program, encoding="utf-8")
    (folder / "mypy.ini").write_text(MYPY, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", *programs]
    command[-len(programs) :] = [f"{name}.py" for name in programs]
    environment = os.environ | {"MYPYPATH": str(Path(dragoman.__file__).parents[1])}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode < 2, done.stdout + done.stderr
    found: dict[str, list[str]] = {name: [] for name in programs}
    for line in done.stdout.splitlines():
        if match := re.match(r"(\w+)\.py:\d+: error: (.*)", line):
            found[match[1]].append(match[2])
    return found


def test_program_of_a_user_has_no_type_errors(messages):
    assert messages["program"] == []
    assert 90 <= len(PROGRAM.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_a_type_error(messages, mistake):
    number = list(MISTAKES).index(mistake)
    found = messages[f"mistake_{number}"]
    assert any(MISTAKES[mistake][2] in message for message in found), found


def test_package_is_marked_as_typed():
    assert (Path(dragoman.__file__).parent / "py.typed").exists()


def test_literals_name_all_choices():
    assert list(typing.get_args(PresetName)) == list(PRESETS)
    metrics = alternatives(METRIC._type)
    assert list(typing.get_args(MetricName)) == [kind.model_fields["kind"].default for kind in metrics]
    assert LOADED_AS.keys() == TASK_CONFIGS.keys()


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (TrainingOptions, TranslationTrainingConfig),
        (DecodingOptions, DecodingConfig),
        (SamplingOptions, SamplingConfig),
    ],
    ids=lambda kind: kind.__name__,
)
def test_typed_keywords_are_the_settings(options, settings: type[Config]):
    written = typing.get_type_hints(options)
    assert written.keys() == settings.model_fields.keys()
    declared = typing.get_type_hints(settings)
    for name in settings.model_fields:
        allowed, known = set(_members(written[name])), set(_members(declared[name]))
        assert known <= allowed, name
        assert allowed - known <= {types.NoneType, Mapping[str, Any]}, name


def test_defaults_of_settings_are_known_to_type_checkers():
    """A default in the first place of `Field(...)` makes a field required without the plugin of pydantic for mypy."""
    for path in Path(dragoman.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_field = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Field"
            assert not (is_field and node.args), f"{path}:{node.lineno}: write Field(default=...)"


def _members(annotation: Any) -> Iterator[Any]:
    """Yield the members of a union, without the limits of numbers."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from _members(typing.get_args(annotation)[0])
    elif origin in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from _members(member)
    else:
        yield annotation
