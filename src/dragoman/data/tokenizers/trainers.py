"""Learning the pieces of a vocabulary from a corpus; the same corpus always gives the same vocabulary."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, assert_never

import tokenizers
from tokenizers import Regex, models, pre_tokenizers, trainers

from dragoman.data.tokenizers.config import Bpe, Characters, TokenizerSettings, Unigram, Words, reserved
from dragoman.data.tokenizers.normalization import Preparation
from dragoman.data.tokenizers.unigram import learn_unigram
from dragoman.data.tokenizers.vocabulary import SPECIALS, Merges, Scores, Segmentation, WholeWords
from dragoman.errors import DataError

Texts = Callable[[], Iterable[str]]


def learn(texts: Texts, settings: TokenizerSettings) -> Segmentation:
    """The segmentation of texts, which are asked for once a pass. Raises DataError where there is no text at all."""
    preparation = settings.preparation()
    match settings:
        case Bpe():
            learnt: Segmentation = _learn_merges(lambda: _prepared(texts(), preparation), settings)
        case Unigram():
            learnt = _learn_scores(_prepared(texts(), preparation), settings)
        case Characters():
            learnt = _learn_characters(_prepared(texts(), preparation), settings)
        case Words():
            learnt = _learn_words(_prepared(texts(), preparation), settings)
        case _:
            assert_never(settings)
    if learnt.pieces[-1] in reserved(byte_fallback=True):
        raise DataError("tokenizer: the corpus holds no text to learn a vocabulary from; check the training files")
    return learnt


def _prepared(texts: Iterable[str], preparation: Preparation) -> Iterator[str]:
    for text in texts:
        yield preparation.mark(preparation.normalise(text))


def _learn_merges(texts: Texts, settings: Bpe) -> Merges:
    head = reserved(settings.byte_fallback)
    room = settings.vocabulary - len(head)
    limit = max(1, room // 2)
    trainer = trainers.BpeTrainer(
        vocab_size=room,
        min_frequency=settings.minimum_count,
        limit_alphabet=limit,
        # Left to itself, the library draws lots among characters that are equally rare.
        initial_alphabet=list(_most_frequent(_count_characters(texts()), limit)),
        special_tokens=[],
        show_progress=False,
    )
    engine = _untrained(models.BPE(), settings.preparation())
    engine.train_from_iterator(texts(), trainer)
    merges = tuple((str(left), str(right)) for left, right in _model_of(engine)["merges"])
    return Merges(head + _in_order(engine), merges)


def _learn_characters(texts: Iterable[str], settings: Characters) -> Merges:
    head = reserved(settings.byte_fallback)
    return Merges(head + _most_frequent(_count_characters(texts), settings.vocabulary - len(head)), ())


def _learn_words(texts: Iterable[str], settings: Words) -> WholeWords:
    counts = count_words(texts, settings.preparation())
    frequent = {word: count for word, count in counts.items() if count >= settings.minimum_count}
    return WholeWords(SPECIALS + _most_frequent(frequent, settings.vocabulary - len(SPECIALS)))


def _learn_scores(texts: Iterable[str], settings: Unigram) -> Scores:
    head = reserved(settings.byte_fallback)
    learnt = learn_unigram(count_words(texts, settings.preparation()), pieces=settings.vocabulary - len(head))
    return Scores(head + tuple(learnt), (0.0,) * len(head) + tuple(learnt.values()))


def _count_characters(texts: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return counts


def count_words(texts: Iterable[str], preparation: Preparation) -> Counter[str]:
    """How often each unit of the prepared texts occurs."""
    split = pre_tokenizers.Split(Regex(preparation.pattern()), behavior="isolated").pre_tokenize_str
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update([word for word, _ in split(text)] if text else [])
    return counts


def _untrained(model: models.Model, preparation: Preparation) -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer(model)
    engine.pre_tokenizer = pre_tokenizers.Split(Regex(preparation.pattern()), behavior="isolated")
    return engine


def _in_order(engine: tokenizers.Tokenizer) -> tuple[str, ...]:
    vocabulary = engine.get_vocab(with_added_tokens=False)
    return tuple(sorted(vocabulary, key=vocabulary.__getitem__))


def _model_of(engine: tokenizers.Tokenizer) -> dict[str, Any]:
    model: dict[str, Any] = json.loads(engine.to_str())["model"]
    return model


def _most_frequent(counts: Mapping[str, int], size: int) -> tuple[str, ...]:
    """The `size` most frequent entries, most frequent first, ties in the order of code points."""
    return tuple(sorted(counts, key=lambda entry: (-counts[entry], entry))[:size])
