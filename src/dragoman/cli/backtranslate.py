"""`dragoman backtranslate`: back-translated training data."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dragoman.cli import streams
from dragoman.cli.loading import load_as
from dragoman.cli.options import (
    BatchTokens,
    DeviceOption,
    EnsembleOption,
    OutputDir,
    config_options,
    flag,
    refuse,
)
from dragoman.config import parse
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.decoding.config import DecodingConfig, SamplingConfig

if TYPE_CHECKING:
    from dragoman.runs.pseudo_data import Rewriter

Method = Literal["beam", "sampling"]


@config_options(DecodingConfig, ("beam_size",), into="search")
@config_options(SamplingConfig, ("temperature", "seed"), into="sampling", default=None)
def backtranslate(
    run: Annotated[
        Path, typer.Argument(help="Run folder of the opposite direction, from target to source.", show_default=False)
    ],
    *,
    monolingual: Annotated[
        str,
        typer.Option(
            help="File of text in the target language, one segment per line; - is standard input.", show_default=False
        ),
    ],
    output_dir: OutputDir,
    ensemble: EnsembleOption = None,
    method: Annotated[
        Method, typer.Option(help="Beam search, or sampling, which gives more diverse sources.")
    ] = "beam",
    search: dict[str, Any],
    sampling: dict[str, Any],
    tag: Annotated[str, typer.Option(help="Tag before every source; '' for none.")] = "<bt>",
    batch_tokens: BatchTokens = None,
    device: DeviceOption = None,
) -> None:
    """Translate monolingual target text back into the source language, as training data.

    Back-translation (Sennrich et al., 2016); each source starts with a tag (Caswell et al., 2019). Train on the pairs
    together with a parallel corpus.
    """
    from dragoman.runs.pseudo_data import SOURCE, TARGET, describe_origin, write_backtranslated

    useless = sampling if method == "beam" else search | {"ensemble": ensemble}
    refuse({flag(name): value for name, value in useless.items()}, f"with --method {method}")
    options: dict[str, Any] = {"device": device, "batch_tokens": batch_tokens}
    if method == "beam":
        rewrite, how = _beam_search(run, search, ensemble=ensemble, **options)
    else:
        rewrite, how = _sampling(run, sampling, **options)
    warnings = ReadWarnings()
    lines, total = streams.read_input(monolingual, warnings), streams.count_lines(monolingual)
    with closing(streams.with_progress(lines, "lines", output=str(output_dir), total=total)) as texts:
        origin = describe_origin(run, *(ensemble or ()), method=method, **how)
        written = write_backtranslated(output_dir, texts, rewrite, tag=tag, origin=origin)
    streams.report_repairs(warnings)
    streams.say(
        f"{output_dir}: {written.pairs:,} pairs; left out {written.left_out:,} texts. Name them under "
        f"data.extra_corpora: {{corpus: {{kind: files, source: {output_dir / SOURCE}, target: {output_dir / TARGET}}}}}"
    )


def _beam_search(run: Path, search: dict[str, Any], **options: Any) -> tuple[Rewriter, dict[str, Any]]:
    from dragoman.inference import Translator
    from dragoman.runs.pseudo_data import beam_search_rewriter

    translator = load_as(Translator, run, **options)
    config = translator.decoding_config(where="backtranslate", **search)
    return beam_search_rewriter(translator, config), {"beam_size": config.beam_size}


def _sampling(run: Path, sampling: dict[str, Any], **options: Any) -> tuple[Rewriter, dict[str, Any]]:
    from dragoman.inference import Translator
    from dragoman.inference.sampled_translations import sample_translations

    values = {"temperature": 1.0, "seed": 0} | sampling
    config = parse(SamplingConfig, values, where="backtranslate")
    translator = load_as(Translator, run, torch_only=True, **options)
    return lambda texts: sample_translations(translator, texts, config), values
