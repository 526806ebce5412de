"""Sentences before each text of a call, which a model with document context reads before it."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, final

from dragoman.data.document_context import ContextForm
from dragoman.data.tokenizers import Direction, Tokenizer
from dragoman.data.tokenizers.reserved_symbols import TERM_SYMBOLS, remove_reserved_symbols
from dragoman.errors import ConfigError, DataError
from dragoman.inference.text_segmentation import Layout, Segment, SegmentedText, whole_text
from dragoman.number_words import counted

TextContext = Literal["previous"] | Sequence[str] | Sequence[Sequence[str]]
"""Sentences before all texts of a call, or before each, or `previous`: the texts of the call are a document."""
_TERM = re.compile("{0}([^{0}{1}{2}\n]*+){1}([^{0}{1}{2}\n]*+){2}".format(*TERM_SYMBOLS))


@final
class PrecedingSentences:
    """Sentences before each text of a call, in the order of the texts."""

    def __init__(
        self,
        given: TextContext | None,
        tokenizer: Tokenizer,
        *,
        direction: Direction,
        max_length: int,
        splitter: Callable[[str], Layout],
    ) -> None:
        """Sources have at most `max_length` tokens with their context; `splitter` splits the sentences given.

        Raises ConfigError if the model reads single sentences, TypeError on another context.
        """
        self.form = None if given is None else ContextForm.require(tokenizer)
        self._tokenizer = tokenizer.source
        self._direction = direction
        self._max_length = max_length
        self._splitter = splitter
        self._previous = given == "previous"
        self._shared, self._each = ([], None) if given is None or given == "previous" else _read_context(given)
        self._before: deque[str] = deque(maxlen=1 if self.form is None else len(self.form.symbols))
        self._count = 0

    @property
    def writes_context(self) -> bool:
        """Whether outputs begin with the translations of the sentences before."""
        return self.form is not None and self.form.target

    def check_count(self, count: int) -> None:
        """Raise DataError if sentences are given for another number of texts."""
        if self._each is not None and len(self._each) != count:
            raise DataError(f"{counted(count, 'texts')} but {len(self._each)} of `context`; give one for each")

    def enter(self, text: str) -> None:
        """Begin the next text; a blank one ends a document."""
        if self._previous:
            if not text.strip():
                self._before.clear()
            return
        if self._each is not None and self._count >= len(self._each):
            self.check_count(self._count + 1)
        own = self._shared if self._each is None else self._each[self._count]
        self._count += 1
        self._before.clear()
        sentences = (sentence for one in own for sentence in self._splitter(one).sentences)
        self._before += filter(None, (" ".join(remove_reserved_symbols(one).split()) for one in sentences))

    def join(self, text: str) -> tuple[str, list[int] | None]:
        """Return a text after the sentences before it that fit, and its tokens; None where there are no sentences.

        The text is one of the sentences before the next one.
        """
        assert self.form is not None
        context = list(self._before)
        self._before.append(" ".join(_TERM.sub(_term_words, text).split()))
        for start in range(len(context)):
            joined = self.form.join(context[start:], text)
            [ids] = self._direction.encode_sources(self._tokenizer, [joined])
            if len(ids) <= self._max_length:
                return joined, ids
        return text, None

    def add(self, text: str, blocks: Sequence[SegmentedText]) -> Sequence[SegmentedText]:
        """Return the segments of the blocks of a text, each with the sentences before it."""
        if self.form is None:
            return blocks
        self.enter(text)
        return [
            block._replace(sentences=[[self._with_context(one) for one in sentence] for sentence in block.sentences])
            for block in blocks
        ]

    def _with_context(self, segment: Segment) -> Segment:
        _, ids = self.join(segment.text)
        return segment if ids is None else segment._replace(ids=ids, alone=segment)


def join_sources(
    sources: list[str], given: TextContext | None, tokenizer: Tokenizer, direction: Direction, *, max_length: int
) -> list[str]:
    """Return sources after the sentences before them. Raises ConfigError if the model also writes these sentences."""
    context = PrecedingSentences(given, tokenizer, direction=direction, max_length=max_length, splitter=whole_text)
    if context.form is None:
        return sources
    if context.writes_context:
        raise ConfigError(
            "context: this model also writes the translation of its context, which is not scored. Leave context out."
        )
    context.check_count(len(sources))
    joined = []
    for source in sources:
        context.enter(source)
        joined.append(context.join(source)[0] if source.strip() else source)
    return joined


def _term_words(match: re.Match[str]) -> str:
    """Return the words of an annotated term, or its translation where it stands alone."""
    words: str = match[1].strip() or match[2]
    return words


def _read_context(given: Sequence[str] | Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]] | None]:
    """Return the sentences before all texts, or the sentences before each of them."""
    if isinstance(given, str):
        raise ConfigError(
            f"context = {given!r:.60}: is one text. Give 'previous', a list of the sentences before the texts, or such "
            "a list for each text."
        )
    shared, each = [], []
    for one in given:
        if isinstance(one, str):
            shared.append(one)
        elif isinstance(one, Sequence) and all(isinstance(part, str) for part in one):
            each.append(list(one))
        else:
            raise TypeError(f"context: {one!r:.60} is no sentence. Give sentences, or a list of them for each text.")
    if shared and each:
        raise TypeError("context has sentences and lists. Give the sentences before all texts, or a list for each.")
    return shared, each or None
