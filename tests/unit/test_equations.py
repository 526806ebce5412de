"""Completeness of docs/equations.md: names exist, shapes equal annotations, and examples give their output."""

import dataclasses
import doctest
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from dragoman.config_keys import kinds_of
from dragoman.decoding.config import LengthPenaltyKind
from dragoman.models.config import PositionsConfig
from dragoman.nn.attention_score_functions import ScoreConfig
from dragoman.nn.blocks import NormPosition
from dragoman.nn.norms import NormName
from dragoman.nn.recurrent.cells import CellName
from dragoman.nn.sparse.factory import PatternConfig

PAGE = Path(__file__).parents[2] / "docs" / "equations.md"


class Entry(NamedTuple):
    """Entry of the page below one heading."""

    title: str
    body: str
    line: int

    def item(self, name: str) -> str:
        """Return the text of a list item, or an empty text."""
        found = re.findall(rf"^- {name}: (.*?)(?=^- |^$|\Z)", self.body, re.S | re.M)
        assert len(found) < 2, f"{self.title}: {name} occurs {len(found)} times"
        return " ".join(found[0].split()) if found else ""

    @property
    def links(self) -> list[tuple[str, str]]:
        """Return functions and their files; the shapes are those of the first."""
        return re.findall(r"\[`([\w.]+)`\]\(([^)]+)\)", self.item("Function"))

    @property
    def examples(self) -> list[str]:
        return re.findall(r"^```python\n(.*?)^```$", self.body, re.S | re.M)


def entries() -> list[Entry]:
    page = PAGE.read_text(encoding="utf-8")
    headings = list(re.finditer(r"^#{2,3} (.*)$", page, re.M))
    ends = [heading.start() for heading in headings[1:]] + [len(page)]
    return [
        Entry(heading[1], page[heading.end() : end], page.count("\n", 0, heading.start()) + 1)
        for heading, end in zip(headings, ends, strict=True)
        if heading[0].startswith("### ")
    ]


every_entry = pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.title)


def named(name: str) -> Any:
    """Return the function, class or method of a dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def dimensions(annotation: Any) -> Iterator[str]:
    """Yield the axes of the tensors in an annotation, without the modifiers of jaxtyping."""
    if hasattr(annotation, "dim_str"):
        yield " ".join(axis.strip("#{}") for axis in annotation.dim_str.split())
    for argument in typing.get_args(annotation):
        yield from dimensions(argument)


def annotations(function: Any) -> dict[str, Any]:
    """Return the annotations of parameters and result; those of a module are of its `forward`."""
    if isinstance(function, type) and issubclass(function, nn.Module):
        function = function.forward
    signature = inspect.signature(function)
    taken = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return taken | {"return": signature.return_annotation}


def outputs(annotation: Any) -> list[tuple[str, str]]:
    """Return the axes of the results, with the names of fields of a dataclass."""
    if dataclasses.is_dataclass(annotation):
        return [(field.name, axes) for field in dataclasses.fields(annotation) for axes in dimensions(field.type)]
    return [("", axes) for axes in dimensions(annotation)]


def failures(example: str, entry: Entry) -> str:
    """Run an example by itself and return the report of its failures, or an empty text."""
    test = doctest.DocTestParser().get_doctest(example, {}, entry.title, str(PAGE), entry.line)
    assert any(part.want for part in test.examples), f"{entry.title}: the example shows no output"
    report: list[str] = []
    with torch.random.fork_rng():
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    return "".join(report)


@every_entry
def test_entry_is_complete(entry: Entry) -> None:
    assert re.search(r"^\$\$.+?\$\$$", entry.body, re.S | re.M), "no equation"
    assert all(entry.item(name) for name in ("Source", "Shapes", "Function")), "missing item"
    assert entry.links, "no function"
    assert len(entry.examples) == 1


@every_entry
def test_equation_brackets_are_balanced(entry: Entry) -> None:
    equation = " ".join(re.findall(r"^\$\$.+?\$\$$", entry.body, re.S | re.M))
    for opening, closing in [(r"(?<!\\)\{", r"(?<!\\)\}"), (r"\\begin", r"\\end"), (r"\\[bB]igl", r"\\[bB]igr")]:
        assert len(re.findall(opening, equation)) == len(re.findall(closing, equation)), opening


@every_entry
def test_functions_are_in_linked_files(entry: Entry) -> None:
    for name, link in entry.links:
        found = named(name)
        assert callable(found)
        assert not isinstance(found, ModuleType)
        assert Path(sys.modules[found.__module__].__file__).resolve() == (PAGE.parent / link).resolve(), name


@every_entry
def test_shapes_equal_annotations(entry: Entry) -> None:
    takes = annotations(named(entry.links[0][0]))
    given = outputs(takes.pop("return"))
    before, _, after = entry.item("Shapes").partition("→")
    shapes = re.findall(r"`(\w*)\[([^\]]*)\]`", before)
    tensors = {name: list(dimensions(annotation)) for name, annotation in takes.items()}
    for name, axes in shapes:
        assert tensors[name] == [axes], name
    assert re.findall(r"`(\w*)\[([^\]]*)\]`", after) == given
    words = set(re.findall(r"`(\w+)`", before))
    assert words <= set(takes)
    assert shapes or words, "missing inputs"


@every_entry
def test_example_gives_its_output(entry: Entry) -> None:
    (example,) = entry.examples
    assert failures(example, entry) == ""


@every_entry
def test_example_calls_the_function(entry: Entry) -> None:
    name = entry.links[0][0].rpartition(".")[2]
    calls = [line for line in entry.examples[0].splitlines() if "import" not in line]
    assert re.search(rf"\b{name}\(", "\n".join(calls))


def test_wrong_example_fails() -> None:
    entry = Entry("wrong", "", 1)
    assert "Expected:\n    5" in failures(">>> 2 + 2\n5\n", entry)
    assert "NameError" in failures(">>> torch.tensor(1)\ntensor(1)\n", entry), "names come from the example only"
    assert failures(">>> 2 + 2\n4\n", entry) == ""


@pytest.mark.parametrize(
    "kinds",
    [
        kinds_of(ScoreConfig),
        [kind for kind in kinds_of(PositionsConfig) if kind != "none"],
        kinds_of(PatternConfig),
        typing.get_args(LengthPenaltyKind),
        typing.get_args(CellName),
        typing.get_args(NormName),
        typing.get_args(NormPosition),
    ],
    ids=["scores", "positions", "patterns", "length penalties", "cells", "norms", "norm positions"],
)
def test_every_choice_has_an_entry(kinds: list[str]) -> None:
    chosen = [kind for entry in entries() for kind in re.findall(r": `(\w+)`$", entry.title)]
    assert kinds
    assert sorted(set(kinds) - set(chosen)) == []


def test_titles_are_unique() -> None:
    titles = [entry.title for entry in entries()]
    assert len(set(titles)) == len(titles)
