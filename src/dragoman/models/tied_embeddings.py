"""Which of the three tables of words, that of the source, of the target and of the unembedding, are one."""

from typing import Literal, assert_never

from torch import nn

from dragoman.errors import ConfigError

TieEmbeddings = Literal["all", "target", "none"]
"""What shares the unembedding's weight: both embeddings, the target's, or none (Press and Wolf, 2017)."""


def build_tied_embeddings(
    tie: TieEmbeddings, *, source_vocabulary: int, target_vocabulary: int, embedding_size: int, size: int
) -> tuple[nn.Embedding, nn.Embedding, nn.Embedding]:
    """The embeddings of source and target, of `embedding_size`, and the table of `size` whose weight unembeds.

    A table that is tied to an embedding has its size. Raises ConfigError where vocabularies that differ are to be one.
    """
    source = nn.Embedding(source_vocabulary, embedding_size)
    match tie:
        case "all":
            if source_vocabulary != target_vocabulary:
                raise ConfigError(
                    f"model.tie_embeddings = all needs one vocabulary for both sides, but they hold {source_vocabulary} and "
                    f"{target_vocabulary} entries; set tokenizer.shared=true or model.tie_embeddings=target"
                )
            return source, source, source
        case "target":
            target = nn.Embedding(target_vocabulary, embedding_size)
            return source, target, target
        case "none":
            target = nn.Embedding(target_vocabulary, embedding_size)
            return source, target, nn.Embedding(target_vocabulary, size)
        case _:
            assert_never(tie)
