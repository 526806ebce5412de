"""`dragoman demo`: train a small translator on a generated corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import Device

if TYPE_CHECKING:
    from rich.table import Table

    from dragoman.runs.demo import DemoResult
    from dragoman.runs.folder import RunFolder

SOURCE = "en"


def demo(
    *,
    to: Annotated[str, typer.Option(help="Target locale, any of Babel's: de, ja, ar, pt_BR …")] = "fr",
    out: Annotated[
        Path | None,
        typer.Option("--output-dir", "--out", help="Folder of the run.", show_default="runs/demo-en-LOCALE"),
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, as training.max_epochs=200. (repeatable)")
    ] = None,
    device: Device = None,
) -> None:
    """Train a small translator in minutes and show its translations.

    The corpus of dates, times, numbers and amounts is generated from the CLDR. An interrupted demo continues; a
    finished demo is shown again.
    """
    from dragoman.cli.loading import load_as
    from dragoman.cli.training_display import TerminalReporter, console
    from dragoman.device import choose_device
    from dragoman.inference.translator import Translator
    from dragoman.runs.demo import corpus_dir, demo_dir, demo_experiment, translate_held_out, write_demo_corpus
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.train import train_in_folder

    folder = RunFolder(out or demo_dir(SOURCE, to))
    _refuse_of_another(folder, to, assignments)
    if not folder.weights.exists():
        if not folder.config.exists():
            if not corpus_dir(folder).exists():  # it does where a demo was stopped while it wrote the corpus
                folder.create()
            console.print("writing a parallel corpus from the CLDR …")
            files = write_demo_corpus(folder, source_locale=SOURCE, target_locale=to)
            folder.write_config(demo_experiment(files, assignments or []))
        train_in_folder(folder, folder.read_config(), device=choose_device(device), reporter=TerminalReporter())
    _print(translate_held_out(load_as(Translator, folder.path, device=device), folder), folder)


def _refuse_of_another(folder: RunFolder, to: str, assignments: list[str] | None) -> None:
    """Raise ConfigError where the folder holds a demo with other options."""
    from dragoman.errors import ConfigError, RunError
    from dragoman.runs.demo import corpus_dir, has_target_locale

    if not folder.config.exists():
        return
    if not corpus_dir(folder).exists():
        raise RunError(f"{folder.path}: is not the folder of a demo; choose another by --out")
    if assignments:
        raise ConfigError(
            f"--set has no effect on {folder.path}, which is there already; leave it out, or choose another by --out"
        )
    if not has_target_locale(folder, to):
        raise ConfigError(f"--to {to}: {folder.path} is a demo of another language; choose another place by --out")


def _print(showing: DemoResult, folder: RunFolder) -> None:
    from rich.console import Console

    console = Console()
    console.print(_examples(showing))
    console.print()
    console.print(_families(showing))
    minutes = folder.read_scores().get("seconds", 0.0) / 60
    console.print(
        f"\n{showing.exact.value:.1f} % of {len(showing.examples):,} held-out phrases exactly right, "
        f"BLEU {showing.bleu.value:.1f}, after {minutes:.1f} minutes of training\n[dim]{showing.bleu.signature}[/dim]",
        highlight=False,
        soft_wrap=True,
    )
    source = showing.examples[0].source
    console.print(
        "\nGo on with:\n"
        f'  echo "{source}" | dragoman translate {folder.path}\n'
        f'  dragoman inspect {folder.path} --text "{source}" --out report.html\n'
        f"  dragoman info {folder.path}\n"
        "  dragoman train --source YOUR.en --target YOUR.de --out runs/mine",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _examples(showing: DemoResult) -> Table:
    """Two phrases per family, and the first mistakes."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="held-out phrases, never seen in training", title_justify="left", header_style="dim")
    for column in ("", "source", "translation", "expected, where it differs"):
        table.add_column(column, overflow="fold")
    shown: dict[str, int] = {}
    mistakes = [example for example in showing.examples if not example.right][:3]
    for example in sorted(showing.examples, key=lambda example: example.family):
        shown[example.family] = shown.get(example.family, 0) + 1
        if shown[example.family] <= 2 and example.right:
            table.add_row(Text("✓", "green"), Text(example.source), Text(example.output), "")
    for example in mistakes:
        table.add_row(Text("✗", "red"), Text(example.source), Text(example.output), Text(example.expected))
    return table


def _families(showing: DemoResult) -> Table:
    from rich.table import Table

    table = Table(title="exactly right by family", title_justify="left", header_style="dim", box=None)
    table.add_column("family")
    table.add_column("right", justify="right")
    table.add_column("of", justify="right")
    for family, (right, total) in sorted(showing.by_family().items()):
        table.add_row(family, f"{100 * right / total:.1f} %", f"{total}")
    return table
