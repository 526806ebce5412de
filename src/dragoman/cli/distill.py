"""`dragoman distill`: what a teacher makes of texts, for a student to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import BatchTokens, Beam, Beside, ChoiceOption, ComputeName, ComputeOption, Device, choice_of

Out = Annotated[Path, typer.Option("--out", help="Folder of the new corpus; must not exist yet.", show_default=False)]


def distill(
    teacher: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    *,
    source: Annotated[str, typer.Option(help="File of texts, one a line; - is standard input.", show_default=False)],
    out: Out,
    beside: Beside = None,
    beam: Beam = None,
    choice: ChoiceOption = None,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    compute: ComputeOption = ComputeName.AUTO,
) -> None:
    """Write a corpus in which every text has the translation that a teacher finds, for a smaller model to learn from.

    Sequence-level distillation (Kim and Rush, 2016). A student who learns from the teacher's distributions instead,
    word by word, is trained under training.objective.
    """
    from contextlib import closing

    from dragoman.cli import streams
    from dragoman.cli.loading import load_as
    from dragoman.data.readers import Repairs
    from dragoman.inference.translator import Translator
    from dragoman.runs.pseudo_data import SOURCE, TARGET, origin_of, searched, write_distilled

    translator = load_as(Translator, teacher, device=device, compute=compute, batch_tokens=batch_tokens, beside=beside)
    settings = translator.searching(where="distill", beam=beam, choice=choice_of(choice))
    repairs = Repairs()
    texts = streams.counted(
        streams.read_lines(source, repairs), "lines", out=str(out), total=streams.number_of_lines(source)
    )
    with closing(texts):
        written = write_distilled(
            out,
            texts,
            searched(translator, settings),
            origin=origin_of(teacher, *(beside or ()), method="beam", beam=settings.beam, choice=settings.choice.kind),
        )
    streams.report_repairs(repairs)
    streams.say(
        f"{out}: {written.pairs:,} pairs, {written.left_out:,} texts without one. Train a student with: "
        f"dragoman train --source {out / SOURCE} --target {out / TARGET} --out RUN"
    )
