"""`dragoman translate`: texts, one a line, through a trained run."""

from __future__ import annotations

import sys
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import (
    OWN,
    BatchTokens,
    Beam,
    Beside,
    ChoiceOption,
    ComputeName,
    ComputeOption,
    Device,
    FormatOption,
    LengthPenalty,
    NormalisationOption,
    OutputFile,
    SourceTrees,
    TextFormat,
    choice_of,
    given,
    ranking_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.inference import Translation
    from dragoman.inference.sentence_splitting import Split

ENDS_OF_LINES = {ord("\n"): " ", ord("\r"): " "}


class SplitName(StrEnum):
    """What lines are cut into."""

    SENTENCES = "sentences"


Model = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]
Input = Annotated[
    str,
    typer.Option("--input", "-i", help="File of texts, one a line (.gz, .bz2, .xz, .zst too); - is standard input."),
]
Scores = Annotated[
    bool, typer.Option("--scores", help="Print the score and the log-probability before each text, between tabs.")
]
MinimumLength = Annotated[int | None, typer.Option(min=0, help="Fewest tokens of an output.", show_default=OWN)]
MaximumLength = Annotated[int | None, typer.Option(min=1, help="Most tokens of an output.", show_default=OWN)]
LengthFactor = Annotated[
    float | None,
    typer.Option(min=0, help="Most tokens of an output for each token of its text, plus 20.", show_default=OWN),
]
AllowUnknown = Annotated[
    bool | None,
    typer.Option(
        "--allow-unknown/--no-allow-unknown", help="Let the unknown symbol stand in an output.", show_default=OWN
    ),
]
SplitOption = Annotated[
    SplitName | None,
    typer.Option(
        "--split", help="Translate each line sentence by sentence, and keep what stands between.", show_default=False
    ),
]
Language = Annotated[
    str | None, typer.Option(help="Code of the language that lines are in, for --split.", show_default="en")
]
ShortlistOption = Annotated[
    bool, typer.Option("--shortlist", help="Choose among the words that the model's shortlist has for each text.")
]
DraftOption = Annotated[
    str | None,
    typer.Option(
        help="Guess tokens ahead, for --beam 1: copy (from the text and the output) or a smaller run.",
        show_default=False,
    ),
]


def translate(
    model: Model,
    *,
    beside: Beside = None,
    input_: Input = "-",
    source_trees: SourceTrees = None,
    split: SplitOption = None,
    language: Language = None,
    output: OutputFile = "-",
    beam: Beam = None,
    n_best: Annotated[int, typer.Option(min=1, help="How many translations of each text.")] = 1,
    normalisation: NormalisationOption = None,
    length_penalty: LengthPenalty = None,
    choice: ChoiceOption = None,
    min_length: MinimumLength = None,
    max_length: MaximumLength = None,
    max_length_factor: LengthFactor = None,
    allow_unknown: AllowUnknown = None,
    batch_tokens: BatchTokens = None,
    shortlist: ShortlistOption = False,
    draft: DraftOption = None,
    device: Device = None,
    compute: ComputeOption = ComputeName.AUTO,
    scores: Scores = False,
    format_: FormatOption = TextFormat.TEXT,
) -> None:
    """Translate texts, one a line, in their order; an empty line stays empty.

    What is not said of the search is as the run's configuration has it under decoding.

    As text, --n-best prints several lines a text: its number from 0, the translation, its log-probability and its
    score, between bars as Moses and Marian do. With --split a line has one translation and one score all the same:
    log-probabilities are summed over its sentences.
    """
    from dragoman.cli import streams
    from dragoman.cli.loading import collect_seldom, load_as
    from dragoman.data.readers import Repairs
    from dragoman.errors import ConfigError

    collect_seldom()
    asked = {
        "beam": beam,
        "best": n_best,
        "normalisation": ranking_of(normalisation, length_penalty),
        "choice": choice_of(choice),
        "minimum_length": min_length,
        "maximum_length": given(absolute=max_length, factor=max_length_factor),
        "allow_unknown": allow_unknown,
    }
    _refuse_without_effect(scores=scores, n_best=n_best, format_=format_)

    from dragoman.inference.translator import STREAM_CHUNK, Translator

    translator = load_as(Translator, model, device=device, compute=compute, batch_tokens=batch_tokens, beside=beside)
    settings = translator.searching(where="translate", **asked)
    if draft is not None and settings.beam > 1:
        raise ConfigError(f"--draft guesses ahead in greedy search, and the beam is {settings.beam}; add --beam 1")
    if shortlist or draft is not None:
        from dragoman.runs.folder import RunFolder
        from dragoman.runs.shortlist import quickened

        translator = quickened(translator, RunFolder(model), shortlist=shortlist, draft=draft, device=device)
    repairs = Repairs()
    read = streams.read_lines(input_, repairs)
    texts, trees = streams.with_trees(read, source_trees, of=str, name=input_)
    typed = input_ == streams.STANDARD and sys.stdin.isatty()
    chunk = 1 if typed else STREAM_CHUNK
    cut: Split | None = None if split is None else "sentences"
    translations = translator.stream(texts, settings, chunk=chunk, trees=trees, split=cut, language=language)
    lines = _json_lines(translations) if format_ is TextFormat.JSONL else _text_lines(translations, n_best, scores)
    total = streams.number_of_lines(input_)
    with closing(streams.counted(lines, "lines", out=output, total=total)) as counted, streams.output(output) as stream:
        for line in counted:
            stream.write(line + "\n")
    streams.report_repairs(repairs)


def _refuse_without_effect(*, scores: bool, n_best: int, format_: TextFormat) -> None:
    from dragoman.errors import ConfigError

    if scores and format_ is TextFormat.JSONL:
        raise ConfigError("--scores has no effect with --format jsonl, which holds them always; leave --scores out")
    if scores and n_best > 1:
        raise ConfigError("--scores has no effect with --n-best, which prints them always; leave --scores out")


def _text_lines(found: Iterator[list[Translation]], n_best: int, scores: bool) -> Iterator[str]:
    for number, translations in enumerate(found):
        best = translations[0]
        if n_best > 1:
            yield "\n".join(
                f"{number} ||| {_in_one_line(one.text)} "
                f"||| log_prob= {one.hypothesis.log_prob:.6f} ||| {one.hypothesis.score:.6f}"
                for one in translations
            )
        elif scores:
            yield f"{best.hypothesis.score:.6f}\t{best.hypothesis.log_prob:.6f}\t{_in_one_line(best.text)}"
        else:
            yield _in_one_line(best.text)


def _in_one_line(text: str) -> str:
    """Where white space is kept as it is, a translation may hold the end of a line, and the next would be another's."""
    return text.translate(ENDS_OF_LINES)


def _json_lines(found: Iterator[list[Translation]]) -> Iterator[str]:
    import json

    for number, translations in enumerate(found, start=1):
        row = {"line": number, "translations": [_json_tree(one) for one in translations]}
        yield json.dumps(row, ensure_ascii=False)


def _json_tree(translation: Translation) -> dict[str, Any]:
    hypothesis = translation.hypothesis
    return {
        "text": translation.text,
        "score": hypothesis.score,
        "log_prob": hypothesis.log_prob,
        "finished": hypothesis.finished,
        "tokens": list(translation.tokens),
        "token_log_probs": list(hypothesis.token_log_probs),
    }
