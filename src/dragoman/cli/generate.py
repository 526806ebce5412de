"""`dragoman generate`: what a language model writes after prompts."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import (
    BatchTokens,
    ComputeName,
    ComputeOption,
    Device,
    FormatOption,
    LengthPenalty,
    NormalisationName,
    OutputFile,
    TextFormat,
    given,
    ranking_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.decoding import SamplingSettings, SearchSettings
    from dragoman.inference import Completion, Generator

Model = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]
PromptText = Annotated[
    str | None, typer.Option("--prompt", "-p", help="Text to continue; without it the model begins by itself.")
]
Input = Annotated[
    str | None,
    typer.Option("--input", "-i", help="File of prompts, one a line (.gz, .bz2, .xz, .zst too); - is standard input."),
]
Stop = Annotated[
    list[str] | None, typer.Option(help="The text ends before this; may be repeated. A line break is $'\\n'.")
]
Temperature = Annotated[
    float | None, typer.Option(min=0, help="Below 1 is surer, above 1 bolder, 0 the likeliest each time.")
]
TopK = Annotated[int | None, typer.Option(min=1, help="Draw from so many most probable tokens.")]
TopP = Annotated[
    float | None, typer.Option(help="Draw from the fewest most probable tokens whose probabilities reach this sum.")
]
MinP = Annotated[float | None, typer.Option(help="Draw from tokens at least so probable, as a share of the greatest.")]
Typical = Annotated[float | None, typer.Option(help="Draw from the most typical tokens that have this probability.")]
RepetitionPenalty = Annotated[float | None, typer.Option(help="Above 1, what was said becomes less probable.")]
NoRepeat = Annotated[int | None, typer.Option(min=1, help="Never write the same so many tokens in a row twice.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Search with so many hypotheses at a time instead of drawing.")]
Normalisation = Annotated[
    NormalisationName | None, typer.Option(help="How --beam compares lengths.", show_default="average")
]
StreamOption = Annotated[
    bool | None, typer.Option("--stream/--no-stream", help="Print token by token.", show_default="on a terminal")
]


def generate(
    model: Model,
    *,
    prompt: PromptText = None,
    input_: Input = None,
    output: OutputFile = "-",
    tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a text.")] = 256,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    typical: Typical = None,
    repetition_penalty: RepetitionPenalty = None,
    no_repeat_ngram: NoRepeat = None,
    min_length: Annotated[int, typer.Option(min=0, help="Fewest tokens of a text.")] = 0,
    stop: Stop = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed draws the same texts.")] = None,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many texts for each prompt.")] = 1,
    beam: Beam = None,
    normalisation: Normalisation = None,
    length_penalty: LengthPenalty = None,
    echo: Annotated[bool, typer.Option("--echo", help="Print the prompt before its text.")] = False,
    stream: StreamOption = None,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    compute: ComputeOption = ComputeName.AUTO,
    format_: FormatOption = TextFormat.TEXT,
) -> None:
    """Write on from prompts, or answer them: texts drawn from a language model, or searched for with --beam.

    Texts are printed one after another, and may hold line breaks where the model writes them; --format jsonl keeps them
    apart.
    """
    drawing = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "typical": typical,
        "repetition_penalty": repetition_penalty,
        "no_repeat_ngram": no_repeat_ngram,
        "seed": seed,
    }
    searching = {"normalisation": normalisation, "length_penalty": length_penalty}
    settings = _settings(drawing, searching, beam=beam, best=n, minimum_length=min_length)
    _refuse_without_effect(prompt, input_, echo=echo, format_=format_)
    streamed = _is_streamed(stream, single=input_ is None and n == 1 and beam is None, output=output, format_=format_)

    from dragoman.cli import streams
    from dragoman.cli.loading import load_as
    from dragoman.data.readers import Repairs
    from dragoman.decoding import SamplingSettings
    from dragoman.inference import Generator

    generator = load_as(Generator, model, device=device, compute=compute, batch_tokens=batch_tokens)
    given = prompt or ""
    if streamed and isinstance(settings, SamplingSettings):
        _print_pieces(generator, given, settings, tokens=tokens, stop=stop or [], echo=echo)
        return
    repairs = Repairs()
    prompts = iter([given]) if input_ is None else streams.read_lines(input_, repairs)
    samples = n if beam is None else 1
    found = generator.completions_of_many(prompts, settings, samples=samples, tokens=tokens, stop=stop or [])
    lines = _json_lines(found) if format_ is TextFormat.JSONL else _text_lines(found, echo=echo)
    with closing(streams.counted(lines, "prompts", out=output)) as counted, streams.output(output) as stream_out:
        for line in counted:
            stream_out.write(line + "\n")
    streams.report_repairs(repairs)


def _settings(
    drawing: dict[str, Any], searching: dict[str, Any], *, beam: int | None, best: int, minimum_length: int
) -> SamplingSettings | SearchSettings:
    """What was asked for; raises ConfigError on options of a search without one, and of chance beside one."""
    from dragoman.config import parse
    from dragoman.decoding import SamplingSettings, SearchSettings
    from dragoman.errors import ConfigError

    drawing, searching = given(**drawing), given(**searching)
    if beam is None:
        if searching:
            raise ConfigError(f"{_option(next(iter(searching)))} has no effect without --beam; leave it out")
        if drawing.get("temperature") == 0 and "seed" in drawing:
            raise ConfigError("--seed has no effect with --temperature 0, which leaves nothing to chance; leave it out")
        return parse(SamplingSettings, drawing | {"minimum_length": minimum_length}, where="generate")
    if drawing:
        raise ConfigError(
            f"{_option(next(iter(drawing)))} has no effect with --beam, which draws nothing; leave it out"
        )
    ranking = ranking_of(searching.get("normalisation"), searching.get("length_penalty"))
    asked = {
        "beam": beam,
        "best": best,
        "normalisation": {"kind": "average"} | ranking,
        "minimum_length": minimum_length,
    }
    return parse(SearchSettings, asked | {"allow_unknown": False}, where="generate")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _refuse_without_effect(prompt: str | None, input_: str | None, *, echo: bool, format_: TextFormat) -> None:
    from dragoman.errors import ConfigError

    if prompt is not None and input_ is not None:
        raise ConfigError("--prompt and --input: prompts come from one of them; leave the other out")
    if echo and format_ is TextFormat.JSONL:
        raise ConfigError("--echo has no effect with --format jsonl, which holds the prompts; leave --echo out")


def _is_streamed(wanted: bool | None, *, single: bool, output: str, format_: TextFormat) -> bool:
    """Whether to print token by token: where it is asked for, or a person watches a single text come to be."""
    from dragoman.cli import streams
    from dragoman.errors import ConfigError

    possible = single and output == streams.STANDARD and format_ is TextFormat.TEXT
    if wanted and not possible:
        raise ConfigError("--stream prints a single text, drawn, as plain text to standard output; leave it out")
    return possible and sys.stdout.isatty() if wanted is None else wanted


def _print_pieces(
    generator: Generator, prompt: str, settings: SamplingSettings, *, tokens: int, stop: list[str], echo: bool
) -> None:
    from dragoman.cli import streams

    pieces = generator.stream(prompt, settings, tokens=tokens, stop=stop)
    with streams.output(streams.STANDARD) as stream:
        stream.write(generator.tokenizer.source.normalise(prompt) if echo else "")
        for piece in pieces:
            stream.write(piece)
            stream.flush()
        stream.write("\n")


def _text_lines(found: Iterator[list[Completion]], *, echo: bool) -> Iterator[str]:
    for completions in found:
        for one in completions:
            yield f"{one.prompt}{one.text}" if echo else one.text


def _json_lines(found: Iterator[list[Completion]]) -> Iterator[str]:
    import json

    for number, completions in enumerate(found, start=1):
        row = {"line": number, "prompt": completions[0].prompt, "completions": [_json_tree(one) for one in completions]}
        yield json.dumps(row, ensure_ascii=False)


def _json_tree(completion: Completion) -> dict[str, Any]:
    hypothesis = completion.hypothesis
    return {
        "text": completion.text,
        "ending": completion.ending,
        "score": hypothesis.score,
        "log_prob": hypothesis.log_prob,
        "tokens": list(completion.tokens),
        "token_log_probs": list(hypothesis.token_log_probs),
    }
