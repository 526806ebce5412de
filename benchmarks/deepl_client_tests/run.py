"""Run the tests of DeepL's client for Python against `dragoman serve`, and count what passes and why the rest does not.

    git clone https://github.com/DeepLcom/deepl-python
    python -m benchmarks.deepl_client_tests.run deepl-python

Tests that need DeepL's mock server are skipped by the suite itself. Many others expect the texts of a table in the
suite, "proton beam" in 29 languages: a small multilingual model learns this table first (a minute).
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
READY = "listening on "
REASONS = {
    "styl": "style rules and DeepL Write, which are not offered",
    "rephrase": "style rules and DeepL Write, which are not offered",
    "formality": "formality, which no model here has",
    "custom_instructions": "custom instructions, which are refused",
    "context": "context, which is refused",
    "unknown parameter": "parameters that DeepL does not document, which are refused",
    "DID NOT RAISE": "a text in the target language, which stays as it is, and is no error",
    "test_tag_handling": "a translation that the model has not learned",
}
"""Words in the name or the message of a failed test, and why it fails; the first that occurs counts."""
# The suite imports from pydantic what its first version had.
PYTEST = "import pydantic, pydantic.v1, pytest; pydantic.BaseSettings = pydantic.v1.BaseSettings; pytest.main()"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path, help="checkout of the client")
    parser.add_argument("--model", type=Path, help="run that has learned the table; default: train it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = arguments.model or train(arguments.suite, folder)
        with serve(model.resolve(), folder) as (address, key):
            cases = run_suite(arguments.suite.resolve(), address, key, folder / "report.xml")
    result = {"date": date.today().isoformat(), "suite": describe(arguments.suite), **summarize(cases)}
    (HERE / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


def describe(suite: Path) -> str:
    """Return the commit of a checkout, or its name."""
    done = subprocess.run(["git", "-C", suite, "log", "-1", "--format=%h %cs"], capture_output=True, text=True)
    return done.stdout.strip() or suite.name


def read_table(suite: Path) -> dict[str, str]:
    """Return the texts of the suite by language."""
    tree = ast.parse((suite / "tests" / "conftest.py").read_text(encoding="utf-8"))
    [table] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "example_text"
    ]
    return {code.partition("-")[0].lower(): text for code, text in table.items()}


def train(suite: Path, folder: Path) -> Path:
    """Train a model that translates the texts of the table into and from English."""
    texts = read_table(suite)
    others = sorted(texts.keys() - {"en"})
    pairs = [("en", "de"), *((one, "en") for one in others), *(("en", one) for one in others if one != "de")]

    def corpus(name: str, pair: tuple[str, str], source: str) -> dict[str, str]:
        for side, text in (("source", source), ("target", texts[pair[1]])):
            (folder / f"{name}.{side}").write_text(f"{text}\n" * 8, encoding="utf-8")
        files = {"kind": "files", "source": f"{name}.source", "target": f"{name}.target"}
        return files | {"source_language": pair[0], "target_language": pair[1]}

    first, *rest = (corpus("-".join(pair), pair, texts[pair[0]]) for pair in pairs)
    settings: dict[str, Any] = {
        "data": {
            "train": first,
            "extra_corpora": [{"corpus": one} for one in rest],
            "valid": corpus("valid", pairs[0], f"a {texts['en']}"),
        },
        "tokenizer": {"kind": "characters"},
        "model": {"d_model": 64, "num_heads": 4, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 128}
        | {"dropout": {"residual": 0.0}},
        "training": {"batch_tokens": 2000, "max_steps": 1500, "validate_every": 500, "label_smoothing": 0.0},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    subprocess.run([*_dragoman("train", "config.yaml", "--out", "model")], cwd=folder, check=True)
    return folder / "model"


@contextmanager
def serve(model: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Serve a model with keys on a free port; give the address and a key."""
    keys = ["--api-keys", "keys"]
    key = subprocess.run(
        [*_dragoman("serve", "--add-key", "tests"), *keys], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()
    log = folder / "server.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*_dragoman("serve", f"all={model}", "--port", "0"), *keys], cwd=folder, stdout=stream, stderr=stream
        )
    try:
        while "startup complete" not in log.read_text(encoding="utf-8"):
            if process.poll() is not None:
                raise SystemExit(log.read_text(encoding="utf-8"))
            time.sleep(0.1)
        yield log.read_text(encoding="utf-8").partition(READY)[2].split()[0], key
    finally:
        process.kill()
        process.wait()


def run_suite(suite: Path, address: str, key: str, report: Path) -> list[ElementTree.Element]:
    """Run the suite; return its test cases."""
    options = f"-q -p no:cacheprovider -c /dev/null --rootdir . tests --timeout 60 --junitxml {report}"
    environment = os.environ | {"DEEPL_SERVER_URL": address, "DEEPL_AUTH_KEY": key, "PYTEST_ADDOPTS": options}
    subprocess.run([sys.executable, "-c", PYTEST], cwd=suite, env=environment, check=False)
    return list(ElementTree.parse(report).getroot().iter("testcase"))


def summarize(cases: list[ElementTree.Element]) -> dict[str, Any]:
    """Return the numbers of tests by outcome, and of failed tests by reason."""
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    unexplained = []
    for case in cases:
        problem = next((one for one in (case.find("failure"), case.find("error")) if one is not None), None)
        outcomes["skipped" if case.find("skipped") is not None else "failed" if problem is not None else "passed"] += 1
        if problem is not None:
            name = f"{case.get('classname')}.{case.get('name')}"
            said = f"{name} {problem.get('message')}"
            reason = next((why for word, why in REASONS.items() if word in said), None)
            reasons[reason or "other"] += 1
            if reason is None:
                unexplained.append(f"{name}: {(problem.get('message') or '').splitlines()[0][:200]}")
    return {"tests": dict(outcomes), "failed_because_of": dict(reasons), "other": unexplained}


def _dragoman(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dragoman", *arguments]


if __name__ == "__main__":
    main()
