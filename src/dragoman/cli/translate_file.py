"""`dragoman translate --file`: translate a file, and write one of the same kind."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.atomic_files import require_writable, write_atomically
from dragoman.cli import messages, options, text_io
from dragoman.cli.control_options import read_control
from dragoman.cli.translate_text import RunToTranslate
from dragoman.errors import ConfigError, shorten_text
from dragoman.number_words import counted

if TYPE_CHECKING:
    from dragoman.data.documents.recognize import DocumentFormat
    from dragoman.inference.translation_result import TranslationResult
    from dragoman.runs.file_report import FileReport


def translate_file_command(
    model: RunToTranslate,
    files: Mapping[str, Any],
    output: str,
    *,
    languages: Mapping[str, Any],
    control: Mapping[str, Any],
    language: str | None,
) -> None:
    """Translate the file of `files`, the options of `options.FILES`, and write the output and the report.

    The file is read before the model, so that an error in it comes at once, and nothing is written after an error.
    """
    from dragoman.data.documents.recognize import open_document
    from dragoman.inference.text_segmentation import build_splitter
    from dragoman.runs.translate_file import FileOptions, read_memory, translate_document, with_languages

    options.refuse({name: control.get(name) for name in ("target_prefix", "markup")}, "with --file")
    if "memory" not in files:
        options.refuse({"memory_threshold": files.get("memory_threshold")}, "without --memory")
    language = language or languages.get("source_language")
    build_splitter("sentences", language)
    written = [Path(output) if output != text_io.STANDARD else None, files.get("report")]
    for path in filter(None, written):
        require_writable(path)
    document = open_document(files["file"], format_=_format(files.get("file_format")), **languages)
    chosen = FileOptions(
        only=files.get("only", "untranslated"),
        review=files.get("needs_review", "warned"),
        memory=read_memory(files["memory"]) if "memory" in files else None,
        memory_threshold=files.get("memory_threshold", 1.0),
        target_language=languages.get("target_language"),
    )
    translator = model.load()
    config = model.config(translator)
    given: Any = {"language": language, **languages, **read_control(control)}
    stream_options = with_languages(translator, given)

    def progress(results: Iterator[TranslationResult], total: int) -> Iterable[TranslationResult]:
        with closing(text_io.with_progress(results, "segments", output=output, total=total)) as shown:
            yield from shown

    found = translate_document(translator, document, chosen, config, stream_options=stream_options, progress=progress)
    _write(found.content, output)
    if "report" in files:
        found.report.write(files["report"])
    _say_report(found.report, output)


def _format(name: str | None) -> DocumentFormat | None:
    """Return the format with this name. Raises ConfigError, which lists the formats, if there is none."""
    from typing import get_args

    from dragoman.data.documents.recognize import DocumentFormat

    known: tuple[DocumentFormat, ...] = get_args(DocumentFormat)
    found = next((one for one in known if one == name), None)
    if name is not None and found is None:
        raise ConfigError(f"--file-format {name}: is no format. Choose one of {', '.join(known)}.")
    return found


def _write(content: bytes, output: str) -> None:
    if output == text_io.STANDARD:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        write_atomically(Path(output), content)


def _say_report(report: FileReport, output: str) -> None:
    """Print what was done, and a warning for each text, or for many how many there are."""
    counts = report.counts
    warned = [(one, warning) for one in report.segments for warning in one.warnings]
    for one, warning in warned[:MAX_WARNINGS]:
        place = f"line {one.line}: " if one.line is not None else ""
        messages.show_warning(f"{place}{shorten_text(text_io.one_line(one.source))}: {text_io.one_line(warning)}")
    if len(warned) > MAX_WARNINGS:
        messages.show_warning(f"{len(warned) - MAX_WARNINGS:,} more warnings; --report FILE.json has them all")
    parts = [f"{counts[name]:,} {text}" for name, text in _PARTS.items() if counts[name]]
    words = counted(counts["words"], "words")
    messages.say(
        f"{output}: {counted(counts['translated'], 'texts')} of {counts['units']:,} translated ({words}): "
        f"{', '.join(parts) or 'nothing to do'}"
    )


MAX_WARNINGS = 10
"""Warnings that are printed one by one."""
_PARTS = {
    "machine": "by the model",
    "memory": "from the memory",
    "fuzzy_memory": "from similar texts of the memory",
    "copied": "copied",
    "kept": "kept as they are",
    "missing_terms": "terms not as in the glossary",
    "inconsistent_terms": "terms with another word than in most texts",
    "needs_review": "marked for review",
    "with_warnings": "with warnings",
}
"""What is counted in the summary, and how."""
