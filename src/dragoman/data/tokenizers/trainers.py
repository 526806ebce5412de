"""Training of subword models; the same corpus always gives the same model."""

import io
import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import chain, cycle, islice
from typing import Any, assert_never

import tokenizers
from tokenizers import Regex, models, pre_tokenizers, trainers

from dragoman.data.tokenizers.config import (
    BpeConfig,
    CharacterConfig,
    TrainedTokenizerConfig,
    UnigramConfig,
    WordConfig,
    reserved_tokens,
)
from dragoman.data.tokenizers.normalization import SPACE, TextNormalizer
from dragoman.data.tokenizers.vocabulary import (
    SPECIAL_TOKENS,
    BpeModel,
    SubwordModel,
    UnigramModel,
    WordModel,
    with_pretokenizer,
)
from dragoman.errors import DataError

Texts = Callable[[], Iterable[str]]

MAX_TOKEN_LENGTH = 16
"""Characters of a token of a unigram model."""
MAX_UNIT_BYTES = 2**16
"""Size above which SentencePiece skips a unit."""
MAX_UNITS = 5_000_000
"""Units that SentencePiece holds in memory, repetitions included; of a larger corpus, every n-th unit is read."""

_PLACEHOLDERS = {character: chr(0xFDD0 + place) for place, character in enumerate([SPACE, " ", "\t", "\n", "\r"])}
"""Noncharacters for the characters that SentencePiece treats in a way of its own."""
_TO_PLACEHOLDERS = str.maketrans(_PLACEHOLDERS)
_FROM_PLACEHOLDERS = str.maketrans({placeholder: character for character, placeholder in _PLACEHOLDERS.items()})

_SENTENCEPIECE_OPTIONS: dict[str, Any] = {
    "hard_vocab_limit": False,
    "character_coverage": 1.0,
    "max_sentencepiece_length": MAX_TOKEN_LENGTH,
    "max_sentence_length": MAX_UNIT_BYTES,
    "split_by_unicode_script": False,
    "split_by_number": False,
    "normalization_rule_name": "identity",
    "add_dummy_prefix": False,
    "remove_extra_whitespaces": False,
    "shuffle_input_sentence": False,
    "num_threads": 1,
    "unk_id": 0,
    "bos_id": -1,
    "eos_id": -1,
    "minloglevel": 2,
}


def train_model(texts: Texts, config: TrainedTokenizerConfig) -> SubwordModel:
    """Train on texts; `texts` is called once per pass. Raises DataError if there is no text."""
    normalizer = config.normalizer()

    def normalized() -> Iterator[str]:
        return map(normalizer.normalize_and_escape, texts())

    match config:
        case BpeConfig():
            model: SubwordModel = _train_bpe(normalized, config)
        case UnigramConfig():
            head = reserved_tokens(config.byte_fallback)
            scores = unigram_scores(lambda: _units(normalized(), normalizer), vocab_size=config.vocab_size - len(head))
            model = UnigramModel(head + tuple(scores), (0.0,) * len(head) + tuple(scores.values()))
        case CharacterConfig():
            head = reserved_tokens(config.byte_fallback)
            characters = Counter(chain.from_iterable(normalized()))
            model = BpeModel(head + _most_frequent(characters, config.vocab_size - len(head)), ())
        case WordConfig():
            counts = count_words(normalized(), normalizer)
            frequent = {word: count for word, count in counts.items() if count >= config.min_frequency}
            model = WordModel(SPECIAL_TOKENS + _most_frequent(frequent, config.vocab_size - len(SPECIAL_TOKENS)))
        case _:
            assert_never(config)
    if model.vocab[-1] in reserved_tokens(byte_fallback=True):
        raise DataError("tokenizer: the corpus holds no text to train a vocabulary on; check the training files")
    return model


def count_words(texts: Iterable[str], normalizer: TextNormalizer) -> Counter[str]:
    """Count the units of normalized texts."""
    return Counter(_units(texts, normalizer))


def _train_bpe(texts: Texts, config: BpeConfig) -> BpeModel:
    head = reserved_tokens(config.byte_fallback)
    room = config.vocab_size - len(head)
    max_characters = max(1, room // 2)
    trainer = trainers.BpeTrainer(
        vocab_size=room,
        min_frequency=config.min_frequency,
        limit_alphabet=max_characters,
        # Without it, the library chooses at random among equally rare characters.
        initial_alphabet=list(_most_frequent(Counter(chain.from_iterable(texts())), max_characters)),
        special_tokens=[],
        show_progress=False,
    )
    tokenizer = with_pretokenizer(tokenizers.Tokenizer(models.BPE()), config.normalizer())
    tokenizer.train_from_iterator(texts(), trainer)
    merges = tuple((str(left), str(right)) for left, right in json.loads(tokenizer.to_str())["model"]["merges"])
    vocab = tokenizer.get_vocab(with_added_tokens=False)
    return BpeModel(head + tuple(sorted(vocab, key=vocab.__getitem__)), merges)


def unigram_scores(units: Texts, *, vocab_size: int) -> dict[str, float]:
    """Train SentencePiece (Kudo, 2018) on units: tokens with their log-probabilities, most probable first.

    The most frequent characters fill at most half of the vocabulary; units are cut at all other characters. `units` is
    called once per pass.
    """
    characters: Counter[str] = Counter()
    num_units = 0
    for unit in units():
        characters.update(unit)
        num_units += 1
    known = set(_most_frequent(characters, max(1, vocab_size // 2)))
    if not known:
        return {}
    import sentencepiece

    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_sentences(islice(units(), 0, None, -(-num_units // MAX_UNITS)), known),
        model_writer=content,
        model_type="unigram",
        vocab_size=vocab_size + 2,  # the unknown token and the tab of `_sentences`
        **_SENTENCEPIECE_OPTIONS,
    )
    trained = sentencepiece.SentencePieceProcessor(model_proto=content.getvalue())
    found = {
        trained.id_to_piece(index).translate(_FROM_PLACEHOLDERS): trained.get_score(index)
        for index in range(1, trained.get_piece_size())
        if "\t" not in trained.id_to_piece(index)
    }
    best = sorted(found, key=lambda token: (-found[token], token))[:vocab_size]
    return {token: found[token] for token in best}


def _sentences(units: Iterable[str], known: Container[str]) -> Iterator[str]:
    """Yield the units, cut at unknown characters.

    A tab, which no token may hold, follows every second unit: SentencePiece takes substrings as seed tokens only if
    they occur before different characters.
    """
    end = cycle(("", "\t"))
    for unit in units:
        cut = "".join(character if character in known else "\0" for character in unit)
        for part in filter(None, cut.translate(_TO_PLACEHOLDERS).split("\0")):
            yield part + next(end)


def _units(texts: Iterable[str], normalizer: TextNormalizer) -> Iterator[str]:
    split = pre_tokenizers.Split(Regex(normalizer.pretokenization_pattern()), behavior="isolated").pre_tokenize_str
    for text in texts:
        yield from [unit for unit, _ in split(text)] if text else ()


def _most_frequent(counts: Mapping[str, int], size: int) -> tuple[str, ...]:
    """Return the `size` most frequent entries, most frequent first, ties in code point order."""
    return tuple(sorted(counts, key=lambda entry: (-counts[entry], entry))[:size])
