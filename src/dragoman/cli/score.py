"""`dragoman score`: log-probabilities of given translations, or perplexity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dragoman.cli import messages, options, text_io
from dragoman.cli.load_run import load_as, warn_of_exchanged_sides
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.decoding.config import DecodingConfig, replace_options
from dragoman.errors import ConfigError, DataError
from dragoman.number_words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dragoman.decoding import Hypothesis
    from dragoman.inference import Perplexity

PerplexityFlag = Annotated[
    bool, typer.Option("--perplexity", help="Print the perplexity of a language model on the target, given the source.")
]
SIDES = ("source", "target")
"""Parameters for sources and translations in two files."""
Documents = Literal["file", "blank_line", "line"]
Overlap = Annotated[int | None, typer.Option(min=0, help="Tokens shared by consecutive windows.", show_default="0")]


@options.shared_options(options.LOADING, into="loading")
@options.config_options(DecodingConfig, ("length_penalty", "length_penalty_kind"), into="ranking")
@options.shared_options(options.LANGUAGES, into="languages")
def score(
    run: options.RunArgument,
    *,
    source: Annotated[Path | None, typer.Option(help="File of source segments, one per line, also compressed.")] = None,
    target: Annotated[
        Path | None, typer.Option(help="File of translations, one per line; with --perplexity, a text file.")
    ] = None,
    pairs: options.PairsOption = None,
    source_features: options.SourceFeaturesOption = None,
    languages: dict[str, Any],
    perplexity: PerplexityFlag = False,
    documents: Annotated[Documents | None, typer.Option(help="Separator of documents.", show_default="file")] = None,
    overlap: Overlap = None,
    output: options.OutputFile = "-",
    ranking: dict[str, Any],
    loading: dict[str, Any],
    format_: options.FormatOption = "text",
) -> None:
    """Print the log-probability of given translations, or the perplexity of a text.

    Each line has the natural log-probability, end symbol included, and the score that `dragoman translate` ranks by,
    separated by a tab. Totals go to standard error. --perplexity evaluates a language model and prints one line.
    """
    from dragoman.inference import Generator, Translator

    warnings, totals = ReadWarnings(), {"lines": 0, "tokens": 0, "log_prob": 0.0}
    if perplexity:
        useless = ranking | languages | {"ensemble": loading.get("ensemble"), "source_features": source_features}
        options.refuse(useless, "with --perplexity, which uses a language model")
        if source is not None or pairs is not None:
            options.refuse(
                {"documents": documents},
                f"with {'--pairs' if source is None else '--source'}, where each line is a text",
            )
        read = _texts_and_prompts(source, target, pairs, documents or "file", warnings)
        generator = load_as(Generator, run, **loading)
        texts, prompts = read()
        measured = generator.perplexity(texts, prompts=prompts, overlap=overlap or 0)
        lines = iter([_perplexity_line(measured, format_)])
    else:
        options.refuse({"documents": documents, "overlap": overlap}, "without --perplexity")
        given = text_io.stream_pairs(source, target, pairs, warnings, sides=SIDES)
        if source is not None and target is not None:
            warn_of_exchanged_sides(run, source, target)
        translator = load_as(Translator, run, **loading)
        scored, features = text_io.with_source_features(
            given, source_features, text_of=lambda pair: pair[0], name=str(source or pairs)
        )
        config = replace_options(translator.config, ranking, where="score")
        found = translator.score_stream(scored, penalty=config.penalty, source_features=features, **languages)
        lines = _score_lines(found, totals, format_)
    text_io.write_lines(lines, output, warnings)
    if not perplexity:
        messages.say(_describe_totals(**totals))


def _texts_and_prompts(
    source: Path | None, target: Path | None, pairs: str | None, documents: Documents, warnings: ReadWarnings
) -> Callable[[], tuple[list[str], list[str] | None]]:
    """Return the function that reads documents, or continuations with their prompts. Raises ConfigError without any."""
    if source is not None or pairs is not None:
        given = text_io.stream_pairs(source, target, pairs, warnings, sides=SIDES)
        return lambda: _continuations(given)
    if target is None:
        raise ConfigError("--target is missing. Give --target FILE with the text to measure perplexity on.")
    return lambda: (_read_documents(target, documents, warnings), None)


def _continuations(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Return continuations and their prompts."""
    found = list(pairs)
    return [text for _, text in found], [prompt for prompt, _ in found]


def _read_documents(target: Path, documents: Documents, warnings: ReadWarnings) -> list[str]:
    from dragoman.data.readers.plain_text import TextFile, read_texts
    from dragoman.data.readers.recognize_format import corpus_notes

    corpus, texts = TextFile(path=target, documents=documents), list[str]()
    for note in corpus_notes(corpus) if target.is_file() else ():  # a stream can be read only once
        messages.say(f"note: {note}")
    for passage in read_texts(corpus, warnings):
        if passage.is_first:
            texts.append("")
        texts[-1] += passage.text
    if not texts:
        raise DataError(f"{target}: contains no text to measure perplexity on. Give another file.")
    return texts


def _perplexity_line(found: Perplexity, format_: options.TextFormat) -> str:
    if format_ == "jsonl":
        return json.dumps(found.to_dict())
    return (
        f"perplexity {found.perplexity:,.4f}: {found.nats_per_token:z.4f} nats per token, {found.bits_per_byte:z.4f} "
        f"bits per byte, {counted(found.tokens, 'tokens with end symbols', 'token with end symbols')}"
    )


def _score_lines(scored: Iterator[Hypothesis], totals: dict[str, float], format_: options.TextFormat) -> Iterator[str]:
    for number, one in enumerate(scored, start=1):
        totals["lines"] += 1
        totals["tokens"] += one.length
        totals["log_prob"] += one.log_prob
        if format_ == "jsonl":
            yield json.dumps({"line": number, **one.to_dict()})
        else:
            yield f"{one.log_prob:z.6f}\t{one.score:z.6f}"


def _describe_totals(lines: float, tokens: float, log_prob: float) -> str:
    """Describe the totals over all targets; end symbols count as tokens."""
    from dragoman.evaluation import perplexity

    if not tokens:
        return "0 lines"
    mean = log_prob / tokens
    return (
        f"{counted(lines, 'lines')}, {counted(tokens, 'tokens with end symbols', 'token with end symbols')}: "
        f"log-probability {log_prob:z,.3f}, {mean:z.4f} per token, "
        f"perplexity {perplexity(-mean):,.4f}"
    )
