"""`dragoman generate`: generate text with a language model."""

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
    OutputFile,
    TextFormat,
    config_options,
)
from dragoman.decoding.config import DecodingConfig, SamplingConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.inference import Completion, Generator

Model = Annotated[Path, typer.Argument(help="Run folder or exported model.", show_default=False)]
PromptText = Annotated[
    str | None,
    typer.Option("--prompt", "-p", help="Text to continue. Without it, generation starts from the begin symbol."),
]
Input = Annotated[
    str | None,
    typer.Option(
        "--input", "-i", help="File of prompts, one per line (also .gz, .bz2, .xz, .zst); - is standard input."
    ),
]
Stop = Annotated[
    list[str] | None, typer.Option(help="Stop string; the text ends before it (repeatable). A line break is $'\\n'.")
]
StreamOption = Annotated[
    bool | None,
    typer.Option("--stream/--no-stream", help="Print tokens as they are generated.", show_default="on a terminal"),
]


SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "seed",
)


@config_options(SamplingConfig, SAMPLING, into="sampling", default=None)
@config_options(
    DecodingConfig, ("beam_size", "length_penalty", "length_penalty_kind"), into="searching", default="no search"
)
def generate(
    model: Model,
    *,
    prompt: PromptText = None,
    input_: Input = None,
    output: OutputFile = "-",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of generated tokens.")] = 256,
    sampling: dict[str, Any],
    searching: dict[str, Any],
    min_length: Annotated[int, typer.Option(min=0, help="Minimum number of generated tokens.")] = 0,
    stop: Stop = None,
    n_best: Annotated[int, typer.Option(min=1, help="Texts per prompt.")] = 1,
    echo: Annotated[bool, typer.Option("--echo", help="Print the prompt before the generated text.")] = False,
    stream: StreamOption = None,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    compute: ComputeOption = ComputeName.AUTO,
    format_: FormatOption = TextFormat.TEXT,
) -> None:
    """Generate text from prompts with a language model.

    Sample, or search with --beam-size. A generated text may contain line breaks; --format jsonl keeps texts apart.
    """
    settings = _settings(sampling, searching, n_best=n_best, min_length=min_length)
    has_search = isinstance(settings, DecodingConfig)
    _refuse_without_effect(prompt, input_, echo=echo, format_=format_)
    streamed = _is_streamed(
        stream, single=input_ is None and n_best == 1 and not has_search, output=output, format_=format_
    )

    from dragoman.cli import streams
    from dragoman.cli.loading import load_as
    from dragoman.data.readers.text_lines import ReadWarnings
    from dragoman.decoding import SamplingConfig
    from dragoman.inference import Generator

    generator = load_as(Generator, model, device=device, compute=compute, batch_tokens=batch_tokens)
    given = prompt or ""
    if streamed and isinstance(settings, SamplingConfig):
        _print_pieces(generator, given, settings, max_new_tokens=max_new_tokens, stop=stop or [], echo=echo)
        return
    repairs = ReadWarnings()
    prompts = iter([given]) if input_ is None else streams.read_lines(input_, repairs)
    samples = 1 if has_search else n_best
    found = generator.generate_stream(
        prompts, settings, num_samples=samples, max_new_tokens=max_new_tokens, stop=stop or []
    )
    lines = _json_lines(found) if format_ is TextFormat.JSONL else _text_lines(found, echo=echo)
    with closing(streams.counted(lines, "prompts", out=output)) as counted, streams.output(output) as stream_out:
        for line in counted:
            stream_out.write(line + "\n")
    streams.report_repairs(repairs)


def _settings(
    sampling: dict[str, Any], searching: dict[str, Any], *, n_best: int, min_length: int
) -> SamplingConfig | DecodingConfig:
    """Return the sampling or search configuration of the options. Raises ConfigError on options without effect."""
    from dragoman.config import parse
    from dragoman.errors import ConfigError

    if "beam_size" not in searching:
        if searching:
            raise ConfigError(f"{_option(next(iter(searching)))} has no effect without --beam-size; leave it out")
        if sampling.get("temperature") == 0 and "seed" in sampling:
            raise ConfigError("--seed has no effect with --temperature 0, which is deterministic; leave it out")
        return parse(SamplingConfig, sampling | {"min_length": min_length}, where="generate")
    if sampling:
        raise ConfigError(
            f"{_option(next(iter(sampling)))} has no effect with --beam-size, which searches; leave it out"
        )
    asked = {**searching, "n_best": n_best, "min_length": min_length, "allow_unk": False}
    return parse(DecodingConfig, asked, where="generate")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _refuse_without_effect(prompt: str | None, input_: str | None, *, echo: bool, format_: TextFormat) -> None:
    from dragoman.errors import ConfigError

    if prompt is not None and input_ is not None:
        raise ConfigError("--prompt and --input: prompts come from one of them; leave the other out")
    if echo and format_ is TextFormat.JSONL:
        raise ConfigError("--echo has no effect with --format jsonl, which holds the prompts; leave --echo out")


def _is_streamed(wanted: bool | None, *, single: bool, output: str, format_: TextFormat) -> bool:
    """Return whether to print tokens as they are generated: on request, or for one text on a terminal."""
    from dragoman.cli import streams
    from dragoman.errors import ConfigError

    possible = single and output == streams.STANDARD and format_ is TextFormat.TEXT
    if wanted and not possible:
        raise ConfigError("--stream prints a single text, drawn, as plain text to standard output; leave it out")
    return possible and sys.stdout.isatty() if wanted is None else wanted


def _print_pieces(
    generator: Generator, prompt: str, settings: SamplingConfig, *, max_new_tokens: int, stop: list[str], echo: bool
) -> None:
    from dragoman.cli import streams

    pieces = generator.stream_text(prompt, settings, max_new_tokens=max_new_tokens, stop=stop)
    with streams.output(streams.STANDARD) as stream:
        stream.write(generator.tokenizer.source.normalize(prompt) if echo else "")
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
        "finish_reason": completion.finish_reason,
        "score": hypothesis.score,
        "log_prob": hypothesis.log_prob,
        "tokens": list(completion.tokens),
        "token_log_probs": list(hypothesis.token_log_probs),
    }
