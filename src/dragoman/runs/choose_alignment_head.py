"""Choice of the cross-attention that aligns the words of a model best, measured without gold alignments.

IBM Model 1 aligns held-out pairs in both directions, and only links of both count: they are few, and mostly right. The
head that has most of them aligns best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from dragoman.data.terminology.word_lexicon import WordLexicon
from dragoman.evaluation.alignment_error_rate import Links
from dragoman.inference.translator import Translator
from dragoman.interpret.attention_recorder import ForwardPass, record_pairs
from dragoman.interpret.word_alignment import Words, WordWeights, link_targets, rank_alignment_heads, words_of_text
from dragoman.models.alignment_head import AlignmentHead
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.nn.blocks import DecoderBlock
from dragoman.runs.load import load_torch_model

MAX_PAIRS: Final = 300
"""Pairs whose attention is recorded."""
MAX_TOKENS: Final = 100
"""Tokens of a side above which a pair is left out: attention takes quadratic memory."""
_BATCH: Final = 16
_MIN_GAIN: Final = 0.02
"""Share of links that a head must have above the default, so that noise does not choose it."""


@final
@dataclass(frozen=True, slots=True)
class HeadChoice:
    """Cross-attention that aligns best, and the shares of the links of a lexicon that it and the default have."""

    head: AlignmentHead
    share: float
    default_share: float

    def describe(self) -> str:
        """Return a line about the choice."""
        heads = "mean of the heads" if self.head.head is None else f"head {self.head.head + 1}"
        shifted = " of the next step" if self.head.shifted else ""
        return (
            f"word alignment: {heads}{shifted} in layer {self.head.layer + 1}, with {100 * self.share:.0f} % of the "
            f"links of a lexicon; by default {100 * self.default_share:.0f} %\n"
        )


def choose_alignment_head(run: str | Path, sources: Sequence[str], references: Sequence[str]) -> HeadChoice | None:
    """Return the head to align by, the default unless another one is better.

    None for models without a choice: recurrent and multilingual ones, and students trained to align by one head.
    """
    translator = load_torch_model(run, Translator, device="cpu")
    model, tokenizer = translator.model, translator.tokenizer
    if not isinstance(model, EncoderDecoderTransformer) or tokenizer.prefixes.languages:
        return None
    blocks = [one for one in model.modules() if isinstance(one, DecoderBlock)]
    if any(one.ssru is not None for one in blocks) or translator.backend.needs_source_features:
        return None
    lexicon = WordLexicon.train(zip(sources, references, strict=True))
    recorded: list[tuple[ForwardPass, Words, Words]] = []
    sides = [
        (words_of_text(tokenizer.source, source), words_of_text(tokenizer.target, target))
        for source, target in list(zip(sources, references, strict=True))[:MAX_PAIRS]
    ]
    sides = [one for one in sides if all(0 < len(ids) <= MAX_TOKENS for ids, _ in one)]
    for first in range(0, len(sides), _BATCH):
        some = sides[first : first + _BATCH]
        passes = record_pairs(model, [source for (source, _), _ in some], [target for _, (target, _) in some])
        recorded += [(one, source, target) for one, ((_, source), (_, target)) in zip(passes, some, strict=True)]
    if not recorded:
        return None
    links = [_links(lexicon, source, target) for _, source, target in recorded]
    count = sum(map(len, links))
    if not count:
        return None

    def found_share(maps: list[WordWeights]) -> float:
        return sum(len(link_targets(one) & own) for one, own in zip(maps, links, strict=True)) / count

    ranked = rank_alignment_heads(recorded, found_share)
    default = AlignmentHead.default(len(blocks), ssru=False)
    default_share = dict(ranked)[default]
    head, share = ranked[0]
    chosen = (head, share) if share > default_share + _MIN_GAIN else (default, default_share)
    return HeadChoice(*chosen, default_share)


def _links(lexicon: WordLexicon, source: Words, target: Words) -> Links:
    words = [[_without_punctuation(word) for word in side.texts] for side in (source, target)]
    return frozenset(lexicon.align(*words))


def _without_punctuation(word: str) -> str:
    letters = [place for place, character in enumerate(word) if character.isalnum()]
    return word[letters[0] : letters[-1] + 1] if letters else word
