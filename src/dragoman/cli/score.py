"""`dragoman score`: log-probabilities of given translations, or perplexity."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dragoman.cli import messages, options, text_io
from dragoman.cli.load_run import load_as
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.decoding.config import DecodingConfig, replace_options
from dragoman.errors import ConfigError, DataError
from dragoman.number_words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.decoding import Hypothesis
    from dragoman.inference import Perplexity

PerplexityFlag = Annotated[
    bool, typer.Option("--perplexity", help="Print the perplexity of a language model on the target, given the source.")
]
Documents = Literal["file", "blank_line", "line"]
Overlap = Annotated[int | None, typer.Option(min=0, help="Tokens shared by consecutive windows.", show_default="0")]


@options.shared_options(options.LOADING, into="loading")
@options.config_options(DecodingConfig, ("length_penalty", "length_penalty_kind"), into="ranking")
def score(
    run: options.RunArgument,
    *,
    source: Annotated[Path | None, typer.Option(help="File of source segments, one per line, also compressed.")] = None,
    target: Annotated[Path, typer.Option(help="File of translations, one per line; with --perplexity, a text file.")],
    source_features: options.SourceFeaturesOption = None,
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
        useless = ranking | {"ensemble": loading.get("ensemble"), "source_features": source_features}
        options.refuse(useless, "with --perplexity, which uses a language model")
        if source is not None:
            options.refuse({"documents": documents}, "with --source, whose lines belong to the lines of --target")
        generator = load_as(Generator, run, **loading)
        texts, prompts = _texts_and_prompts(source, target, documents or "file", warnings)
        found = generator.perplexity(texts, prompts=prompts, overlap=overlap or 0)
        lines = iter([_perplexity_line(found, format_)])
    else:
        options.refuse({"documents": documents, "overlap": overlap}, "without --perplexity")
        if source is None:
            raise ConfigError("--source is missing, and translations are scored given their sources. Give --source.")
        translator = load_as(Translator, run, **loading)
        pairs, features = text_io.with_source_features(
            _read_pairs(source, target, warnings), source_features, text_of=lambda pair: pair[0], name=str(source)
        )
        config = replace_options(translator.config, ranking, where="score")
        lines = _score_lines(
            translator.score_stream(pairs, penalty=config.penalty, source_features=features), totals, format_
        )
    text_io.write_lines(lines, output, warnings)
    if not perplexity:
        messages.say(_describe_totals(**totals))


def _read_pairs(source: Path, target: Path, warnings: ReadWarnings) -> Iterator[tuple[str, str]]:
    """Read the pairs as they are needed. Raises DataError before the first pair if the files do not fit each other."""
    from dragoman.data.readers.parallel import ParallelFiles, read_corpus

    files = ParallelFiles(source=source, target=target)
    if source.is_file() and target.is_file():  # not for streams, which can be read only once
        for _ in read_corpus(files, ReadWarnings()):
            pass
    return ((example.source, example.target) for example in read_corpus(files, warnings))


def _texts_and_prompts(
    source: Path | None, target: Path, documents: Documents, warnings: ReadWarnings
) -> tuple[list[str], list[str] | None]:
    """Return documents, or continuations with their prompts."""
    from dragoman.data.readers.plain_text import TextFile, read_texts

    prompts, texts = None, list[str]()
    if source is not None:
        pairs = list(_read_pairs(source, target, warnings))
        prompts, texts = [prompt for prompt, _ in pairs], [text for _, text in pairs]
    else:
        for passage in read_texts(TextFile(path=target, documents=documents), warnings):
            if passage.is_first:
                texts.append("")
            texts[-1] += passage.text
    if not texts:
        raise DataError(f"{target}: contains no text to measure perplexity on. Give another file.")
    return texts, prompts


def _perplexity_line(found: Perplexity, format_: options.TextFormat) -> str:
    if format_ == "jsonl":
        names = ("perplexity", "nats_per_token", "bits_per_byte", "tokens", "bytes")
        numbers = {name: getattr(found, name) for name in names}
        return json.dumps({name: number if math.isfinite(number) else None for name, number in numbers.items()})
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
            row = {"line": number, "log_prob": one.log_prob, "score": one.score, "tokens": one.length}
            yield json.dumps(row | {"token_log_probs": list(one.token_log_probs)})
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
