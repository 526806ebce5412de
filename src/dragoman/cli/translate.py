"""`dragoman translate`: translate text with a trained model."""

from __future__ import annotations

import gc
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dragoman.cli import options, text_io
from dragoman.cli.control_options import read_control
from dragoman.cli.load_run import load_as
from dragoman.cli.translate_file import FileModel, translate_file_command
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.decoding.config import DecodingConfig, replace_options

if TYPE_CHECKING:
    from dragoman.inference.translation_result import TranslationResult

UseRay = Annotated[bool, typer.Option("--ray", help="Translate with Ray, here or on the cluster at RAY_ADDRESS.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Workers of --ray. Default: one per core.")]
Scores = Annotated[bool, typer.Option("--scores", help="Print score and log-probability before each translation.")]
Language = Annotated[str | None, typer.Option(help="Language code of the source, for --split.", show_default="en")]
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
    from dragoman.inference.text_segmentation import build_splitter
    from dragoman.inference.translator import STREAM_CHUNK, Translator

    if "file" in files:
        others = {"text": text, "input": input_ if input_ != "-" else None, "source_features": source_features}
        options.refuse(others | {"scores": scores, "ray": ray, "workers": workers, **returned}, "with --file")
        options.refuse({"split": split, "format": format_ if format_ != "text" else None}, "with --file")
        model = FileModel(run, loading | {"shortlist": shortlist or None}, decoding)
        translate_file_command(model, files, output, languages=languages, control=control, language=language)
        return
    options.refuse(files, "without --file")
    if split is None:
        options.refuse({"language": language}, "without --split")
    if ray:
        options.refuse({"source_features": source_features, "constraints": control.get("constraints")}, "with --ray")
    else:
        options.refuse({"workers": workers}, "without --ray")
    n_best = returned.get("n_best", 1)
    format_line = build_format(format_, scores=scores, n_best=n_best)
    build_splitter(split, language)  # so that an error comes before the model is loaded
    loading |= {"shortlist": shortlist or None}
    translator = load_as(Translator, run, **loading)
    config = replace_options(translator.config, {**decoding, "n_best": n_best}, where="translate")
    warnings = ReadWarnings()
    texts, features = text_io.with_source_features(
        text_io.read_given(text, input_, warnings), source_features, text_of=str, name=input_
    )
    stream_options: dict[str, Any] = {"split": split, "language": language, **languages, **read_control(control)}
    if ray:
        from dragoman.runs.translate_with_ray import RayTranslation, translate_with_ray

        del translator  # the workers load their own
        job = RayTranslation(run, options.given(**loading), config, stream_options, format_line)
        lines = translate_with_ray(texts, job, workers=workers)
    else:
        chunk = 1 if not text and text_io.is_typed(input_) else STREAM_CHUNK
        found = translator.translate_stream(texts, config, chunk=chunk, source_features=features, **stream_options)
        lines = itertools.starmap(format_line, enumerate(found))
    text_io.write_lines(lines, output, warnings, total=len(text) if text else text_io.count_lines(input_))


def build_format(format_: Literal["text", "jsonl"], *, scores: bool, n_best: int) -> LineFormat:
    """Return the format of the output. Raises ConfigError if --scores has no effect."""
    if format_ == "jsonl":
        options.refuse({"scores": scores}, "with --format jsonl, which contains the scores")
    if n_best > 1:
        options.refuse({"scores": scores}, "with --n-best, which prints the scores")
    return LineFormat(is_json=format_ == "jsonl", scores=scores, n_best=n_best)


@dataclass(frozen=True)
class LineFormat:
    """Output of a line: a JSON object, the best translation, or one line for each hypothesis."""

    is_json: bool
    scores: bool
    n_best: int

    def __call__(self, number: int, translations: TranslationResult) -> str:
        """Return the output of the line with this number, from 0."""
        if self.is_json:
            return text_io.json_record(number + 1, translations.to_dict())
        rows = []
        for one in translations:
            text = text_io.one_line(one.text)  # output lines stay aligned with input lines
            if self.n_best > 1:
                rows.append(f"{number} ||| {text} ||| log_prob= {one.log_prob:z.6f} ||| {one.score:z.6f}")
            else:
                rows.append(f"{one.score:z.6f}\t{one.log_prob:z.6f}\t{text}" if self.scores else text)
        return "\n".join(rows)
