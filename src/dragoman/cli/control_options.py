"""Options that control the words of translations: files are read, and given to `Translator.translate_stream`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli import options
from dragoman.data.placeholders.rules import PlaceholderRules
from dragoman.data.terminology.glossary import Glossary
from dragoman.data.terminology.glossary_files import read_glossary
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.inference.translation_options import StreamOptions


def read_control(given: Mapping[str, Any]) -> StreamOptions:
    """Return the options of the translator for those of `options.CONTROL` that were given."""
    control: StreamOptions = {}
    if "target_prefix" in given:
        control["target_prefix"] = given["target_prefix"]
    if "constraints" in given:
        from dragoman.inference.control.constraint_records import read_constraint_file

        control["constraints"] = read_constraint_file(given["constraints"])
    if "glossary" in given:
        control["glossary"] = read_glossary_option(given["glossary"], given.get("glossary_languages"))
        control["glossary_mode"] = given.get("glossary_mode", "hard")
    else:
        names = ("glossary_languages", "glossary_mode")
        options.refuse({name: given.get(name) for name in names}, "without --glossary")
    if "markup" in given:
        control["markup"] = given["markup"]
    if "accelerator" in given:
        if given.get("placeholders") is False:
            options.refuse({"accelerator": given["accelerator"]}, "with --no-placeholders")
        mark = given["accelerator"]
        control["placeholders"] = PlaceholderRules(accelerator=None if mark == "none" else mark)
    elif "placeholders" in given:
        control["placeholders"] = given["placeholders"]
    if "context" in given:
        control["context"] = None if given["context"] == "none" else given["context"]
    return control


def read_glossary_option(path: Path, languages: str | None) -> Glossary:
    """Read a glossary for languages such as `en:de`. Raises ConfigError where they are no two languages."""
    source, colon, target = (languages or "").partition(":")
    if languages is not None and not (source and colon and target):
        raise ConfigError(f"--glossary-languages {languages}: gives no two languages. Write them as en:de.")
    return read_glossary(path, source_language=source or None, target_language=target or None)
