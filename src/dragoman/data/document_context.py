"""Document context: preceding sentences before a sentence (Tiedemann and Scherrer, 2017).

A model with context reads its sentence after the sentences before it in the document. A reserved symbol ends each of
them: the symbol number k the k-th sentence before the last one. A model that was trained with `target` also writes the
translations of these sentences before that of its own. The symbols in a vocabulary thus say what its model reads and
writes, and no other record is needed.
"""

import random
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

from pydantic import Field

from dragoman.config import Config
from dragoman.data.readers.parallel import Example
from dragoman.data.tokenizers import Tokenizer
from dragoman.data.tokenizers.reserved_symbols import (
    SOURCE_CONTEXT_SYMBOLS,
    TARGET_CONTEXT_SYMBOLS,
    has_reserved_symbols,
    is_context_symbol,
    remove_reserved_symbols,
)
from dragoman.errors import ConfigError

_ALL_SYMBOLS = SOURCE_CONTEXT_SYMBOLS + TARGET_CONTEXT_SYMBOLS
_SYMBOL = re.compile(f" ?[{''.join(_ALL_SYMBOLS)}] ?")


class ContextConfig(Config):
    """Preceding sentences of the document, which the model reads before each sentence.

    Documents end at a blank line, at the end of a file, and where the corpus names another document.
    """

    source_sentences: int = Field(default=1, ge=1, le=len(SOURCE_CONTEXT_SYMBOLS))
    """Number of preceding sentences."""
    target: bool = False
    """Whether the model also writes the translations of these sentences, which are then removed."""
    dropout: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share of training sentences without context, so that the model translates single sentences, too."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Reserved symbols that the vocabulary needs."""
        return (TARGET_CONTEXT_SYMBOLS if self.target else SOURCE_CONTEXT_SYMBOLS)[: self.source_sentences]


@final
@dataclass(frozen=True, slots=True)
class ContextForm:
    """Form in which a model reads the sentences before a sentence."""

    symbols: tuple[str, ...]
    """Symbol after the last sentence of the context, after the sentence before it, and so on."""
    target: bool
    """Whether the model writes the translations of these sentences, too."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "ContextForm | None":
        """Return the form that a vocabulary has symbols for; None of a model that reads single sentences."""
        for symbols, target in ((TARGET_CONTEXT_SYMBOLS, True), (SOURCE_CONTEXT_SYMBOLS, False)):
            known = [one for one in symbols if has_reserved_symbols(tokenizer.source, [one])]
            if known:
                return cls(tuple(known), target)
        return None

    @classmethod
    def require(cls, tokenizer: Tokenizer) -> "ContextForm":
        """Return the form that a vocabulary has symbols for. Raises ConfigError if its model reads single sentences."""
        form = cls.of(tokenizer)
        if form is None:
            raise ConfigError(
                "context: this model reads single sentences. Leave context out, or train a model with data.context."
            )
        return form

    def join(self, context: Sequence[str], text: str) -> str:
        """Return a text after the last sentences of its context, as many as the model reads."""
        return join_context(context, text, self.symbols)


def join_context(context: Sequence[str], text: str, symbols: Sequence[str]) -> str:
    """Return a text after the last sentences of its context, each of which a symbol ends."""
    last = list(context)[-len(symbols) :]
    ends = reversed(symbols[: len(last)])
    parts = (f"{one} {end} " for one, end in zip(last, ends, strict=True))
    return "".join((*parts, text))


def split_context(text: str) -> tuple[list[str], str]:
    """Return the sentences of the context in a joined text, and its last sentence."""
    *context, last = _SYMBOL.split(text)
    return context, last


def replace_last_sentence(text: str, sentence: str) -> str:
    """Return a joined text with another last sentence."""
    last = split_context(text)[1]
    return text[: len(text) - len(last)] + sentence


def last_sentences(pair: tuple[str, str]) -> tuple[str, str]:
    """Return a pair of joined texts without context."""
    source, target = pair
    return split_context(source)[1], split_context(target)[1]


def has_context(text: str) -> bool:
    """Return whether a text has sentences before its last one."""
    return not text.isascii() and _SYMBOL.search(text) is not None


def drop_oldest_sentence(pair: tuple[str, str]) -> tuple[str, str]:
    """Return a pair of joined texts without the first sentence of its context, on each side that has one."""
    source, target = (_SYMBOL.split(text, maxsplit=1)[-1] for text in pair)
    return source, target


def count_context_tokens(tokens: Sequence[str]) -> int:
    """Return the number of tokens of an output that are the translation of its context, its symbols included."""
    return max((place + 1 for place, token in enumerate(tokens) if is_context_symbol(token)), default=0)


@final
class ContextReader:
    """Joins each pair of a corpus, in order, to the pairs before it in the same document."""

    def __init__(self, config: ContextConfig, *, is_training: bool) -> None:
        """In training, pairs lose their context with the probability `dropout`, drawn by their line."""
        self._config = config
        self._dropout = config.dropout if is_training else 0.0
        self._symbols = config.symbols
        self._before: deque[Example] = deque(maxlen=config.source_sentences)
        self._same_line: list[Example] = []
        """Alternative translations of the source read last, which are no context of each other."""

    def join(self, example: Example) -> Example:
        """Return an example with its context; with a blank side it stays as it is; with two, the document ends."""
        if example.begins_document or not (example.source.strip() or example.target.strip()):
            self._before.clear()
            self._same_line.clear()
        if self._same_line and self._same_line[0].line != example.line:
            self._before.append(self._same_line[0])
            self._same_line.clear()
        before = list(self._before)
        is_whole = bool(example.source.strip() and example.target.strip())
        if is_whole or (example.source.strip() and not self._config.target):
            self._same_line.append(_in_one_line(example))
        elif self._config.target:  # a sentence without translation
            self._before.clear()
        if not is_whole:
            return example
        source, target = (remove_reserved_symbols(one, _ALL_SYMBOLS) for one in (example.source, example.target))
        if before and not self._is_dropped(example.line):
            source = join_context([one.source for one in before], source, self._symbols)
            if self._config.target:
                target = join_context([one.target for one in before], target, self._symbols)
        return replace(example, source=source, target=target)

    def forget(self) -> None:
        """Leave the last pair out of the context of others where the model would learn to write its target."""
        if self._config.target:
            self._before.clear()
            self._same_line.clear()

    def _is_dropped(self, line: int) -> bool:
        return self._dropout > 0.0 and random.Random(line).random() < self._dropout  # noqa: S311  # not for secrets


def _in_one_line(example: Example) -> Example:
    source, target = (
        " ".join(remove_reserved_symbols(text, _ALL_SYMBOLS).split()) for text in (example.source, example.target)
    )
    return replace(example, source=source, target=target)


def build_context_reader(config: ContextConfig | None, *, is_training: bool) -> "ContextReader | None":
    """Return what joins the pairs of a corpus to those before them, None without context."""
    return None if config is None else ContextReader(config, is_training=is_training)


def with_context(examples: Iterable[Example], config: ContextConfig | None) -> Iterable[Example]:
    """Yield the pairs of a validation or test corpus with their context, without the blank lines between documents."""
    if config is None:
        return examples
    reader = ContextReader(config, is_training=False)
    joined = map(reader.join, examples)
    return (one for one in joined if one.source.strip() or one.target.strip())
