"""Parts that all verbs share: protected inputs, levels of messages, and outcomes as text or JSON."""

import json
import os
from pathlib import Path
from typing import Annotated

import pytest
import typer

from dragoman.cli import messages
from dragoman.cli.verb_command import Outcome, complete_verb, keep_inputs
from dragoman.errors import RunError, TextWarning

NAMES = {"input_": "--input", "output": "--output", "run": "run", "ensemble": "--ensemble"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text("a\n", encoding="utf-8")
    return path


def other_name(kind: str, source: Path) -> Path:
    """Return another name of a file."""
    other = source.with_name("other.txt")
    match kind:
        case "same":
            return source
        case "relative":
            return Path(os.path.relpath(source))
        case "symbolic link":
            other.symlink_to(source)
        case "hard link":
            other.hardlink_to(source)
    return other


@pytest.mark.parametrize("kind", ["same", "relative", "symbolic link", "hard link"])
def test_output_may_not_be_an_input_by_any_name(kind, source):
    output = other_name(kind, source)
    with pytest.raises(RunError, match=r"--output .*: is an input, --input .*, and would be replaced"):
        keep_inputs({"input_": str(source), "output": str(output)}, NAMES)


@pytest.mark.parametrize("value", ["source.txt", ["missing", "source.txt"], Path("source.*")])
def test_inputs_are_files_lists_and_patterns(value, source, monkeypatch):
    monkeypatch.chdir(source.parent)
    with pytest.raises(RunError, match=r"is an input, --input source\.txt"):
        keep_inputs({"input_": value, "output": "source.txt"}, NAMES)


def test_output_may_not_be_a_file_of_an_input_run(tmp_path):
    (tmp_path / "config.yaml").write_text("a: 1\n", encoding="utf-8")
    for values in ({"run": tmp_path}, {"ensemble": [tmp_path]}):
        with pytest.raises(RunError, match=r"is an input, .*config\.yaml"):
            keep_inputs(values | {"output": str(tmp_path / "config.yaml")}, NAMES)
    keep_inputs({"run": tmp_path, "output": str(tmp_path / "report.html")}, NAMES)


def test_other_files_devices_and_texts_are_no_inputs(source, tmp_path):
    """Neither raises an error nor touches a file."""
    (tmp_path / "target.txt").write_text("b\n", encoding="utf-8")
    for value in (str(source), "/dev/null", "text\0", "a" * 5_003, "[", None, 3, True):
        keep_inputs({"input_": value, "output": str(tmp_path / "target.txt")}, NAMES)
    keep_inputs({"input_": "/dev/null", "output": "/dev/null"}, NAMES)
    assert (tmp_path / "target.txt").read_text(encoding="utf-8") == "b\n"


def run(verb, *arguments: object) -> int:
    app = typer.Typer()
    app.command()(complete_verb(verb))
    with pytest.raises(SystemExit) as ending:
        app([str(one) for one in arguments])
    return int(ending.value.code or 0)


def test_outcome_is_shown_or_printed_as_json(capsys):
    def verb() -> Outcome:
        return Outcome(lambda: {"pairs": 3}, lambda: print("three pairs"), status=1)

    assert run(verb) == 1
    assert capsys.readouterr().out == "three pairs\n"
    assert run(verb, "--json") == 1
    assert json.loads(capsys.readouterr().out) == {"pairs": 3}


def test_json_selects_json_lines_where_a_verb_has_a_format(capsys):
    def verb(format_: Annotated[str, typer.Option("--format")] = "text") -> None:
        print(format_)

    run(verb, "--json")
    assert capsys.readouterr().out == "jsonl\n"


def test_quiet_commands_print_no_messages(capsys):
    def verb() -> None:
        messages.say("writing")

    run(verb)
    assert capsys.readouterr().err == "dragoman: writing\n"
    run(verb, "--quiet")
    assert capsys.readouterr().err == ""


def warn_about(*numbers: int) -> None:
    for number in numbers:
        text = TextWarning("line", number, "cut off", problem="translations were cut off", remedy="raise max_length")
        messages.show_warning(text)


def test_warnings_about_texts_are_summarized_with_the_option_of_the_verb(capsys):
    messages.start(flags={"max_length": "--max-length"})
    warn_about(3, 5, 7, 11, 13, 17)
    messages.summarize_warnings(200)
    messages.summarize_warnings(200)
    assert capsys.readouterr().err == (
        "dragoman: warning: 6 of 200 translations were cut off (lines 3, 5, 7, 11, 13, …); raise --max-length\n"
    )


def test_a_single_warning_is_printed_whole(capsys):
    messages.start(flags={"max_length": "--max-length"})
    warn_about(3)
    messages.summarize_warnings()
    assert capsys.readouterr().err == "dragoman: warning: line 3: cut off; raise --max-length\n"


def test_summary_lists_some_of_the_different_examples(capsys):
    messages.start()
    for number, examples in ((2, "猫μ"), (4, "μ\u00a0"), (9, "abcdefgh")):
        messages.show_warning(TextWarning("line", number, "unknown", problem="lines are unknown", examples=examples))
    messages.summarize_warnings(9)
    expected = "3 of 9 lines are unknown: 猫 μ U+00A0 a b c d e and 3 more (lines 2, 4, 9)\n"
    assert capsys.readouterr().err == f"dragoman: warning: {expected}"


def test_verbose_commands_print_every_warning(capsys):
    messages.start("verbose")
    warn_about(3, 5)
    messages.summarize_warnings()
    assert [line[:25] for line in capsys.readouterr().err.splitlines()] == [
        "dragoman: warning: line 3",
        "dragoman: warning: line 5",
        "dragoman: warning: 2 tran",
    ]


def test_other_warnings_are_one_line(capsys):
    messages.start()
    messages.show_warning(UserWarning("slow"), UserWarning, "somewhere.py", 11)
    assert capsys.readouterr().err == "dragoman: warning: slow\n"
