"""Symbols and words before a source and a target, which tell a multilingual model the languages.

A model may read a tag of the target language before the source (Johnson et al., 2017). NLLB and M2M100 read a tag of
the source language there, and begin their outputs with a tag of the target language. T5 reads the names of the
languages in words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from string import Formatter
from typing import Any, Final, Literal, final

from dragoman.data.tokenizers.language_tokenizer import LanguageTokenizer
from dragoman.errors import ConfigError, nearest, warn
from dragoman.number_words import counted

Part = int | Literal["source_language", "target_language"]
"""Id of a symbol, or the tag of a language."""
SHOWN_LANGUAGES = 8
"""Language codes in a message."""


class DirectionWarning(UserWarning):
    """A model translates between languages that it was not trained to translate between."""


@final
@dataclass(frozen=True)
class Language:
    """Language of a multilingual model."""

    tag: int | None = None
    """Id of its tag."""
    name: str | None = None
    """Name in the words before a source; by default its code."""


@final
@dataclass(frozen=True)
class Direction:
    """Prefixes of texts in two given languages."""

    source: tuple[int, ...] = ()
    """Ids before the ids of a source."""
    target: tuple[int, ...] = ()
    """Ids that an output begins with."""
    text: str = ""
    """Words before a source."""
    text_after: str = ""
    """Words after a source."""
    source_end: tuple[int, ...] = ()
    """Ids after the ids of a source, before its end symbol."""

    def surround(self, text: str) -> str:
        """Return a source with the words around it."""
        return f"{self.text}{text}{self.text_after}"

    def encode_sources(self, tokenizer: LanguageTokenizer, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of sources; a text without tokens stays empty."""
        encoded = tokenizer.encode_batch(texts)
        if self.text or self.text_after:
            encoded = tokenizer.encode_batch(
                [self.surround(text) if ids else text for text, ids in zip(texts, encoded, strict=True)]
            )
        return [self.wrap_source(ids) if ids else [] for ids in encoded]

    def wrap_source(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of a source with the symbols around it."""
        return [*self.source, *ids, *self.source_end]

    def encode_targets(self, tokenizer: LanguageTokenizer, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of targets, without end symbol."""
        return [[*self.target, *ids] for ids in tokenizer.encode_batch(texts)]


NO_DIRECTION: Final = Direction()
"""No prefixes."""


@final
@dataclass(frozen=True)
class Prefixes:
    """Rules for what precedes sources and targets. Raises ValueError if they contradict each other."""

    source: tuple[Part, ...] = ()
    """Symbols before the ids of a source."""
    target: tuple[Part, ...] = ()
    """Symbols that an output begins with, after BOS."""
    text: str = ""
    """Words before a source, with the names of languages for `{source_language}` and `{target_language}`."""
    languages: Mapping[str, Language] = field(default_factory=dict)
    """Languages by code."""
    directions: tuple[tuple[str, str], ...] = ()
    """Pairs of source and target language that the model was trained on; empty if they are not known."""
    source_language: str | None = None
    """Source language where a call gives none."""
    target_language: str | None = None
    """Target language where a call gives none."""
    is_optional: bool = False
    """Whether a text without languages has no prefix: the model has other tasks, too."""
    source_end: tuple[Part, ...] = ()
    """Symbols after the ids of a source, of a network that does not see the end symbol behind them (`source_eos`)."""

    def __post_init__(self) -> None:
        fields = {name for _, name, *_ in Formatter().parse(self.text) if name is not None}
        if not fields <= {"source_language", "target_language"}:
            raise ValueError(f"the text before a source has the unknown fields {sorted(fields)}")
        named = {code for pair in self.directions for code in pair} | {self.source_language, self.target_language}
        if unknown := named - {None, *self.languages}:
            raise ValueError(f"the languages {sorted(map(str, unknown))} are not defined")

    def check_ids(self, *, source: int, target: int) -> None:
        """Raise ValueError if an id is outside of the vocabularies of these sizes."""
        tags = [one.tag for one in self.languages.values() if one.tag is not None]
        for parts, size in ((self.source, source), (self.source_end, source), (self.target, target)):
            own = [part for part in parts if isinstance(part, int)]
            if any(not 0 <= index < size for index in (own if len(own) == len(parts) else [*own, *tags])):
                raise ValueError("a symbol of the prefixes is outside of the vocabulary")

    def resolve(self, source_language: str | None = None, target_language: str | None = None) -> Direction:
        """Return the prefixes of a direction.

        Raises ConfigError if a language is unknown, has no effect, or is missing. Warns of a direction that the model
        was not trained on.
        """
        given = {"source_language": source_language, "target_language": target_language}
        if self.is_optional and all(value is None for value in (*given.values(), *self._defaults.values())):
            return NO_DIRECTION
        codes = {name: self._code(name, value) for name, value in given.items()}
        names = {name: self.languages[code].name or code for name, code in codes.items() if code is not None}
        direction = Direction(
            tuple(self._id(part, codes) for part in self.source),
            tuple(self._id(part, codes) for part in self.target),
            self.text.format(**names),
            source_end=tuple(self._id(part, codes) for part in self.source_end),
        )
        pair = codes["source_language"], codes["target_language"]
        if self.directions and None not in pair and pair not in self.directions:
            known = _shown(f"{source} to {target}" for source, target in self.directions)
            warn(f"{pair[0]} to {pair[1]} was not trained; the model knows {known}", DirectionWarning)
        return direction

    @cached_property
    def needed(self) -> frozenset[str]:
        """Names of the languages that the prefixes depend on: `source_language` and `target_language`."""
        fields = {name for _, name, *_ in Formatter().parse(self.text) if name is not None}
        return frozenset(fields | {part for part in self._parts if isinstance(part, str)})

    def example(self) -> dict[str, str]:
        """Return a language for each that a call must give: the first languages of the model."""
        missing = sorted(name for name in self.needed if self._defaults[name] is None)
        codes = [code for code, language in self.languages.items() if language.tag is not None or not self._tags_used]
        return {} if self.is_optional else dict(zip(missing, codes, strict=False))

    @property
    def _defaults(self) -> dict[str, str | None]:
        return {"source_language": self.source_language, "target_language": self.target_language}

    @property
    def _tags_used(self) -> bool:
        return any(isinstance(part, str) for part in self._parts)

    @property
    def _parts(self) -> tuple[Part, ...]:
        return (*self.source, *self.source_end, *self.target)

    def to_json(self) -> dict[str, Any]:
        """Return the record of the rules, without `source_end` where it is empty, as older releases wrote it."""
        tree = asdict(self)
        return tree if self.source_end else {key: value for key, value in tree.items() if key != "source_end"}

    def _code(self, name: str, given: str | None) -> str | None:
        """Return the code of a language of the model; None if it makes no difference."""
        default: str | None = getattr(self, name)
        if given is None:
            if default is None and name in self.needed:
                raise ConfigError(f"{name} is missing. Give one of {_shown(self.languages)}.")
            return default
        if name not in self.needed and not self.directions and default is None:
            raise ConfigError(
                f"{name} = {given!r} has no effect on this model, which does not ask for it. Leave it out."
            )
        return self.code_of(name, given)

    def code_of(self, name: str, given: str) -> str:
        """Return the code that `given` means: itself, in another case, or the only one that begins with it.

        Raises ConfigError, with the `name` of the argument, if there is none.
        """
        folded = given.replace("-", "_").casefold()
        exact = [code for code in self.languages if code.replace("-", "_").casefold() == folded]
        longer = [code for code in self.languages if code.replace("-", "_").casefold().startswith(f"{folded}_")]
        for found in ([code for code in exact if code == given] or exact, longer):
            if len(found) == 1:
                return found[0]
        similar = longer or nearest(given, self.languages)
        remedy = f"Did you mean {' or '.join(similar)}?" if similar else f"Choose one of {_shown(self.languages)}."
        raise ConfigError(f"{name} = {given!r} is no language of this model. {remedy}")

    def _id(self, part: Part, codes: Mapping[str, str | None]) -> int:
        if isinstance(part, int):
            return part
        code = codes[part]
        assert code is not None, "a language that the prefixes need is known"
        tag = self.languages[code].tag
        if tag is None:
            tagged = (code for code, language in self.languages.items() if language.tag is not None)
            raise ConfigError(f"{part}: {code} has no tag. Choose one of {_shown(tagged)}.")
        return tag


NO_PREFIXES: Final = Prefixes()
"""Rules of a model of one language pair, without any prefix."""


def _shown(names: Iterable[str]) -> str:
    """Return names in words, at most `SHOWN_LANGUAGES` of them."""
    found = list(names)
    more = len(found) - SHOWN_LANGUAGES
    shown = ", ".join(found[:SHOWN_LANGUAGES])
    return f"{shown} and {counted(more, 'others', 'other')}" if more > 0 else shown
