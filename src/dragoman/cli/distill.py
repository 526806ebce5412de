"""`dragoman distill`: sequence-level distillation data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from dragoman.cli import messages, text_io
from dragoman.cli.load_run import load_as
from dragoman.cli.options import LANGUAGES, LOADING, OutputDir, RunArgument, config_options, shared_options
from dragoman.cli.verb_command import Outcome
from dragoman.decoding.config import DecodingConfig, replace_options
from dragoman.errors import quote
from dragoman.number_words import counted


@shared_options(LOADING, into="loading")
@config_options(DecodingConfig, ("beam_size", "method"), into="decoding")
@shared_options(LANGUAGES, into="languages")
def distill(
    teacher: RunArgument,
    *,
    source: Annotated[str, typer.Option(help="File of segments, one per line; - is standard input.")],
    output_dir: OutputDir,
    decoding: dict[str, Any],
    languages: dict[str, str],
    loading: dict[str, Any],
) -> Outcome:
    """Translate text with a teacher, as training data for a student.

    Sequence-level distillation (Kim and Rush, 2016). Word-level distillation is the training objective
    `distillation` under `training.loss`.
    """
    from dragoman.inference import Translator
    from dragoman.runs.distill_and_backtranslate import (
        SOURCE,
        TARGET,
        beam_search_rewriter,
        describe_origin,
        write_distilled,
    )

    translator = load_as(Translator, teacher, **loading)
    config = replace_options(translator.config, decoding, where="distill")
    how = {"method": "beam", "beam_size": config.beam_size, "decoding": config.method, **languages}
    origin = describe_origin(teacher, *loading.get("ensemble", ()), **how)
    with text_io.read_with_progress(source, output=output_dir) as texts:
        rewrite = beam_search_rewriter(translator, config, **languages)
        written = write_distilled(output_dir, texts, rewrite, origin=origin)
    text = (
        f"{output_dir}: {counted(written.pairs, 'pairs')}; left out {counted(written.left_out, 'texts')}. Train a "
        f"student with: "
        f"dragoman train --source {quote(output_dir / SOURCE)} --target {quote(output_dir / TARGET)} --output-dir RUN"
    )
    return Outcome(lambda: {"path": str(output_dir), **asdict(written)}, lambda: messages.say(text))
