"""`dragoman generate`: generate text with a language model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import options, text_io
from dragoman.cli.load_run import load_as
from dragoman.config import parse
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.decoding.config import MAX_BEAM_SIZE, DecodingConfig, SamplingConfig, replace_options
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.inference import Completion, Generator

PromptFile = Annotated[
    str | None, typer.Option("--input", "-i", help="File of prompts, one per line; - is standard input.")
]
Stop = Annotated[list[str] | None, typer.Option(help="Stop string; the text ends before it (repeatable).")]
ChatFlag = Annotated[bool, typer.Option("--chat", help="Answer each prompt by the chat template of the model.")]
System = Annotated[str | None, typer.Option(help="System message that precedes the message of a chat.")]
StreamFlag = Annotated[bool | None, typer.Option(help="Print tokens as they come.", show_default="on a terminal")]
FILTERS = ("top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "no_repeat_ngram_size")
SEARCH = ("beam_size", "length_penalty", "length_penalty_kind")


@options.shared_options(("device", "compute_type", "batch_tokens"), into="loading")
@options.config_options(SamplingConfig, ("temperature", *FILTERS, "min_length", "seed"), into="sampling")
@options.config_options(DecodingConfig, SEARCH, into="search", default="no search")
def generate(
    run: options.RunArgument,
    *,
    prompt: Annotated[str | None, typer.Option("--prompt", "-p", help="Text to continue; by default empty.")] = None,
    input_: PromptFile = None,
    output: options.OutputFile = "-",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of generated tokens.")] = 256,
    sampling: dict[str, Any],
    search: dict[str, Any],
    stop: Stop = None,
    chat: ChatFlag = False,
    system: System = None,
    n_best: Annotated[int, typer.Option(min=1, max=MAX_BEAM_SIZE, help="Texts per prompt.")] = 1,
    echo: Annotated[bool, typer.Option("--echo", help="Print the prompt before the generated text.")] = False,
    stream: StreamFlag = None,
    loading: dict[str, Any],
    format_: options.FormatOption = "text",
) -> None:
    """Generate text from prompts with a language model.

    Sample, or search with --beam-size. A generated text may contain line breaks; --format jsonl keeps texts apart.
    """
    from dragoman.inference import Generator

    searched = _search_config(sampling, search, n_best)
    if not chat:
        options.refuse({"system": system}, "without --chat")
    if input_ is not None:
        options.refuse({"prompt": prompt}, "with --input, which contains the prompts")
    if format_ == "jsonl":
        options.refuse({"echo": echo}, "with --format jsonl, which contains the prompts")
    is_single = input_ is None and n_best == 1 and searched is None
    is_streamed = _is_streamed(stream, is_single=is_single, output=output, format_=format_)
    generator = load_as(Generator, run, **loading)
    limits: dict[str, Any] = {"max_new_tokens": max_new_tokens, "stop": stop or []}
    if chat:
        limits["stop"] = [*generator.chat_stop, *limits["stop"]]
    warnings = ReadWarnings()
    prompts = iter([prompt or ""]) if input_ is None else text_io.read_input(input_, warnings)
    prompts = (_chat_prompt(generator, one, system) for one in prompts) if chat else prompts
    config = searched or replace_options(generator.config, sampling, where="generate")
    if is_streamed and isinstance(config, SamplingConfig):
        _print_pieces(generator, next(iter(prompts)), config, echo=echo, **limits)
        return
    if text_io.is_typed(input_):
        limits["chunk"] = 1
    num_samples = n_best if isinstance(config, SamplingConfig) else 1
    found = generator.generate_stream(prompts, config, num_samples=num_samples, **limits)
    texts = ("\n".join(f"{one.prompt if echo else ''}{one.text}" for one in completions) for completions in found)
    lines = text_io.json_records(map(_record, found)) if format_ == "jsonl" else texts
    text_io.write_lines(lines, output, warnings, unit="prompts")


def _chat_prompt(generator: Generator, text: str, system: str | None) -> str:
    """Return the prompt for the answer to a message."""
    from dragoman.inference import Message

    first = [] if system is None else [Message("system", system)]
    return generator.chat_prompt([*first, Message("user", text)])


def _search_config(sampling: dict[str, Any], search: dict[str, Any], n_best: int) -> DecodingConfig | None:
    """Return the configuration of a search, or None for sampling. Raises ConfigError on options without effect."""
    if "beam_size" in search:
        shared = {"min_length": sampling.pop("min_length", 0), "n_best": n_best, "allow_unk": False}
        options.refuse(sampling, "with --beam-size, which searches")
        return parse(DecodingConfig, search | shared, where="generate")
    options.refuse(search, "without --beam-size")
    if sampling.get("temperature") == 0:
        options.refuse({"seed": sampling.get("seed")}, "with --temperature 0, which is deterministic")
    return None


def _is_streamed(wanted: bool | None, *, is_single: bool, output: str, format_: options.TextFormat) -> bool:
    """Return whether to print tokens as they are generated: on request, or for one text on a terminal."""
    is_possible = is_single and output == text_io.STANDARD and format_ == "text"
    if wanted and not is_possible:
        raise ConfigError("--stream prints a single sampled text as plain text to standard output. Leave it out.")
    return is_possible and sys.stdout.isatty() if wanted is None else wanted


def _print_pieces(generator: Generator, prompt: str, config: SamplingConfig, *, echo: bool, **limits: Any) -> None:
    with text_io.open_output(text_io.STANDARD) as stream:
        stream.write(generator.tokenizer.source.normalize(prompt) if echo else "")
        for piece in generator.stream_text(prompt, config, **limits):
            stream.write(piece)
            stream.flush()
        stream.write("\n")


def _record(completions: list[Completion]) -> dict[str, Any]:
    return {"prompt": completions[0].prompt, "completions": [one.to_dict() for one in completions]}
