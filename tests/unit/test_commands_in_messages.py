"""Commands that messages recommend have the options that these commands require."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import dragoman

SOURCE = Path(dragoman.__file__).parent
NEEDS_OUTPUT = ("export", "import", "pull", "distill", "backtranslate", "prune", "data prepare")
"""Commands that require `--output-dir`."""
COMMAND = re.compile(rf"dragoman (?:{'|'.join(NEEDS_OUTPUT)}) [^`\n]*?--[^`\n]*|dragoman train --(?!resume)[^`\n]*")


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module without docstrings; values in f-strings become `X`."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (docstrings | parts):
            yield node.value


def test_recommended_commands_name_an_output_folder():
    commands = [
        command
        for path in SOURCE.rglob("*.py")
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
        for command in COMMAND.findall(text)
    ]
    assert len(commands) > 5
    assert [command for command in commands if not re.search(r"--out(put-dir)?\b", command)] == []
