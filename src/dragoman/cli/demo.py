"""`dragoman demo`: train a small translator on a generated corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dragoman.cli.load_run import load_as
from dragoman.cli.options import Assignments, DeviceOption
from dragoman.cli.table_output import PlainConsole, build_table
from dragoman.cli.training_display import TerminalReporter, show_line
from dragoman.cli.verb_command import Outcome
from dragoman.errors import ConfigError, RunError, quote
from dragoman.number_words import counted

if TYPE_CHECKING:
    from rich.table import Table

    from dragoman.runs.folder import RunFolder
    from dragoman_demo.run import DemoResult

SOURCE = "en"


def demo(
    *,
    to: Annotated[str, typer.Option(help="Target locale, any of Babel's: de, ja, ar, pt_BR …")] = "fr",
    output_dir: Annotated[
        Path | None,
        typer.Option("--output-dir", "--out", help="Folder of the run.", show_default="runs/demo-en-LOCALE"),
    ] = None,
    assignments: Assignments = None,
    device: DeviceOption = None,
) -> Outcome:
    """Train a small translator in minutes and show its translations.

    The corpus of dates, times, numbers and amounts is generated from the CLDR. An interrupted demo continues; a
    finished demo is shown again.
    """
    from dragoman.device import choose_device
    from dragoman.inference import Translator
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.train_in_folder import train_in_folder
    from dragoman_demo.corpus import corpus_files
    from dragoman_demo.run import corpus_dir, demo_dir, demo_experiment, translate_held_out, write_demo_corpus

    folder = RunFolder(output_dir or demo_dir(SOURCE, to))
    _check_folder(folder, to, assignments)
    if not folder.weights.exists():
        if not folder.config.exists():
            files = corpus_files(corpus_dir(folder), source_locale=SOURCE, target_locale=to)
            experiment = demo_experiment(files, assignments or [])
            if not corpus_dir(folder).exists():  # a demo that was stopped while it wrote the corpus has one
                folder.create()
            show_line("writing a parallel corpus from the CLDR …")
            write_demo_corpus(folder, source_locale=SOURCE, target_locale=to)
            folder.write_config(experiment)
        train_in_folder(folder, folder.read_config(), device=choose_device(device), reporter=TerminalReporter())
    result = translate_held_out(load_as(Translator, folder.path, device=device), folder)
    return Outcome(lambda: _facts(result, folder), lambda: _print(result, folder))


def _check_folder(folder: RunFolder, to: str, assignments: list[str] | None) -> None:
    """Raise ConfigError or RunError if the folder contains another run, or a demo with other options."""
    from dragoman_demo.run import corpus_dir, has_target_locale

    if not folder.config.exists():
        return
    if not corpus_dir(folder).exists():
        raise RunError(f"{folder.path}: is not the folder of a demo. Choose another folder with --output-dir.")
    if assignments:
        raise ConfigError(
            f"--set has no effect on {folder.path}, which exists. Leave it out, or choose another folder with "
            "--output-dir."
        )
    if not has_target_locale(folder, to):
        raise ConfigError(
            f"--to {to}: {folder.path} is a demo of another language. Choose another folder with --output-dir."
        )


def _facts(result: DemoResult, folder: RunFolder) -> dict[str, Any]:
    families = {name: {"right": right, "of": total} for name, (right, total) in result.by_family().items()}
    scores = [one.to_dict() for one in (result.exact, result.bleu)]
    seconds = folder.read_scores().get("seconds")
    facts = {"path": str(folder.path), "seconds": seconds, "scores": scores, "families": families}
    return facts | {"low_score_note": _low_score_note(result, folder)}


def _low_score_note(result: DemoResult, folder: RunFolder) -> str | None:
    """Return a note, with reasons and a remedy, if the scores are not good enough for useful translations."""
    from dragoman.evaluation.useful_scores import reasons_against

    if not (reasons := reasons_against([result.exact, result.bleu])):
        return None
    longer = f"dragoman train --resume {quote(folder.path)} --max-steps {2 * folder.read_scores()['steps']}"
    return f"The scores are not good enough for useful translations. {'; '.join(reasons)}. Train longer: {longer}"


def _print(result: DemoResult, folder: RunFolder) -> None:
    console = PlainConsole()
    console.print(_example_table(result))
    console.print()
    rows = [
        (family, f"{100 * right / total:.1f} %", str(total))
        for family, (right, total) in sorted(result.by_family().items())
    ]
    console.print(build_table(("family", "right", "of"), rows, title="exactly right by family", right=("right", "of")))
    minutes = folder.read_scores().get("seconds", 0.0) / 60
    text = (
        f"\n{result.exact.value:.1f} % of {counted(len(result.examples), 'held-out phrases')} exactly right, "
        f"BLEU {result.bleu.value:.1f}, after {minutes:.1f} minutes of training\n"
    )
    console.print(Text.assemble(text, (result.bleu.signature, "dim")), soft_wrap=True)
    if note := _low_score_note(result, folder):
        console.print(f"note: {note}", soft_wrap=True)
    source, run = result.examples[0].source, quote(folder.path)
    console.print(
        "\nContinue with:\n"
        f"  echo {quote(source)} | dragoman translate {run}\n"
        f"  dragoman inspect {run} --text {quote(source)} --out report.html\n"
        f"  dragoman info {run}\n"
        "  dragoman train --source YOUR.en --target YOUR.de --output-dir runs/mine",
        soft_wrap=True,
    )


def _example_table(result: DemoResult) -> Table:
    """Build a table of two correct phrases per family, and the first errors."""
    rows: list[tuple[str | Text, ...]] = []
    shown: dict[str, int] = {}
    for example in sorted(result.examples, key=lambda example: example.family):
        shown[example.family] = shown.get(example.family, 0) + 1
        if shown[example.family] <= 2 and example.is_correct:
            rows.append((Text("✓", "green"), Text(example.source), Text(example.output), ""))
    for example in [example for example in result.examples if not example.is_correct][:3]:
        rows.append((Text("✗", "red"), Text(example.source), Text(example.output), Text(example.expected)))
    columns = ("", "source", "translation", "expected, where it differs")
    return build_table(columns, rows, title="held-out phrases, not in the training data")
