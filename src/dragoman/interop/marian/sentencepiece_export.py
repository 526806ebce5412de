"""SentencePiece models of tokenizers, as Marian and Firefox read them."""

import base64
from dataclasses import dataclass
from typing import final

from dragoman.data.tokenizers import ImportedTokenizer, LanguageTokenizer, SubwordTokenizer
from dragoman.data.tokenizers.vocabulary import SPECIAL_TOKENS, UnigramModel
from dragoman.errors import ConfigError
from dragoman.interop.marian.vocabulary_files import EOS, UNK
from dragoman.interop.sentencepiece_format import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    Piece,
    can_normalize,
    sentencepiece_content,
)
from dragoman.interop.vocabulary_order import ADDED, VocabularyOrder

_EOS_ID, _UNK_ID = 0, 1


@final
@dataclass(frozen=True)
class VocabularyFile:
    """SentencePiece model, and the order of its ids."""

    content: bytes
    order: VocabularyOrder


def export_vocabulary(tokenizer: LanguageTokenizer) -> VocabularyFile:
    """Return the vocabulary of a tokenizer; an imported one is the file that it comes from.

    Raises ConfigError, with the remedy, if SentencePiece cannot split texts in the same way.
    """
    if isinstance(tokenizer, ImportedTokenizer):
        tree = tokenizer.library.to_json()
        if tree["kind"] != "sentencepiece" or tree["vocabulary"] is not None:
            raise ConfigError(
                "tokenizer.kind = imported: it is no SentencePiece model with ids of its own, which Marian needs. "
                "Export the model to another format."
            )
        pad, unk, bos, eos = (None if index == ADDED else index for index in tokenizer.order[: len(SPECIAL_TOKENS)])
        order = VocabularyOrder(max(tokenizer.order) + 1, pad=pad, unk=unk, bos=bos, eos=eos)
        return VocabularyFile(base64.b64decode(tree["model"]), order)
    assert isinstance(tokenizer, SubwordTokenizer), "there are two kinds of tokenizers"
    model, normalizer = tokenizer.model, tokenizer.normalizer
    if not isinstance(model, UnigramModel):
        raise ConfigError(
            "tokenizer.kind: Firefox reads SentencePiece models of kind unigram. Train with "
            "--set tokenizer.kind=unigram."
        )
    if not can_normalize(normalizer):
        raise ConfigError(
            f"tokenizer.casing = {normalizer.casing}, tokenizer.whitespace = {normalizer.whitespace}: SentencePiece "
            "has preserve and collapse. Train with them."
        )
    pieces = [Piece(EOS, type=CONTROL), Piece(UNK, type=UNKNOWN)]
    bytes_ = {model.vocab[index] for index in tokenizer.byte_ids}
    for text, score in zip(model.vocab[len(SPECIAL_TOKENS) :], model.scores[len(SPECIAL_TOKENS) :], strict=True):
        pieces.append(Piece(text, score, BYTE if text in bytes_ else NORMAL))
    content = sentencepiece_content(pieces, kind="unigram", normalizer=normalizer)
    return VocabularyFile(content, VocabularyOrder(len(pieces), unk=_UNK_ID, eos=_EOS_ID))
