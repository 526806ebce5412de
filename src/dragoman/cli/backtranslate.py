"""`dragoman backtranslate`: back-translated training data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.distill import Out
from dragoman.cli.options import OWN, BatchTokens, Device, EnsembleRuns, given

if TYPE_CHECKING:
    from dragoman.runs.pseudo_data import Rewriter


class MethodName(StrEnum):
    """Decoding method of the back-translation."""

    BEAM = "beam"
    SAMPLING = "sampling"


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
    out: Out,
    beside: EnsembleRuns = None,
    method: Annotated[
        MethodName, typer.Option(help="Beam search, or sampling, which gives more diverse sources.")
    ] = MethodName.BEAM,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size of --method beam.", show_default=OWN)] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Temperature of --method sampling.", show_default="1")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of --method sampling.", show_default="0")] = None,
    tag: Annotated[str, typer.Option(help="Tag before every source; '' for none.")] = "<bt>",
    batch_tokens: BatchTokens = None,
    device: Device = None,
) -> None:
    """Translate monolingual target text back into the source language, as training data.

    Back-translation (Sennrich et al., 2016); each source starts with a tag (Caswell et al., 2019). Train on the pairs
    together with a parallel corpus.
    """
    from contextlib import closing

    from dragoman.cli import streams
    from dragoman.data.readers.text_lines import ReadWarnings
    from dragoman.runs.pseudo_data import SOURCE, TARGET, describe_origin, write_backtranslated

    asked = _asked(method, beam=beam, temperature=temperature, seed=seed, beside=beside)
    rewrite, how = _rewriting(run, method, asked, beside=beside, device=device, batch_tokens=batch_tokens)
    repairs = ReadWarnings()
    total = streams.number_of_lines(monolingual)
    texts = streams.counted(streams.read_lines(monolingual, repairs), "lines", out=str(out), total=total)
    with closing(texts):
        origin = describe_origin(run, *(beside or ()), method=method.value, **how)
        written = write_backtranslated(out, texts, rewrite, tag=tag, origin=origin)
    streams.report_repairs(repairs)
    streams.say(
        f"{out}: {written.pairs:,} pairs, {written.left_out:,} texts without one. Name them under data.extra_corpora: "
        f"{{corpus: {{kind: files, source: {out / SOURCE}, target: {out / TARGET}}}}}"
    )


def _rewriting(
    run: Path,
    method: MethodName,
    asked: dict[str, Any],
    *,
    beside: list[Path] | None,
    device: str | None,
    batch_tokens: int | None,
) -> tuple[Rewriter, dict[str, Any]]:
    """Return a function that back-translates texts, and its options."""
    from dragoman.cli.loading import load_as, load_to_look_into
    from dragoman.config import parse
    from dragoman.decoding import SamplingConfig
    from dragoman.inference.sampled_translations import sample_translations
    from dragoman.inference.translator import Translator
    from dragoman.runs.pseudo_data import beam_search_rewriter

    if method is MethodName.BEAM:
        translator = load_as(Translator, run, device=device, batch_tokens=batch_tokens, beside=beside)
        settings = translator.decoding_config(where="backtranslate", **asked)
        return beam_search_rewriter(translator, settings), {"beam_size": settings.beam_size}
    sampling = parse(SamplingConfig, asked, where="backtranslate")
    whole = load_to_look_into(Translator, run, device=device, batch_tokens=batch_tokens)
    return lambda texts: sample_translations(whole, texts, sampling), asked


def _asked(
    method: MethodName,
    *,
    beam: int | None,
    temperature: float | None,
    seed: int | None,
    beside: list[Path] | None,
) -> dict[str, Any]:
    """Return the options of the method. Raises ConfigError on options of the other method."""
    from dragoman.errors import ConfigError

    if method is MethodName.BEAM:
        if temperature is not None or seed is not None:
            raise ConfigError("--temperature and --seed are for --method sampling; leave them out, or choose that")
        return given(beam_size=beam)
    if beam is not None:
        raise ConfigError("--beam is for --method beam; leave it out, or choose that")
    if beside:
        raise ConfigError("--ensemble is for --method beam; leave it out, or choose that")
    return {"temperature": 1.0 if temperature is None else temperature, "seed": 0 if seed is None else seed}
