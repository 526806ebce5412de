"""Commands and Python programs of README and quickstart, run in order; links and the source tree are correct."""

import gzip
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
README, QUICKSTART = ROOT / "README.md", ROOT / "docs" / "quickstart.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

NOT_RUN = {
    "pip install": "needs a release and the network",
    "curl": "needs the network",
    "dragoman serve": "runs until it is stopped",
    "dragoman pull": "needs the network",
    "make demo": "trains for minutes",
    "make test": "runs this test",
}
SHORTENED = {
    "dragoman train --source ": " --set preset=nano --set 'training.max_steps=3'",
    "dragoman train --prepared ": " --set preset=nano --set 'training.max_steps=3'",
    "dragoman train pairs.tsv ": " --preset nano --max-steps 3",
    "dragoman train --text ": " --set preset=gpt-nano --set 'training.max_steps=3'",
}
"""Options added to commands so that they take seconds."""
WORDS = {"two": "zwei", "dogs": "Hunde", "play": "spielen", "a": "ein", "man": "Mann", "sleeps": "schläft", ".": "."}


def blocks(page: Path, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M)
    return [text for name, text in fenced if name == language]


def scripts(page: Path) -> list[str]:
    """Return the shell blocks that can be run, with shortened training."""
    kept = [block for block in blocks(page, "sh") if not any(command in block for command in NOT_RUN)]
    lines = [block.splitlines() for block in kept]
    return ["\n".join(line + _addition(line) for line in block) for block in lines]


def _addition(line: str) -> str:
    return "".join(addition for beginning, addition in SHORTENED.items() if line.startswith(beginning))


@pytest.fixture
def folder(tmp_path):
    """Files that the pages mention: corpora, a test set, outputs of two systems, a story, a glossary, a web page."""
    generator = random.Random(1)
    for names, size in [(["train"], 211), (["val"], 31), (["terms"], 101), (["test", "test_2016_flickr"], 11)]:
        sources = [generator.choices(list(WORDS), k=generator.randint(3, 9)) for _ in range(size)]
        targets = [[WORDS[word] for word in source] for source in sources]
        for name in names:
            write(tmp_path / f"{name}.en", sources)
            write(tmp_path / f"{name}.de", targets)
    for name, share in [("baseline", 0.4), ("system", 0.1)]:
        noisy = [[w if generator.random() > share else "Hund" for w in line] for line in targets]
        write(tmp_path / f"{name}.de", noisy)
    sides = [(tmp_path / name).read_text(encoding="utf-8").splitlines() for name in ("train.en", "train.de")]
    write(tmp_path / "pairs.tsv", [[f"{source}\t{target}"] for source, target in zip(*sides, strict=True)])
    (tmp_path / "terms.tsv").write_text("dogs\tHunde\n", encoding="utf-8")
    (tmp_path / "page.html").write_text("<p>two <b>dogs</b> play .</p>\n", encoding="utf-8")
    write(tmp_path / "story.txt", [generator.choices(list(WORDS), k=11) for _ in range(211)])
    return tmp_path


def write(path: Path, lines: list[list[str]]) -> None:
    text = "".join(" ".join(line) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(text.encode()))


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    binaries = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=480)


@pytest.mark.parametrize("page", [README, QUICKSTART], ids=lambda page: page.stem)
def test_commands_and_programs_run(page, folder):
    for script in scripts(page):
        answer = run_in(folder, "bash", "-euo", "pipefail", "-c", script)
        assert answer.returncode == 0, f"{script}\n{answer.stderr}"
        assert answer.stdout + answer.stderr, f"no output:\n{script}"
    for program in blocks(page, "python"):
        answer = run_in(folder, sys.executable, "-c", program)
        assert answer.returncode == 0, f"{program}\n{answer.stderr}"


def test_readme_begins_with_two_make_targets():
    assert [block.strip() for block in blocks(README, "sh")[:2]] == ["make demo", "make test"]


@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_targets_exist(target):
    answer = run_in(ROOT, "make", "--dry-run", target)
    assert answer.returncode == 0, answer.stderr
    assert ".venv/bin/" in answer.stdout


def test_every_exception_is_in_a_page():
    text = "".join("".join(blocks(page, "sh")) for page in (README, QUICKSTART))
    assert all(beginning in text for beginning in (*NOT_RUN, *SHORTENED))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_exist(page):
    text = re.sub(r"^`{3,}.*?^`{3,}$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    missing = [link for link in links if not link.startswith("http") and not (page.parent / link).exists()]
    assert missing == []


def test_source_tree_lists_every_package():
    (tree,) = [block for block in blocks(README, "") if block.startswith("src/dragoman/\n")]
    shown = {line.split()[0].removesuffix("/") for line in tree.splitlines() if re.match(r"  \w+/", line)}
    assert shown == {path.parent.name for path in (ROOT / "src" / "dragoman").glob("*/__init__.py")}
