"""What must fit between the rooms of an experiment, whatever its task."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.config import Tree
from dragoman.data.config import DataSettings
from dragoman.data.readers import ParallelFiles
from dragoman.data.tokenizers import Bpe, TokenizerSettings, Unigram
from dragoman.models.config import CausalConfig, EncoderConfig, TransformerConfig
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.nn.sparse import LinformerConfig

Network = TransformerConfig | RecurrentConfig | CausalConfig | EncoderConfig
"""Any network that a task may train."""


def longest_places(model: Network) -> tuple[int, str] | None:
    """The longest sequence that a network knows, and the key that says so; None where there is no end."""
    if isinstance(model, RecurrentConfig):
        return None
    limits = [
        (attention.pattern.length, f"model.{role}.pattern.length")
        for role, attention, _ in model.self_attentions()
        if isinstance(attention.pattern, LinformerConfig)
    ]
    if (length := getattr(model.positions, "length", None)) is not None:
        limits.insert(0, (length, "model.positions.length"))
    return min(limits, key=lambda limit: limit[0]) if limits else None


def require_places(model: Network, longest: int, *, what: str, remedy: str) -> None:
    """Raises ValueError where the network knows fewer places than the longest sequence has."""
    limit = longest_places(model)
    if limit is not None and longest > limit[0]:
        raise ValueError(
            f"{limit[1]} = {limit[0]} is shorter than {what} of {longest} tokens, symbols included; raise it, or "
            f"{remedy}"
        )


def require_one_vocabulary(tokenizer: TokenizerSettings, *, dropout: bool = False) -> None:
    """Raises ValueError on settings for a second side, and on BPE dropout where no epoch is segmented anew."""
    if not tokenizer.shared:
        raise ValueError("tokenizer.shared = false: there is one network here, with one vocabulary; leave it out")
    if not dropout and isinstance(tokenizer, Bpe) and tokenizer.dropout:
        raise ValueError(
            f"tokenizer.dropout = {tokenizer.dropout} has no effect here, where texts are segmented once; leave it out"
        )


def require_start(start: Path | None, *, extend_vocabulary: int, adapters: bool) -> None:
    """Raises ValueError where something is to be added to the network of another run, and cannot be learnt there."""
    if start is None and (extend_vocabulary or adapters):
        key = f"extend_vocabulary = {extend_vocabulary}" if extend_vocabulary else "training.adapters"
        raise ValueError(f"{key} is about a network that was trained before; give that run as start, or leave it out")
    if extend_vocabulary and adapters:
        raise ValueError(
            f"extend_vocabulary = {extend_vocabulary}: new entries would learn nothing beside training.adapters, which "
            "leaves the embedding as it is; leave one of them out"
        )


def require_trees(data: DataSettings, tokenizer: TokenizerSettings, *, structural: bool) -> None:
    """Raises ValueError where a network with structural positions lacks trees, and where others are given any."""
    if structural and data.beside:
        raise ValueError(
            "data.beside has no trees, which model.positions.kind = structural needs of each source; leave one of them "
            "out"
        )
    beside = [(f"beside.{number}.corpus", one.corpus) for number, one in enumerate(data.beside)]
    for name, corpus in [("train", data.train), *beside, ("valid", data.valid), ("test", data.test)]:
        trees = corpus.source_trees if isinstance(corpus, ParallelFiles) else None
        if structural and corpus is not None and trees is None:
            raise ValueError(
                f"data.{name}.source_trees is not given: model.positions.kind = structural needs the dependency tree "
                "of each source; give a CoNLL-U file beside a corpus of kind files, or choose other positions"
            )
        if trees is not None and not structural:
            raise ValueError(
                f"data.{name}.source_trees = {trees} has no effect without model.positions.kind = structural; leave "
                "one of them out"
            )
    if structural and data.noise is not None:
        raise ValueError(
            "data.noise changes the words that the trees of model.positions.kind = structural are about; leave one of "
            "them out"
        )
    if structural:
        _require_words(tokenizer)


def _require_words(tokenizer: TokenizerSettings) -> None:
    """Raises ValueError where tokens do not tell which word of a tree they are of."""
    if not isinstance(tokenizer, Bpe | Unigram):
        raise ValueError(
            f"tokenizer.kind = {tokenizer.kind} does not go with structural positions: its pieces do not tell, known "
            "or unknown, where the words of a tree begin; choose bpe or unigram"
        )
    if tokenizer.whitespace == "keep":
        raise ValueError(
            "tokenizer.whitespace = keep does not go with structural positions: its words do not begin with a space, "
            "which tells where the words of a tree begin; choose collapse"
        )
    if tokenizer.normalisation == "nfkc":
        raise ValueError(
            "tokenizer.normalisation = nfkc does not go with structural positions: it may put spaces into the words of "
            "a tree; choose nfc or none"
        )


def with_white_space(tree: Mapping[str, Any]) -> Tree:
    """The settings of a tokenizer that keeps white space unless told otherwise; one of words cannot."""
    return {"whitespace": "keep", **tree} if tree.get("kind") != "words" else dict(tree)
