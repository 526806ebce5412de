"""Translation of text, one segment per line, and the formats of its output."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from dragoman.cli import options, text_io
from dragoman.cli.load_run import load_as
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.decoding.config import DecodingConfig, replace_options

if TYPE_CHECKING:
    from dragoman.inference.translation_options import StreamOptions
    from dragoman.inference.translation_result import TranslationResult
    from dragoman.inference.translator import Translator


@dataclass(frozen=True)
class RunToTranslate:
    """Run that translates, with its options of loading and decoding."""

    run: Path
    loading: Mapping[str, Any]
    decoding: Mapping[str, Any]

    def load(self) -> Translator:
        """Load the translator of the run."""
        from dragoman.inference.translator import Translator

        return load_as(Translator, self.run, **self.loading)

    def config(self, translator: Translator, **returned: int) -> DecodingConfig:
        """Return the decoding options of the run, replaced by the given ones."""
        return replace_options(translator.config, {**self.decoding, **returned}, where="translate")


@dataclass(frozen=True)
class TextSource:
    """Texts of options or of a file, and the file of their dependency trees."""

    texts: list[str] | None
    input: str
    source_features: Path | None

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, by their names."""
        own_input = self.input if self.input != text_io.STANDARD else None
        return {"text": self.texts, "input": own_input, "source_features": self.source_features}

    @property
    def is_typed(self) -> bool:
        """Return whether a user types the texts."""
        return not self.texts and text_io.is_typed(self.input)

    @property
    def count(self) -> int | None:
        """Number of texts, where it is known before they are read."""
        return len(self.texts) if self.texts else text_io.count_lines(self.input)

    def read(self, warnings: ReadWarnings) -> tuple[Iterable[str], Iterable[Sequence[int]] | None]:
        """Return the texts and their dependency trees."""
        texts = text_io.read_given(self.texts, self.input, warnings)
        return text_io.with_source_features(texts, self.source_features, text_of=str, name=self.input)


@dataclass(frozen=True)
class LineFormat:
    """Output of a line: a JSON object, the best translation, or one line for each hypothesis."""

    is_json: bool
    scores: bool
    n_best: int

    def __call__(self, number: int, translations: TranslationResult) -> str:
        """Return the output of the line with this number, from 0."""
        if self.is_json:
            return text_io.json_record(number + 1, translations.to_dict())
        rows = []
        for one in translations:
            text = text_io.one_line(one.text)  # output lines stay aligned with input lines
            if self.n_best > 1:
                rows.append(f"{number} ||| {text} ||| log_prob= {one.log_prob:z.6f} ||| {one.score:z.6f}")
            else:
                rows.append(f"{one.score:z.6f}\t{one.log_prob:z.6f}\t{text}" if self.scores else text)
        return "\n".join(rows)


def build_format(format_: Literal["text", "jsonl"], *, scores: bool, n_best: int) -> LineFormat:
    """Return the format of the output. Raises ConfigError if --scores has no effect."""
    if format_ == "jsonl":
        options.refuse({"scores": scores}, "with --format jsonl, which contains the scores")
    if n_best > 1:
        options.refuse({"scores": scores}, "with --n-best, which prints the scores")
    return LineFormat(is_json=format_ == "jsonl", scores=scores, n_best=n_best)


def translate_text(
    model: RunToTranslate,
    source: TextSource,
    output: str,
    line_format: LineFormat,
    **stream_options: Unpack[StreamOptions],
) -> None:
    """Translate texts, and write a line or more for each."""
    from dragoman.inference.translator import STREAM_CHUNK

    _check_splitter(stream_options)
    translator = model.load()
    config = model.config(translator, n_best=line_format.n_best)
    warnings = ReadWarnings()
    texts, features = source.read(warnings)
    chunk = 1 if source.is_typed else STREAM_CHUNK
    found = translator.translate_stream(texts, config, chunk=chunk, source_features=features, **stream_options)
    lines = itertools.starmap(line_format, enumerate(found))
    text_io.write_lines(lines, output, warnings, total=source.count)


def translate_text_with_ray(
    model: RunToTranslate,
    source: TextSource,
    output: str,
    line_format: LineFormat,
    *,
    workers: int | None,
    **stream_options: Unpack[StreamOptions],
) -> None:
    """Translate texts in blocks, which workers of Ray translate, and write them in their order."""
    from dragoman.runs.translate_with_ray import RayTranslation, translate_with_ray

    _check_splitter(stream_options)
    config = model.config(model.load(), n_best=line_format.n_best)  # the workers load their own translators
    warnings = ReadWarnings()
    texts, _ = source.read(warnings)
    job = RayTranslation(model.run, options.given(**model.loading), config, dict(stream_options), line_format)
    lines = translate_with_ray(texts, job, workers=workers)
    text_io.write_lines(lines, output, warnings, total=source.count)


def _check_splitter(stream_options: StreamOptions) -> None:
    """Raise the error of a wrong language or a missing splitter, before the model is loaded."""
    from dragoman.inference.text_segmentation import build_splitter

    build_splitter(stream_options.get("split"), stream_options.get("language"))
