"""Segmentation of texts: into sentences on request, and into parts where a text is too long for the model."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple, final

from dragoman.data.readers.conllu import Heads
from dragoman.data.tokenizers import Direction, LanguageTokenizer
from dragoman.data.tokenizers.prefixes import NO_DIRECTION
from dragoman.errors import ConfigError, TextError, warn
from dragoman.inference.length_batches import warn_unknown
from dragoman.inference.translation_result import TranslationWarning

Split = Literal["sentences"]
"""Units that texts are split into before they are translated."""
MAX_LINE_LENGTH = 65_536
"""Tokens above which a line is refused as a mistake: it is no sentence or paragraph."""
SPLIT_LENGTH = 16_384
"""Characters in which sentences are looked for at once."""
DEFAULT_LANGUAGE = "en"
"""Language whose abbreviations are known where none is named."""
TWO_LETTER_CODES = frozenset(
    [
        "aa",
        "ab",
        "ae",
        "af",
        "ak",
        "am",
        "an",
        "ar",
        "as",
        "av",
        "ay",
        "az",
        "ba",
        "be",
        "bg",
        "bh",
        "bi",
        "bm",
        "bn",
        "bo",
        "br",
        "bs",
        "ca",
        "ce",
        "ch",
        "co",
        "cr",
        "cs",
        "cu",
        "cv",
        "cy",
        "da",
        "de",
        "dv",
        "dz",
        "ee",
        "el",
        "en",
        "eo",
        "es",
        "et",
        "eu",
        "fa",
        "ff",
        "fi",
        "fj",
        "fo",
        "fr",
        "fy",
        "ga",
        "gd",
        "gl",
        "gn",
        "gu",
        "gv",
        "ha",
        "he",
        "hi",
        "ho",
        "hr",
        "ht",
        "hu",
        "hy",
        "hz",
        "ia",
        "id",
        "ie",
        "ig",
        "ii",
        "ik",
        "io",
        "is",
        "it",
        "iu",
        "ja",
        "jv",
        "ka",
        "kg",
        "ki",
        "kj",
        "kk",
        "kl",
        "km",
        "kn",
        "ko",
        "kr",
        "ks",
        "ku",
        "kv",
        "kw",
        "ky",
        "la",
        "lb",
        "lg",
        "li",
        "ln",
        "lo",
        "lt",
        "lu",
        "lv",
        "mg",
        "mh",
        "mi",
        "mk",
        "ml",
        "mn",
        "mr",
        "ms",
        "mt",
        "my",
        "na",
        "nb",
        "nd",
        "ne",
        "ng",
        "nl",
        "nn",
        "no",
        "nr",
        "nv",
        "ny",
        "oc",
        "oj",
        "om",
        "or",
        "os",
        "pa",
        "pi",
        "pl",
        "ps",
        "pt",
        "qu",
        "rm",
        "rn",
        "ro",
        "ru",
        "rw",
        "sa",
        "sc",
        "sd",
        "se",
        "sg",
        "sh",
        "si",
        "sk",
        "sl",
        "sm",
        "sn",
        "so",
        "sq",
        "sr",
        "ss",
        "st",
        "su",
        "sv",
        "sw",
        "ta",
        "te",
        "tg",
        "th",
        "ti",
        "tk",
        "tl",
        "tn",
        "to",
        "tr",
        "ts",
        "tt",
        "tw",
        "ty",
        "ug",
        "uk",
        "ur",
        "uz",
        "ve",
        "vi",
        "vo",
        "wa",
        "wo",
        "xh",
        "yi",
        "yo",
        "za",
        "zh",
        "zu",
    ]
)
"""Codes of ISO 639-1."""

BREAKS = (
    re.compile(r"(?<=[.!?])\s+|(?<=[。！？।؟])\s*"),
    re.compile(r"(?<=[,;:])\s+|(?<=[，；：、،؛])\s*"),
    re.compile(r"\s+"),
)
"""Places where a text may be cut, the best first: after a sentence, after a clause, between words."""


class Layout(NamedTuple):
    """Sentences of a text, without white space around them, and the `gaps` before each and after the last."""

    sentences: tuple[str, ...]
    gaps: tuple[str, ...]

    def fill(self, sentences: Sequence[str]) -> str:
        """Put other sentences, one for each, in the places of these.

        Where nothing separates two sentences, as in Chinese, a space is inserted unless the other script is one of wide
        characters, too.
        """
        text = self.gaps[0]
        for number, (sentence, gap) in enumerate(zip(sentences, self.gaps[1:], strict=True)):
            touching = number > 0 and not self.gaps[number] and sentence and text
            text += " " if touching and unicodedata.east_asian_width(text[-1]) not in ("W", "F") else ""
            text += sentence + gap
        return text


class Segment(NamedTuple):
    """Text that the model reads at once, its ids, and its dependency tree where the model needs it."""

    text: str
    ids: list[int]
    heads: Heads | None
    alone: "Segment | None" = None
    """The segment without the sentences before it, which `ids` begin with; None where there are none."""


class SegmentedText(NamedTuple):
    """Text as the segments of each of its sentences."""

    layout: Layout
    sentences: list[list[Segment]]


@final
class Segmenter:
    """Cuts texts into segments that a model translates at once."""

    def __init__(self, tokenizer: LanguageTokenizer, *, max_length: int, direction: Direction = NO_DIRECTION) -> None:
        """`direction` says what precedes each segment, and counts in its length."""
        self._tokenizer = tokenizer
        self._encode = partial(direction.encode_sources, tokenizer)
        self._max_length = max_length

    def segment(
        self,
        texts: Sequence[Sequence[str]],
        heads: Sequence[Heads | None],
        first_line: int,
        *,
        splitter: Callable[[str], Layout],
    ) -> Iterator[list[SegmentedText]]:
        """Yield the segments of the blocks of each text; an error of a text is raised after the texts before it."""
        layouts, is_split = [list(map(splitter, blocks)) for blocks in texts], splitter is not whole_text
        sentences = [sentence for blocks in layouts for layout in blocks for sentence in layout.sentences]
        encoded = iter(self._encode(sentences))
        for line, (blocks, text, tree) in enumerate(zip(layouts, texts, heads, strict=True), first_line):
            sentences = [sentence for layout in blocks for sentence in layout.sentences]
            whole = " ".join(text)
            trees, ids = _split_heads(tree, whole, sentences), [next(encoded) for _ in sentences]
            all_ids = chain.from_iterable(ids)
            warn_unknown([whole], [all_ids], self._tokenizer, category=TranslationWarning, first=line)
            segments = (
                self._segments(*one, line=line, is_split=is_split) for one in zip(sentences, ids, trees, strict=True)
            )
            yield [SegmentedText(layout, [next(segments) for _ in layout.sentences]) for layout in blocks]

    def _segments(
        self, sentence: str, ids: list[int], heads: Heads | None, *, line: int, is_split: bool
    ) -> list[Segment]:
        """Return the segments of a sentence: none of an empty one; several, with a warning, of one that is too long."""
        if len(ids) <= self._max_length:
            return [Segment(sentence, ids, heads)] * bool(ids)
        check_line_length(MAX_LINE_LENGTH, len(ids), line)
        parts = split_long_text(sentence, lambda text: len(self._encode([text])[0]) <= self._max_length)
        trees = _split_heads(heads, sentence, parts)
        segments = [Segment(*one) for one in zip(parts, self._encode(parts), trees, strict=True) if one[1]]
        beginning = f"a sentence of {len(ids)} tokens is" if is_split else f"{len(ids)} tokens are"
        name, remedy = ("it", "") if is_split else ("the text", "split it by sentences")
        message = (
            f"{beginning} too long to be translated at once (at most {self._max_length}); "
            f"{name} was translated in {len(segments)} segments"
        )
        many = f"{'sentences' if is_split else 'texts'} have more than {self._max_length} tokens"
        problem = f"{many} and were translated in segments"
        warn(TranslationWarning("line", line, message, problem=problem, remedy=remedy))
        return segments


def check_line_length(limit: int, length: int, line: int) -> None:
    """Raise TextError where a text has more tokens than the limit."""
    if length > limit:
        message = f"{length} tokens, more than the {limit} of the longest text; give a sentence or a paragraph"
        raise TextError("line", line, message)


def whole_text(text: str) -> Layout:
    """Keep the text as one sentence, or none if it has nothing but white space, which no model translates."""
    return Layout((text,), ("", "")) if text.strip() else Layout((), (text,))


def build_splitter(
    split: Split | None, language: str | None, *, default: str = DEFAULT_LANGUAGE
) -> Callable[[str], Layout]:
    """Return the function that splits texts; `language` is the code of their language, if another than `default`.

    Languages without rules of their own use those of English. Raises ConfigError on invalid options and on options
    without effect.
    """
    if split is None:
        if language is not None:
            raise ConfigError(f"language = {language} has no effect without split = sentences; add it, or remove both")
        return whole_text
    if split != "sentences":
        raise ConfigError(f"split = {split} is unknown; the only choice is split = sentences")
    code = _language_code(default if language is None else language)
    from sentencex import segment  # type: ignore[import-untyped]  # most calls split nothing

    return partial(_split_sentences, split_line=partial(segment, code))


def _language_code(language: str) -> str:
    """Return the code that the splitter knows, without script and region: `de` for `DE` and `de_AT`."""
    code, *subtags = language.lower().replace("_", "-").split("-")
    is_code = code in TWO_LETTER_CODES or re.fullmatch("[a-z]{3}", code)
    if not is_code or not all(re.fullmatch("[a-z0-9]{2,8}", subtag) for subtag in subtags):
        raise ConfigError(f"language = {language!r} is no language code of ISO 639; give one such as en, de or pt-BR")
    return code


def split_long_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Return the text if it fits, else its halves, split in the same way; only white space is dropped.

    The cut is the one nearest to the middle, of the best kind in the middle half of the text, or between any two
    characters if there is none. A single character is never cut.
    """
    if len(text) < 2 or fits(text):
        return [text]
    end, start = _middle_break(text)
    halves = (text[:end], text[start:])
    return [part for half in halves if half for part in split_long_text(half, fits)]


