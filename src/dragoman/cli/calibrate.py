"""`dragoman calibrate`: measure what the confidence of a translator is worth."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dragoman.cli.options import (
    DECODING,
    LANGUAGES,
    DeviceOption,
    PairsOption,
    RunArgument,
    config_options,
    shared_options,
)
from dragoman.cli.verb_command import Outcome
from dragoman.decoding.config import DecodingConfig

Source = Annotated[str | None, typer.Option(help="Source side of held-out pairs.")]
Reference = Annotated[str | None, typer.Option("--reference", "-r", help="Target side of held-out pairs.")]


@config_options(DecodingConfig, DECODING, into="decoding")
@shared_options(LANGUAGES, into="languages")
def calibrate(
    run: RunArgument,
    *,
    source: Source = None,
    reference: Reference = None,
    pairs: PairsOption = None,
    device: DeviceOption = None,
    languages: dict[str, Any],
    decoding: dict[str, Any],
) -> Outcome:
    """Measure what the confidence of a translator is worth, on held-out pairs.

    Writes quality.json into the folder of the run. Translations then have an expected chrF, and warnings about lengths
    and writing systems follow the held-out references. Writes alignment.json, too: the attention head that aligns the
    words of the pairs best, by which --markup places tags.
    """
    from dragoman.runs.calibrate import calibrate as calibrate_run

    result = calibrate_run(run, source=source, reference=reference, pairs=pairs, device=device, **languages, **decoding)
    return Outcome(result.to_dict, lambda: print(result.describe()))
