"""`dragoman distill`: sequence-level distillation data."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from dragoman.cli import streams
from dragoman.cli.loading import load_as
from dragoman.cli.options import (
    BatchTokens,
    ComputeTypeOption,
    DeviceOption,
    EnsembleOption,
    OutputDir,
    RunArgument,
    config_options,
)
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.decoding.config import DecodingConfig


@config_options(DecodingConfig, ("beam_size", "method"), into="decoding")
def distill(
    teacher: RunArgument,
    *,
    source: Annotated[
        str, typer.Option(help="File of segments, one per line; - is standard input.", show_default=False)
    ],
    output_dir: OutputDir,
    ensemble: EnsembleOption = None,
    decoding: dict[str, Any],
    batch_tokens: BatchTokens = None,
    device: DeviceOption = None,
    compute_type: ComputeTypeOption = "auto",
) -> None:
    """Translate text with a teacher, as training data for a student.

    Sequence-level distillation (Kim and Rush, 2016). Word-level distillation is the training objective
    `distillation` under `training.loss`.
    """
    from dragoman.inference import Translator
    from dragoman.runs.pseudo_data import SOURCE, TARGET, beam_search_rewriter, describe_origin, write_distilled

    options: dict[str, Any] = {"device": device, "compute_type": compute_type, "batch_tokens": batch_tokens}
    translator = load_as(Translator, teacher, ensemble=ensemble, **options)
    config = translator.decoding_config(where="distill", **decoding)
    how = {"method": "beam", "beam_size": config.beam_size, "decoding": config.method}
    origin = describe_origin(teacher, *(ensemble or ()), **how)
    warnings = ReadWarnings()
    lines, total = streams.read_input(source, warnings), streams.count_lines(source)
    with closing(streams.with_progress(lines, "lines", output=str(output_dir), total=total)) as texts:
        written = write_distilled(output_dir, texts, beam_search_rewriter(translator, config), origin=origin)
    streams.report_repairs(warnings)
    streams.say(
        f"{output_dir}: {written.pairs:,} pairs; left out {written.left_out:,} texts. Train a student with: "
        f"dragoman train --source {output_dir / SOURCE} --target {output_dir / TARGET} --output-dir RUN"
    )
