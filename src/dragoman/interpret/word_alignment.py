r"""Word alignments from attention weights, and from the predictions without each source word.

Rows of weights are target words, columns source words; links are pairs (source word, target word).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.array_types import Float, Int
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.decoding.forced_decoding import score_targets
from dragoman.errors import DataError
from dragoman.evaluation.alignment_error_rate import Links, alignment_agreement
from dragoman.interpret.attention_heads import mean_over_heads
from dragoman.interpret.attention_recorder import BuildFeatures, ForwardPass, as_module, eval_mode
from dragoman.models.alignment_head import AlignmentHead
from dragoman.models.protocols import EncoderDecoder
from dragoman.models.special_symbols import BOS, EOS, UNK

WordWeights = Float[Tensor, "target_words source_words"]
LinkFunction = Callable[[WordWeights], Links]
NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a token sequence."""

    texts: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    """Token positions of each word; a word may have none."""

    def __len__(self) -> int:
        return len(self.texts)


def words_of_text(tokenizer: LanguageTokenizer, text: str) -> tuple[list[int], Words]:
    """Return the ids of a text, and its words between white space; normalization may remove all tokens of a word."""
    ids, spans = tokenizer.encode_with_offsets(text)
    words = text.split()
    word_of_character = {n: word for word, match in enumerate(re.finditer(r"\S+", text)) for n in range(*match.span())}
    positions: list[list[int]] = [[] for _ in words]
    for position, (begin, end) in enumerate(spans):
        word = word_of_character.get(max(begin, end - 1))
        if word is not None:
            positions[word].append(position)
    return ids, Words(tuple(words), tuple(map(tuple, positions)))


def words_of_ids(tokenizer: LanguageTokenizer, ids: Sequence[int]) -> Words:
    """Return the words that tokens form: each begins with a space, and punctuation is a word of its own."""
    groups: list[list[int]] = []
    after_punctuation = False
    for position, token in enumerate(tokenizer.ids_to_tokens(ids)):
        text = token.strip(f"{SPACE} ")
        punctuation = text != "" and not any(map(str.isalnum, text))
        if not groups or token[:1] in (SPACE, " ") or punctuation or after_punctuation:
            groups.append([])
        groups[-1].append(position)
        after_punctuation = punctuation
    texts = [tokenizer.decode([ids[position] for position in group]) for group in groups]
    return Words(tuple(texts), tuple(map(tuple, groups)))


def merge_tokens(weights: Float[Tensor, "target_tokens source_tokens"], *, target: Words, source: Words) -> WordWeights:
    """Merge token weights to word weights: sums over the tokens of a source word, means over those of a target word.

    Tokens outside of words, such as the end symbol, are dropped.
    """
    columns = [weights[:, list(positions)].sum(dim=1) for positions in source.tokens]
    merged = torch.stack(columns, dim=1) if columns else weights[:, :0]
    rows = [
        merged[list(positions)].mean(dim=0) if positions else torch.zeros(len(source)) for positions in target.tokens
    ]
    return torch.stack(rows) if rows else merged[:0]


def decrease_without_words(
    ids: Int[Tensor, " positions"],
    words: Words,
    log_probs: Callable[[Int[Tensor, "rows positions"]], Float[Tensor, "rows outcomes"]],
    *,
    batch_size: int = 64,
) -> Float[Tensor, "words outcomes"]:
    """Return the decrease of each log-probability when the tokens of a word are replaced by unknown symbols."""
    texts = ids.repeat(1 + len(words), 1)
    for row, positions in enumerate(words.tokens, start=1):
        texts[row, list(positions)] = UNK
    found = torch.cat([log_probs(batch).cpu() for batch in texts.split(batch_size)])
    return found[:1] - found[1:]


def alignment_heads(forward_pass: ForwardPass) -> Iterator[AlignmentHead]:
    """Yield every choice: mean and single heads of every layer, shifted and not."""
    weights = forward_pass.weights
    layers, heads = weights["cross"].shape[:2] if "cross" in weights else (0, 0)
    for layer in range(layers):
        for head in (None, *range(heads)) if heads > 1 else (None,):
            yield AlignmentHead(layer, head, shifted=False)
            yield AlignmentHead(layer, head, shifted=True)


def word_attention(forward_pass: ForwardPass, choice: AlignmentHead, *, source: Words, target: Words) -> WordWeights:
    """Return the attention of each target word to each source word.

    Raises DataError if the model has no cross-attention.
    """
    if "cross" not in forward_pass.weights:
        raise DataError("The model has no cross-attention to read an alignment from. Use leave_one_out.")
    heads = forward_pass.weights["cross"][choice.layer]
    weights = mean_over_heads(heads[None])[0] if choice.head is None else heads[choice.head]
    return merge_tokens(weights[1:] if choice.shifted else weights[:-1], target=target, source=source)


