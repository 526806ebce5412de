"""Translations of texts, and how they are joined from those of their segments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.data.terminology.glossary import Term
from dragoman.data.terminology.matching import TermMatch
from dragoman.data.text_places import TextTrace
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import hypothesis_score
from dragoman.errors import TextWarning
from dragoman.html_tables import html_table
from dragoman.inference.quality_signals import ModelTexts, QualitySignals, quality_signals


class TranslationWarning(TextWarning):
    """Warning about the translation of one text; the message names the text."""


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of a text; `tokens` are its subwords in readable form."""

    text: str
    hypothesis: Hypothesis
    tokens: tuple[str, ...]
    segments: int = 1
    """Segments that the text was translated in: 0 of an empty text, several of one that is long or split."""
    unmet: tuple[str, ...] = ()
    """Words of constraints that it lacks, repeats, or should not have."""
    parts: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Text of each segment and its translation, as the model read and wrote them."""
    markup_problems: tuple[str, ...] = ()
    """Tags of the text without a partner, and tags whose places in the translation are guesses."""
    terms: tuple[TermMatch[Term], ...] = field(default=(), compare=False)
    """Terms of the glossary in the text, by their places in it; those of markup by their places in its blocks."""
    placeholders: tuple[str, ...] = field(default=(), compare=False)
    """Placeholders of the text that were protected; an ICU message with branches is one."""
    model_texts: ModelTexts | None = field(default=None, compare=False)
    """What the model read and wrote; None where they are unknown."""
    free_log_probs: tuple[float, ...] | None = field(default=None, compare=False, repr=False)
    """Log-probabilities of the tokens that the search chose; None if it chose all of them."""
    trace: TextTrace | None = field(default=None, compare=False, repr=False)
    """Places of what the model read and wrote in the texts with their placeholders; None where they are the same."""

    @property
    def quality(self) -> QualitySignals:
        """Confidence of the model, and warnings about the text: what to look at."""
        return quality_signals(
            self.model_texts or ModelTexts("", self.text),
            self._chosen,
            finished=self.hypothesis.finished,
            unmet=self.unmet,
        )

    @property
    def _chosen(self) -> tuple[float, ...]:
        """Log-probabilities of the tokens that the search chose."""
        return self.hypothesis.token_log_probs if self.free_log_probs is None else self.free_log_probs

    @property
    def score(self) -> float:
        """Log-probability after the length penalty."""
        return self.hypothesis.score

    @property
    def log_prob(self) -> float:
        """Log-probability (natural logarithm) of all tokens, end symbol included."""
        return self.hypothesis.log_prob

    @property
    def truncated(self) -> bool:
        """Return whether the length limit cut the translation off before its end."""
        return not self.hypothesis.finished

    def to_dict(self) -> dict[str, Any]:
        """Return the object of this translation in the records of `dragoman translate --format jsonl`."""
        return {
            "text": self.text,
            "score": self.score,
            "log_prob": self.log_prob,
            "finished": self.hypothesis.finished,
            "truncated": self.truncated,
            "segments": self.segments,
            "tokens": list(self.tokens),
            "token_log_probs": list(self.hypothesis.token_log_probs),
            "quality": self.quality.to_dict(),
            **({"unmet": list(self.unmet)} if self.unmet else {}),
            **({"markup_problems": list(self.markup_problems)} if self.markup_problems else {}),
        }

    def __repr__(self) -> str:
        return f"Translation(text={self.text!r}, score={self.score:z.4f})"


class TranslationResult(tuple[Translation, ...]):
    """Translations of one text, best first, with the properties of the best.

    The result is a tuple: `result[1]` is the second translation, and `len(result)` the number of translations, which is
    1 unless `n_best` asks for more.
    """

    __slots__ = ()

    @property
    def n_best(self) -> tuple[Translation, ...]:
        """All translations, best first."""
        return self

    @property
    def text(self) -> str:
        """The best translation."""
        return self[0].text

    @property
    def score(self) -> float:
        """Score of the best translation."""
        return self[0].score

    @property
    def log_prob(self) -> float:
        """Log-probability of the best translation."""
        return self[0].log_prob

    @property
    def tokens(self) -> tuple[str, ...]:
        """Subwords of the best translation."""
        return self[0].tokens

    @property
    def segments(self) -> int:
        """Segments that the text was translated in."""
        return self[0].segments

    @property
    def truncated(self) -> bool:
        """Return whether the length limit cut the best translation off before its end."""
        return self[0].truncated

    @property
    def quality(self) -> QualitySignals:
        """Confidence of the model in the best translation, and warnings about its text."""
        return self[0].quality

    def to_dict(self) -> dict[str, Any]:
        """Return the record of `dragoman translate --format jsonl`, without the line number."""
        return {"translations": [one.to_dict() for one in self]}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        more = f", n_best={len(self)}" if len(self) > 1 else ""
        return f"TranslationResult(text={self.text!r}, score={self.score:z.4f}{more})"

    def _repr_html_(self) -> str:
        rows = [(rank, one.text, one.score) for rank, one in enumerate(self, start=1)]
        return html_table(["rank", "translation", "score"], rows)


EMPTY = Translation(text="", hypothesis=Hypothesis((), 0.0, 0.0, (), finished=True), tokens=(), segments=0)
"""Translation of an empty text, made without the model."""


def join_translations(
    parts: Sequence[list[Translation]], config: DecodingConfig, *, join_texts: Callable[[list[str]], str]
) -> list[Translation]:
    """Join the translations of segments: best with best, second with second, and so on."""
    if not parts:
        return [replace(EMPTY, text=join_texts([]))]
    if len(parts) == 1:
        return [replace(one, text=join_texts([one.text])) for one in parts[0]]
    ranks = zip(*parts, strict=False)
    return [_join(ranked, config, text=join_texts([one.text for one in ranked])) for ranked in ranks]


def join_blocks(
    blocks: Sequence[list[Translation]], around: Sequence[str], config: DecodingConfig
) -> list[Translation]:
    """Join the translations of the blocks of a text: best with best, and so on, each text once.

    A block with fewer translations repeats its last one. `around` is the markup before each block and after the last.
    """
    if len(blocks) == 1:
        start, end = around
        return [replace(one, text=f"{start}{one.text}{end}") for one in blocks[0]] if start or end else blocks[0]
    count = max(map(len, blocks), default=1)
    padded = [[*some, *[some[-1]] * (count - len(some))] for some in blocks]
    joined = join_translations(padded, config, join_texts=lambda texts: fill_gaps(around, texts))
    different: dict[str, Translation] = {}
    for one in joined:
        different.setdefault(one.text, one)
    return list(different.values())


def fill_gaps(around: Sequence[str], texts: Sequence[str]) -> str:
    """Return texts with what stands before each and after the last."""
    return "".join(part for pair in zip(around, (*texts, ""), strict=True) for part in pair)


def _join(parts: Sequence[Translation], config: DecodingConfig, *, text: str) -> Translation:
    hypotheses = [part.hypothesis for part in parts]
    log_prob = sum(one.log_prob for one in hypotheses)
    return Translation(
        text=text,
        hypothesis=Hypothesis(
            tokens=tuple(token for one in hypotheses for token in one.tokens),
            log_prob=log_prob,
            score=hypothesis_score(log_prob, sum(one.length for one in hypotheses), config.penalty),
            token_log_probs=tuple(number for one in hypotheses for number in one.token_log_probs),
            finished=all(one.finished for one in hypotheses),
        ),
        tokens=tuple(token for part in parts for token in part.tokens),
        segments=sum(part.segments for part in parts),
        unmet=tuple(name for part in parts for name in part.unmet),
        parts=tuple(pair for part in parts for pair in part.parts),
        free_log_probs=tuple(number for part in parts for number in part._chosen),
        markup_problems=tuple(dict.fromkeys(problem for part in parts for problem in part.markup_problems)),
        terms=tuple(term for part in parts for term in part.terms),
        placeholders=tuple(name for part in parts for name in part.placeholders),
        model_texts=ModelTexts.join([part.model_texts for part in parts]),
    )