def _split_heads(heads: Heads | None, text: str, parts: Sequence[str]) -> Sequence[Heads | None]:
    """Split the dependency tree of a text into those of its parts; without a tree PyTorch is not imported."""
    if heads is None:
        return [None] * len(parts)
    from dragoman.data.datasets import source_token_features

    return source_token_features.split_tree(heads, text, parts)


def _split_sentences(text: str, split_line: Callable[[str], Sequence[str]]) -> Layout:
    """Split each line; no sentence spans lines, and `split_line` keeps every character."""
    sentences, gaps = [], [""]
    for part in (part for line in text.splitlines(keepends=True) for part in _split_line(line, split_line)):
        sentence = part.strip()
        if not sentence:
            gaps[-1] += part
            continue
        begin = part.index(sentence)
        gaps[-1] += part[:begin]
        sentences.append(sentence)
        gaps.append(part[begin + len(sentence) :])
    return Layout(tuple(sentences), tuple(gaps))


def _split_line(line: str, split_line: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """Yield the sentences of a line, found within `SPLIT_LENGTH` characters, since `split_line` takes quadratic time.

    The last sentence of these characters is read again with the characters after it, unless it is all of them.
    """
    place = 0
    while len(line) - place > SPLIT_LENGTH:
        parts = split_line(line[place : place + SPLIT_LENGTH])
        for part in parts[:-1] or parts:
            yield part
            place += len(part)
    yield from split_line(line[place:])


def _middle_break(text: str) -> tuple[int, int]:
    """Return the end of the first half and the start of the second."""
    middle = len(text) / 2
    for breaks in BREAKS:
        places = [place.span() for place in breaks.finditer(text) if 0.5 <= place.start() / middle <= 1.5]
        if places:
            return min(places, key=lambda span: abs(span[0] - middle))
    return len(text) // 2, len(text) // 2
