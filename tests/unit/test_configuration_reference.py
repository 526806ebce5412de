"""Generator of the configuration reference; the committed page is up to date."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, PositiveInt

from dragoman.config import Config, descriptions
from dragoman.config_keys import alternatives, is_config

GENERATOR = Path(__file__).parents[2] / "docs" / "generate.py"


@pytest.fixture(scope="module")
def generate():
    specification = importlib.util.spec_from_file_location("generate", GENERATOR)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Warm(Config):
    """A climb."""

    kind: Literal["warm"] = "warm"
    steps: PositiveInt = Field(5, description="updates of it")


class Flat(Config):
    """No change."""

    kind: Literal["flat"] = "flat"


class Inner(Config):
    """Nested settings."""

    schedule: Annotated[Warm | Flat, Field(discriminator="kind")] = Warm()
    clip: float | None = Field(None, gt=0, le=7, description="bound, a | b")
    choice: Literal["a", "b"] | int = "a"
    paths: list[Path] = Field(default_factory=list)


class Outer(Config):
    """The whole."""

    name: str
    """what it is called"""
    inner: Inner = Inner()


EXPECTED = """\
The whole.

| key | value | default | meaning |
| --- | --- | --- | --- |
| `name` | string | *required* | what it is called |
| `inner` | group | see below |  |

## inner

Nested settings.

| key | value | default | meaning |
| --- | --- | --- | --- |
| `schedule` | group of kind `warm`, `flat` | `kind: warm` |  |
| `clip` | number > 0, ≤ 7 or `null` | `null` | bound, a \\| b |
| `choice` | `a`, `b` or integer | `a` |  |
| `paths` | list of paths | `[]` |  |

## inner.schedule

### inner.schedule: {kind: warm}

A climb.

| key | value | default | meaning |
| --- | --- | --- | --- |
| `steps` | integer > 0 | `5` | updates of it |

### inner.schedule: {kind: flat}

No change.

No further keys.
"""


def test_reference_lists_groups_kinds_limits_and_defaults(generate):
    assert generate.reference(Outer).removeprefix(generate.INTRODUCTION).strip() == EXPECTED.strip()


def test_groups_shared_by_tasks_appear_once(generate):
    class Other(Config):
        """Another whole."""

        inner: Inner = Inner()

    page = generate.page({"first": Outer, "second": Other}, {"small": ("first",)})
    assert "| `small` | `first` |" in page
    assert page.index("# task: first") < page.index("## inner.schedule") < page.index("# task: second")
    assert page.count("## inner.schedule") == 3  # one section per kind in addition
    assert page.rstrip().endswith("## inner\n\nSee task first.")


def test_group_of_one_kind_names_the_kind(generate):
    class Slow(Config):
        """Slow."""

        kind: Literal["slow"] = "slow"
        inner: Inner = Inner()

    class Root(Config):
        """The root."""

        pace: Annotated[Slow | Flat, Field(discriminator="kind")] = Flat()

    assert "## pace.inner of {kind: slow}" in generate.reference(Root)


def test_committed_pages_are_current(generate):
    outdated = [path.name for path, text in generate.pages().items() if path.read_text(encoding="utf-8") != text]
    assert outdated == [], "run: make docs"


def test_command_line_page_lists_verbs_and_options(generate):
    page = generate.command_line()
    assert "## dragoman translate" in page
    assert "## dragoman data prepare" in page
    assert "| `-i, --input" in page


def test_python_page_lists_functions_and_methods(generate):
    page = generate.python_api()
    assert "## dragoman.train" in page
    assert "### translate_stream" in page
    assert "- `output_dir`: " in page
    assert "    *,\n    temperature: float | None = None,\n" in page
    assert "    max_new_tokens: int | None = 256,\n    stop: str | Iterable[str] | None = (),\n" in page
    assert "    alternatives: int | None = 0,\n) -> Completion" in page
    assert "- `finish_reason: Literal['end', 'stop', 'length']`" in page
    assert "| `beam_size` | integer ≤ 1000, > 0 | `5` |" in page
    assert "raises `TypeError`" in page
    assert "-> Any" not in page


def undescribed(kind: type[Config], prefix: str = "") -> Iterator[str]:
    meanings = descriptions(kind)
    for name, field in kind.model_fields.items():
        groups = [group for group in alternatives(field.annotation) if is_config(group)]
        if not groups and not meanings[name] and name not in ("kind", "task"):
            yield f"{prefix}{name}"
        for group in groups:
            yield from undescribed(group, f"{prefix}{name}.")


def test_every_key_has_a_description():
    from dragoman.tasks.config import TASK_CONFIGS

    assert sorted({key for settings in TASK_CONFIGS.values() for key in undescribed(settings)}) == []
