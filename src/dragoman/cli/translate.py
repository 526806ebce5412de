"""`dragoman translate`: translate text with a trained model."""

from __future__ import annotations

import gc
from typing import Annotated, Any, Literal

import typer

from dragoman.cli import options
from dragoman.cli.control_options import read_control
from dragoman.cli.translate_file import translate_file_command
from dragoman.cli.translate_text import (
    RunToTranslate,
    TextSource,
    build_format,
    translate_text,
    translate_text_with_ray,
)
from dragoman.decoding.config import DecodingConfig

UseRay = Annotated[bool, typer.Option("--ray", help="Translate with Ray, here or on the cluster at RAY_ADDRESS.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Workers of --ray. Default: one per core.")]
Scores = Annotated[bool, typer.Option("--scores", help="Print score and log-probability before each translation.")]
Language = Annotated[
    str | None, typer.Option(help="Language code for --split.", show_default="that of the run, else en")
]
ShortlistFlag = Annotated[bool, typer.Option("--shortlist", help="Allow only words of the model's lexical shortlist.")]


@options.shared_options(options.LOADING, into="loading")
@options.config_options(DecodingConfig, ("n_best",), into="returned", default="1", panel=options.RUN_PANEL)
@options.config_options(DecodingConfig, options.DECODING, into="decoding")
@options.shared_options(options.LANGUAGES, into="languages")
@options.shared_options(options.CONTROL, into="control")
@options.shared_options(options.FILES, into="files")
def translate(
    run: options.RunArgument,
    *,
    text: options.TextsOption = None,
    input_: options.InputFile = "-",
    source_features: options.SourceFeaturesOption = None,
    split: Annotated[Literal["sentences"] | None, typer.Option(help="Translate sentence by sentence.")] = None,
    language: Language = None,
    languages: dict[str, Any],
    control: dict[str, Any],
    files: dict[str, Any],
    output: options.OutputFile = "-",
    decoding: dict[str, Any],
    returned: dict[str, int],
    shortlist: ShortlistFlag = False,
    loading: dict[str, Any],
    scores: Scores = False,
    format_: options.FormatOption = "text",
    ray: UseRay = False,
    workers: Workers = None,
) -> None:
    """Translate text, one segment per line.

    The output has the order of the input; empty lines produce empty lines. Decoding options that are not given have
    the values under `decoding` in the run's configuration.

    With --scores, tabs separate score, log-probability and translation. With --n-best, each hypothesis is a line of
    the segment number (from 0), text, log-probability and score, separated by bars as in Moses and Marian. With
    --split, the log-probability of a line is the sum over its sentences.

    With --file, a file is translated, and --output is a file of the same kind: PO, XLIFF, TMX, Android and Apple
    strings, JSON, YAML and others. Translations that it has stay, unless --only says otherwise. Texts are split into
    sentences.

    With --ray, workers on one or many machines translate blocks of lines; all machines see the run at the same path.
    """
    gc.set_threshold(20_000)  # imports create many objects and no garbage
    model = RunToTranslate(run, loading | {"shortlist": shortlist or None}, decoding)
    source = TextSource(text, input_, source_features)
    if "file" in files:
        options.refuse(source.given | {"scores": scores, "ray": ray, "workers": workers, **returned}, "with --file")
        options.refuse({"split": split, "format": format_ if format_ != "text" else None}, "with --file")
        translate_file_command(model, files, output, languages=languages, control=control, language=language)
        return
    options.refuse(files, "without --file")
    if split is None:
        options.refuse({"language": language}, "without --split")
    form = build_format(format_, scores=scores, n_best=returned.get("n_best", 1))
    stream_options = {"split": split, "language": language, **languages}
    if ray:
        context = control.get("context") if control.get("context") != "none" else None
        refused = {"source_features": source_features, "constraints": control.get("constraints"), "context": context}
        options.refuse(refused, "with --ray")
        translate_text_with_ray(model, source, output, form, workers=workers, **stream_options, **read_control(control))
    else:
        options.refuse({"workers": workers}, "without --ray")
        translate_text(model, source, output, form, **stream_options, **read_control(control))
