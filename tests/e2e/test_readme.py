"""What the README tells people to type is typed, in order, in a folder where its files are."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

NOT_RUN = {
    "pip install dragoman": "would fetch a release from the network",
    "make demo": "trains for minutes; what make would do is asked of it instead",
    "make test": "runs this test; what make would do is asked of it instead",
}
SHORTENED = {
    "dragoman train --source ": " --set preset=nano --set 'training.max_steps=3'",
    "dragoman train --prepared ": " --set preset=nano --set 'training.max_steps=3'",
    "dragoman train --text ": " --set preset=gpt-nano --set 'training.max_steps=3'",
}
"""What is added to a command so that it takes seconds."""


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.S | re.M)
    return [text for name, text in fenced if name == language]


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the README speaks of: a corpus in a language of seven words, a test set, two systems' outputs, a story."""
    folder = tmp_path_factory.mktemp("readme")
    generator = random.Random(1)
    words = {
        "two": "zwei",
        "dogs": "Hunde",
        "play": "spielen",
        "a": "ein",
        "man": "Mann",
        "sleeps": "schläft",
        ".": ".",
    }
    for name, size in [("train", 211), ("terms", 101), ("test", 11)]:
        sources = [generator.choices(list(words), k=generator.randint(3, 9)) for _ in range(size)]
        targets = [[words[word] for word in source] for source in sources]
        for suffix, lines in [("en", sources), ("de", targets)]:
            write(folder / f"{name}.{suffix}", lines)
    for name, share in [("baseline", 0.4), ("system", 0.1)]:
        noisy = [[w if generator.random() > share else "Hund" for w in line] for line in targets]
        write(folder / f"{name}.de", noisy)
    write(folder / "story.txt", [generator.choices(list(words), k=11) for _ in range(211)])
    return folder


def write(path: Path, lines: list[list[str]]) -> None:
    path.write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    binaries = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)


@pytest.mark.slow
def test_what_the_readme_says_works(folder):
    """One test, since each command uses what the one before it left."""
    for command in commands():
        if command in NOT_RUN:
            continue
        extra = "".join(addition for beginning, addition in SHORTENED.items() if command.startswith(beginning))
        answer = run_in(folder, "bash", "-euo", "pipefail", "-c", command + extra)
        assert answer.returncode == 0, f"{command}\n{answer.stderr}"
        assert answer.stdout + answer.stderr, f"{command}\nsaid nothing"
    for program in blocks("python"):
        answer = run_in(folder, sys.executable, "-c", program)
        assert answer.returncode == 0, f"{program}\n{answer.stderr}"


def test_the_readme_opens_with_the_two_targets():
    assert commands()[:2] == ["make demo", "make test"]


@pytest.mark.parametrize("target", [command for command in NOT_RUN if command.startswith("make ")])
def test_make_knows_what_the_readme_asks_of_it(target):
    answer = run_in(ROOT, "make", "--dry-run", *target.split()[1:])
    assert answer.returncode == 0, answer.stderr
    assert ".venv/bin/" in answer.stdout


def test_nothing_is_left_out_that_the_readme_does_not_say():
    assert set(NOT_RUN) <= set(commands())
    assert all(any(command.startswith(beginning) for command in commands()) for beginning in SHORTENED)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    gone = [link for link in links if not link.startswith("http") and not (page.parent / link).exists()]
    assert gone == []


def test_the_tree_of_the_readme_is_the_tree_of_the_package():
    """Every room that the README shows is there, and every room that is there is shown."""
    (tree,) = [block for block in blocks("") if block.startswith("src/dragoman/\n")]
    shown = {line.split()[0].removesuffix("/") for line in tree.splitlines()[1:] if line.split()[0].endswith("/")}
    rooms = {path.parent.name for path in (ROOT / "src" / "dragoman").glob("*/__init__.py")}
    assert shown == rooms
