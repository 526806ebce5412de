"""`dragoman backtranslate`: sources for text of the target language that has none."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.distill import Out
from dragoman.cli.options import OWN, BatchTokens, Beside, Device, given

if TYPE_CHECKING:
    from dragoman.runs.pseudo_data import Rewrite


class MethodName(StrEnum):
    """How sources are made."""

    BEAM = "beam"
    SAMPLING = "sampling"


def backtranslate(
    run: Annotated[
        Path, typer.Argument(help="A run folder of the other direction: from target to source.", show_default=False)
    ],
    *,
    monolingual: Annotated[
        str,
        typer.Option(help="File of texts in the target language, one a line; - is standard input.", show_default=False),
    ],
    out: Out,
    beside: Beside = None,
    method: Annotated[
        MethodName, typer.Option(help="The likeliest source, or one drawn by chance, which teaches more of it.")
    ] = MethodName.BEAM,
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses of --method beam.", show_default=OWN)] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Divides the logits of --method sampling.", show_default="1")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of --method sampling.", show_default="0")] = None,
    tag: Annotated[
        str, typer.Option(help="Word put before every source, to tell it from what people wrote; '' for none.")
    ] = "<bt>",
    batch_tokens: BatchTokens = None,
    device: Device = None,
) -> None:
    """Write a corpus whose targets are the given texts and whose sources a model makes (Sennrich et al., 2016).

    The sources begin with a tag (Caswell et al., 2019). Train on these pairs together with those of people.
    """
    from contextlib import closing

    from dragoman.cli import streams
    from dragoman.data.readers import Repairs
    from dragoman.runs.pseudo_data import SOURCE, TARGET, origin_of, write_backtranslated

    asked = _asked(method, beam=beam, temperature=temperature, seed=seed, beside=beside)
    rewrite, how = _rewriting(run, method, asked, beside=beside, device=device, batch_tokens=batch_tokens)
    repairs = Repairs()
    total = streams.number_of_lines(monolingual)
    texts = streams.counted(streams.read_lines(monolingual, repairs), "lines", out=str(out), total=total)
    with closing(texts):
        origin = origin_of(run, *(beside or ()), method=method.value, **how)
        written = write_backtranslated(out, texts, rewrite, tag=tag, origin=origin)
    streams.report_repairs(repairs)
    streams.say(
        f"{out}: {written.pairs:,} pairs, {written.left_out:,} texts without one. Name them under data.beside: "
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
) -> tuple[Rewrite, dict[str, Any]]:
    """The run at work, as a function of texts, and the options that it works by."""
    from dragoman.cli.loading import load_as, load_to_look_into
    from dragoman.config import parse
    from dragoman.decoding import SamplingSettings
    from dragoman.inference.sampled_translations import drawn_translations
    from dragoman.inference.translator import Translator
    from dragoman.runs.pseudo_data import searched

    if method is MethodName.BEAM:
        translator = load_as(Translator, run, device=device, batch_tokens=batch_tokens, beside=beside)
        settings = translator.searching(where="backtranslate", **asked)
        return searched(translator, settings), {"beam": settings.beam}
    sampling = parse(SamplingSettings, asked, where="backtranslate")
    whole = load_to_look_into(Translator, run, device=device, batch_tokens=batch_tokens)
    return lambda texts: drawn_translations(whole, texts, sampling), asked


def _asked(
    method: MethodName,
    *,
    beam: int | None,
    temperature: float | None,
    seed: int | None,
    beside: list[Path] | None,
) -> dict[str, Any]:
    """The options of the method. Raises ConfigError on those of the other, which would have no effect."""
    from dragoman.errors import ConfigError

    if method is MethodName.BEAM:
        if temperature is not None or seed is not None:
            raise ConfigError("--temperature and --seed are for --method sampling; leave them out, or choose that")
        return given(beam=beam)
    if beam is not None:
        raise ConfigError("--beam is for --method beam; leave it out, or choose that")
    if beside:
        raise ConfigError("--with is for --method beam; leave it out, or choose that")
    return {"temperature": 1.0 if temperature is None else temperature, "seed": 0 if seed is None else seed}
