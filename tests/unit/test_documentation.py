"""The pages name only options, keys, modules and sections that exist."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from dragoman.cli.main import SUMMARIES, build_command
from dragoman.config_keys import keys_of
from dragoman.serving.config import ServerConfig
from dragoman.tasks.config import TASK_CONFIGS

ROOT = Path(__file__).parents[2]
GENERATED = set(ROOT.glob("docs/reference/*.md"))
PATTERNS = ("*.md", "docs/**/*.md", "examples/*.md", "benchmarks/**/*.md", "native/*.md", "tests/**/*.md")
PAGES = sorted({path for pattern in PATTERNS for path in ROOT.glob(pattern)} - GENERATED)
PLACES = (ROOT / "src" / "dragoman", ROOT / "src", ROOT, ROOT / "docs", ROOT / "tests", ROOT / "native")
FREE_KEYS = {"preset", "task", "kind", "expected"}
NOT_KEYS = {"tokenizer.json", "model.safetensors", "training.max_step", "model.bin", "tokenizer.model"}
"""File names, and the misspelled key of an example."""
OTHER_OPTIONS = {"--help", "--debug", "--nproc-per-node"}

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, language: str) -> list[str]:
    fenced = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.S | re.M)
    return [text for name, text in fenced if name == language]


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each `dragoman` command in the shell blocks and in the text of a page."""
    inline = re.findall(r"`(dragoman [^`\n]+)`", page.read_text(encoding="utf-8"))
    for block in [*blocks(page, "sh"), *inline]:
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "dragoman" in words and words[0] != "pip":
                yield words[words.index("dragoman") + 1 :]


@cache
def options(verb: str) -> dict[str, set[str]]:
    """Return the long options of a verb, by subcommand, or by "" if it has none."""
    command: Any = typer.main.get_command(build_command(verb))
    while set(getattr(command, "commands", {})) == {verb}:
        command = command.commands[verb]
    subcommands = getattr(command, "commands", {"": command})
    return {
        name: {option for parameter in one.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for name, one in subcommands.items()
    }


@every_page
def test_commands_use_existing_options(page: Path) -> None:
    for verb, *words in commands(page):
        if verb in ("--help", "--debug", "VERB"):
            continue
        assert verb in SUMMARIES
        known = options(verb)
        own = known.get("") or known[words[0]]
        used = {word.partition("=")[0] for word in words if word.startswith("--") and not word[2:3].isspace()}
        assert used - own - {"--help", "--debug"} == set(), f"dragoman {verb}"


@every_page
def test_text_names_existing_options(page: Path) -> None:
    named = set(re.findall(r"`(--[a-z][\w-]*)[^`\n]*`", page.read_text(encoding="utf-8")))
    known = {option for verb in SUMMARIES for group in options(verb).values() for option in group}
    assert page.name == "glossary.md" or named - known - OTHER_OPTIONS == set()


@cache
def known_keys() -> set[str]:
    configs = (*TASK_CONFIGS.values(), ServerConfig)
    return {re.sub(r"\[\]|\.\d+", "", key) for config in configs for key in keys_of(config)}


def leaves(tree: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(tree, dict):
        for name, value in tree.items():
            key = f"{prefix}.{name}" if prefix else name
            yield key
            yield from leaves(value, key)


@every_page
def test_yaml_blocks_use_existing_keys(page: Path) -> None:
    used = {key for block in blocks(page, "yaml") for key in leaves(yaml.safe_load(block))}
    unknown = {key for key in used if key.split(".")[-1] not in FREE_KEYS and key.split(".")[0] not in FREE_KEYS}
    assert unknown - known_keys() == set()


@every_page
def test_text_names_existing_keys(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    used = set(re.findall(r"(?:`|--set '?)((?:training|data|model|decoding|tokenizer)\.[\w.]+)(?!\()", text))
    assert {key.removesuffix(".kind") for key in used} - known_keys() - NOT_KEYS == set()


@every_page
def test_named_modules_exist(page: Path) -> None:
    named = set(re.findall(r"`([\w./-]+/[\w-]+\.(?:py|yaml|md))`", page.read_text(encoding="utf-8")))
    missing = {name for name in named if not any((place / name).exists() for place in (*PLACES, page.parent))}
    assert missing == set()


@cache
def known_symbols() -> set[str]:
    sources = [path for name in ("src", "tests", "native") for path in (ROOT / name).glob("**/*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in [*sources, ROOT / "pyproject.toml"])
    return set(re.findall(r"\w+", text))


@every_page
def test_text_names_existing_symbols(page: Path) -> None:
    if page.parent.name in ("how-to", "concepts"):
        text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        named = set(re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`\n]*\))?`", text))
        missing = {name for name in named if not set(name.split(".")) <= known_symbols()}
        assert {name for name in missing if not name.endswith((".md", ".py", ".gz", "_xlsx", "_total"))} == set()


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@every_page
def test_links_name_existing_sections(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    local = [(name, section) for name, section in links if not name.startswith("http")]
    missing = [
        (name, section) for name, section in local if section not in anchors(page.parent / name if name else page)
    ]
    assert missing == []
