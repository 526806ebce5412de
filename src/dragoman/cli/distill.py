"""`dragoman distill`: sequence-level distillation data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli.options import BatchTokens, ComputeName, ComputeOption, Device, EnsembleRuns, config_options
from dragoman.decoding.config import DecodingConfig

Out = Annotated[
    Path, typer.Option("--output-dir", "--out", help="Folder of the new corpus; must not exist.", show_default=False)
]


@config_options(DecodingConfig, ("beam_size", "method"), into="decoding")
def distill(
    teacher: Annotated[Path, typer.Argument(help="Run folder or exported model.", show_default=False)],
    *,
    source: Annotated[
        str, typer.Option(help="File of segments, one per line; - is standard input.", show_default=False)
    ],
    out: Out,
    beside: EnsembleRuns = None,
    decoding: dict[str, Any],
    batch_tokens: BatchTokens = None,
    device: Device = None,
    compute: ComputeOption = ComputeName.AUTO,
) -> None:
    """Translate text with a teacher, as training data for a student.

    Sequence-level distillation (Kim and Rush, 2016). Word-level distillation is the training objective
    `distillation` under `training.loss`.
    """
    from contextlib import closing

    from dragoman.cli import streams
    from dragoman.cli.loading import load_as
    from dragoman.data.readers.text_lines import ReadWarnings
    from dragoman.inference.translator import Translator
    from dragoman.runs.pseudo_data import SOURCE, TARGET, beam_search_rewriter, describe_origin, write_distilled

    translator = load_as(Translator, teacher, device=device, compute=compute, batch_tokens=batch_tokens, beside=beside)
    settings = translator.decoding_config(where="distill", **decoding)
    repairs = ReadWarnings()
    texts = streams.counted(
        streams.read_lines(source, repairs), "lines", out=str(out), total=streams.number_of_lines(source)
    )
    with closing(texts):
        written = write_distilled(
            out,
            texts,
            beam_search_rewriter(translator, settings),
            origin=describe_origin(
                teacher, *(beside or ()), method="beam", beam_size=settings.beam_size, decoding=settings.method
            ),
        )
    streams.report_repairs(repairs)
    streams.say(
        f"{out}: {written.pairs:,} pairs, {written.left_out:,} texts without one. Train a student with: "
        f"dragoman train --source {out / SOURCE} --target {out / TARGET} --out RUN"
    )
