"""`dragoman backtranslate`: back-translated training data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dragoman.cli import messages, text_io
from dragoman.cli.load_run import load_as
from dragoman.cli.options import LANGUAGES, OutputDir, config_options, refuse, shared_options
from dragoman.cli.verb_command import Outcome
from dragoman.config import parse
from dragoman.decoding.config import DecodingConfig, SamplingConfig, replace_options
from dragoman.number_words import counted

if TYPE_CHECKING:
    from dragoman.runs.distill_and_backtranslate import Rewriter


@shared_options(("device", "batch_tokens", "ensemble"), into="loading")
@config_options(DecodingConfig, ("beam_size",), into="search")
@config_options(SamplingConfig, ("temperature", "seed"), into="sampling", default=None)
@shared_options(LANGUAGES, into="languages")
def backtranslate(
    run: Annotated[Path, typer.Argument(help="Run folder of the opposite direction, from target to source.")],
    *,
    monolingual: Annotated[str, typer.Option(help="File of target text, one segment per line; - is standard input.")],
    output_dir: OutputDir,
    method: Annotated[Literal["beam", "sampling"], typer.Option(help="Sampling is more diverse.")] = "beam",
    search: dict[str, Any],
    sampling: dict[str, Any],
    languages: dict[str, str],
    tag: Annotated[str, typer.Option(help="Tag before every source; '' for none.")] = "<bt>",
    loading: dict[str, Any],
) -> Outcome:
    """Translate monolingual target text back into the source language, as training data.

    Back-translation (Sennrich et al., 2016); each source starts with a tag (Caswell et al., 2019). Train on the pairs
    together with a parallel corpus.
    """
    from dragoman.runs.distill_and_backtranslate import SOURCE, TARGET, describe_origin, write_backtranslated

    useless = sampling if method == "beam" else search | {"ensemble": loading.get("ensemble")}
    refuse(useless, f"with --method {method}")
    build, settings = (_beam_search, search) if method == "beam" else (_sampling, sampling)
    rewrite, how = build(run, settings, languages, loading)
    origin = describe_origin(run, *loading.get("ensemble", ()), method=method, **how, **languages)
    with text_io.read_with_progress(monolingual, output=output_dir) as texts:
        written = write_backtranslated(output_dir, texts, rewrite, tag=tag, origin=origin)
    text = (
        f"{output_dir}: {counted(written.pairs, 'pairs')}; left out {counted(written.left_out, 'texts')}. Name them "
        f"under "
        f"data.extra_corpora: {{corpus: {{kind: files, source: {output_dir / SOURCE}, target: {output_dir / TARGET}}}}}"
    )
    return Outcome(lambda: {"path": str(output_dir), **asdict(written)}, lambda: messages.say(text))


def _beam_search(
    run: Path, search: dict[str, Any], languages: dict[str, Any], loading: dict[str, Any]
) -> tuple[Rewriter, dict[str, Any]]:
    from dragoman.inference import Translator
    from dragoman.runs.distill_and_backtranslate import beam_search_rewriter

    translator = load_as(Translator, run, **loading)
    config = replace_options(translator.config, search, where="backtranslate")
    return beam_search_rewriter(translator, config, **languages), {"beam_size": config.beam_size}


def _sampling(
    run: Path, sampling: dict[str, Any], languages: dict[str, Any], loading: dict[str, Any]
) -> tuple[Rewriter, dict[str, Any]]:
    from dragoman.inference import Translator
    from dragoman.inference.sample_translations import sample_translations

    values = {"temperature": 1.0, "seed": 0} | sampling
    config = parse(SamplingConfig, values, where="backtranslate")
    translator = load_as(Translator, run, torch_only=True, **loading)
    return lambda texts: sample_translations(translator, texts, config, **languages), values
