"""Tokens of one word together: people align words, networks look at pieces of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.typing import Float


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a sequence of tokens; `tokens[w]` are the places of word `w`, which may be none."""

    texts: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.texts)


def words_of_text(side: LanguageTokenizer, text: str) -> tuple[list[int], Words]:
    """The ids of a text, and its words as white space separates them.

    A word of which normalising leaves nothing has no tokens.
    """
    ids, spans = side.encode_with_offsets(text)
    texts = text.split()
    word_at = _word_at_each_character(text)
    places: list[list[int]] = [[] for _ in texts]
    for place, (begin, end) in enumerate(spans):
        word = word_at[max(begin, end - 1)] if text else None
        if word is not None:
            places[word].append(place)
    return ids, Words(tuple(texts), tuple(map(tuple, places)))


def words_of_ids(side: LanguageTokenizer, ids: Sequence[int]) -> Words:
    """The words that tokens spell: each begins at a space, and punctuation stands by itself."""
    groups: list[list[int]] = []
    tokens, after_mark = side.ids_to_tokens(ids), False
    for place, token in enumerate(tokens):
        mark = _is_mark(token)
        if not groups or token[:1] in (SPACE, " ") or mark or after_mark:
            groups.append([])
        groups[-1].append(place)
        after_mark = mark
    texts = [side.decode([ids[place] for place in group]) for group in groups]
    return Words(tuple(texts), tuple(map(tuple, groups)))


def merged(
    weights: Float[Tensor, "target_tokens source_tokens"], *, target: Words, source: Words
) -> Float[Tensor, "target_words source_words"]:
    """Of tokens, those of words: the sum over the tokens of a source word, the mean over those of a target word.

    Tokens that belong to no word, such as the end symbol, are left out.
    """
    columns = [weights[:, list(places)].sum(dim=1) for places in source.tokens]
    of_words = torch.stack(columns, dim=1) if columns else weights[:, :0]
    rows = [of_words[list(places)].mean(dim=0) if places else torch.zeros(len(source)) for places in target.tokens]
    return torch.stack(rows) if rows else of_words[:0]


def _is_mark(token: str) -> bool:
    """Whether a token is punctuation alone."""
    spelt = token.strip(f"{SPACE} ")
    return spelt != "" and not any(map(str.isalnum, spelt))


def _word_at_each_character(text: str) -> list[int | None]:
    """The number of the word that each character is of; none for white space."""
    words: list[int | None] = []
    number, inside = -1, False
    for character in text:
        begins = not character.isspace() and not inside
        inside = not character.isspace()
        number += begins
        words.append(number if inside else None)
    return words
