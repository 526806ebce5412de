"""Keyword arguments of a `Translator`, by what they say: the languages, the search, and the words of translations."""

from typing import TypedDict

from dragoman.decoding.config import CutOff, DecodingMethod, EndTokens, LengthPenaltyKind, SuppressTokens
from dragoman.inference.check_source_features import TextFeatures
from dragoman.inference.control.prepare_texts import ControlOptions
from dragoman.inference.preceding_sentences import TextContext
from dragoman.inference.text_segmentation import Split


class LanguageOptions(TypedDict, total=False):
    """Languages of a multilingual model; None is the default of the model."""

    source_language: str | None
    target_language: str | None


class DecodingOptions(TypedDict, total=False):
    """Options of a translation, which replace those of its `DecodingConfig`; None has no effect."""

    beam_size: int | None
    n_best: int | None
    length_penalty: float | None
    length_penalty_kind: LengthPenaltyKind | None
    method: DecodingMethod | None
    mbr_temperature: float | None
    min_length: int | None
    max_length: int | None
    max_length_ratio: float | None
    max_length_offset: int | None
    allow_unk: bool | None
    renormalize: bool | None
    early_stopping: bool | None
    keep_greedy: bool | None
    cut_off: CutOff | None
    end_tokens: EndTokens | None
    suppress_tokens: SuppressTokens | None


class StreamOptions(DecodingOptions, LanguageOptions, ControlOptions, total=False):
    """Keyword arguments of `Translator.translate_stream`."""

    split: Split | None
    language: str | None
    context: TextContext | None


class TranslationOptions(StreamOptions, total=False):
    """Keyword arguments of `Translator.translate`."""

    first_line: int
    source_features: TextFeatures | None
