"""Options that control the words of translations: files are read, and given to `Translator.translate_stream`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.inference.control.prepare_texts import ControlOptions


def read_control(given: Mapping[str, Any]) -> ControlOptions:
    """Return the options of the translator for those of `options.CONTROL` that were given."""
    control: ControlOptions = {}
    if "target_prefix" in given:
        control["target_prefix"] = given["target_prefix"]
    return control