def link_targets(weights: WordWeights) -> Links:
    """Link each target word to the source word of largest weight, unless all weights are zero."""
    links = zip(weights.argmax(dim=1).tolist(), range(len(weights)), strict=True) if weights.numel() else ()
    return frozenset((source, target) for source, target in links if weights[target, source] > 0)


def link_sources(weights: WordWeights) -> Links:
    """Link each source word to the target word of largest weight, unless all weights are zero."""
    return frozenset((source, target) for target, source in link_targets(weights.T))


def link_by_share(weights: WordWeights, *, min_share: float = 0.25) -> Links:
    """Link each target word to every source word with at least this share of its weights: many-to-many."""
    found = weights >= min_share * weights.sum(dim=1, keepdim=True).clamp(min=1e-9)
    return frozenset((source, target) for target, source in found.nonzero().tolist())


def link_both(weights: WordWeights) -> Links:
    """Symmetrize the links of target words and of source words: many-to-many."""
    return grow_diagonal(link_targets(weights), link_sources(weights))


def grow_diagonal(one: Links, other: Links) -> Links:
    """Symmetrize two alignments by grow-diag (Koehn et al., 2003).

    Starts from the intersection, and adds neighboring links of the union whose source or target word is not linked yet.
    """
    union = one | other
    links = set(one & other)
    queue = sorted(links)
    while queue:
        source, target = queue.pop(0)
        for source_step, target_step in NEIGHBORS:
            near = (source + source_step, target + target_step)
            free = near[0] not in {link[0] for link in links} or near[1] not in {link[1] for link in links}
            if near in union and near not in links and free:
                links.add(near)
                queue.append(near)
    return frozenset(links)


def rank_alignment_heads(
    pairs: Sequence[tuple[ForwardPass, Words, Words]], score: Callable[[list[WordWeights]], float]
) -> list[tuple[AlignmentHead, float]]:
    """Rank all choices on sentence pairs (forward pass, source words, target words), best first, with their scores.

    `score` evaluates the weights of all pairs: 1 - AER with a gold alignment, otherwise `agreement_with` the links of a
    model of the other direction, or of leaving words out. The agreement of target and source links within one map does
    not suffice, because a head that always attends to the previous word agrees with itself. Raises DataError if the
    model has no cross-attention.
    """
    if not pairs or "cross" not in pairs[0][0].weights:
        raise DataError("There is no cross-attention to rank. Use leave_one_out.")
    ranked = [
        (choice, score([word_attention(one, choice, source=source, target=target) for one, source, target in pairs]))
        for choice in alignment_heads(pairs[0][0])
    ]
    return sorted(ranked, key=lambda one: -one[1])


def agreement_with(expected: Sequence[Links], link: LinkFunction | None = None) -> Callable[[list[WordWeights]], float]:
    """Return a score: the agreement of links, by default of `link_targets`, with other links of the same pairs."""
    return lambda maps: alignment_agreement(list(map(link or link_targets, maps)), expected)


@torch.no_grad()
def leave_one_out(
    model: EncoderDecoder[Any, Any],
    source: Sequence[int],
    target: Sequence[int],
    *,
    source_words: Words,
    target_words: Words,
    source_features: BuildFeatures | None = None,
    batch_size: int = 64,
) -> WordWeights:
    r"""Compute $\log p(y_i \mid y_{<i}, x) - \log p(y_i \mid y_{<i}, x_{\setminus j})$ in nats, or 0 if it is negative.

    The tokens of word $j$ are replaced by the unknown symbol. Prediction difference of Li et al. (2019, section 3.2)
    instead uses probabilities, and zeros as the embedding. Works for models without attention too.
    """
    device = next(as_module(model).parameters()).device
    given, expected = (torch.tensor([ids], device=device) for ids in ([BOS, *target], [*target, EOS]))

    def log_probs(batch: Int[Tensor, "rows positions"]) -> Float[Tensor, "rows target"]:
        rows, length = batch.shape
        scores = score_targets(
            model,
            batch,
            torch.full((rows,), length, device=device),
            target=given.expand(rows, -1),
            expected=expected.expand(rows, -1),
            source_features=None if source_features is None else source_features([source] * rows),
        )
        return scores[:, :-1]

    with eval_mode(as_module(model)):
        ids = torch.tensor([*source, EOS], device=device)
        losses = decrease_without_words(ids, source_words, log_probs, batch_size=batch_size).clamp(min=0.0)
    words = [losses[:, list(positions)].sum(dim=1) for positions in target_words.tokens]
    return torch.stack(words) if words else losses.new_zeros(0, len(source_words))
