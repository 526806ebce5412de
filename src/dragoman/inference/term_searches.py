"""Searches that put missing terms into translations, at the places where word alignment expects them.

A search that must write unlikely words writes them where they cost least, which is often the end of the sentence.
Therefore an unlikely term replaces the words of the first translation that its source is aligned to. A short search
chooses its form, and the word before it, such as an article that agrees with it. A second one continues the translation
after the term. Or the rest of the translation stays, whichever the model finds more probable. Terms follow one another
from left to right.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final, final

from dragoman.data.markup import TokenAlignment
from dragoman.data.terminology.mine_forms import has_inflection
from dragoman.data.tokenizers import Direction, Tokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.constraints import Phrase, PhraseAutomaton
from dragoman.decoding.hypothesis import Hypothesis, without_forced
from dragoman.errors import DataError
from dragoman.inference.backends.protocol import InferenceBackend
from dragoman.inference.control.output_check import OutputCheck
from dragoman.inference.control.pair_aligner import PairAligner
from dragoman.inference.control.term_places import SourceTerm, TermPlace, Translated, find_forms, missing_terms
from dragoman.inference.control.text_constraints import Constraint
from dragoman.inference.scheduler import Request
from dragoman.inference.text_segmentation import Segment
from dragoman.models.special_symbols import EOS, UNK

LOCAL_BEAM: Final = 8
"""Beam of the search for a term and the word before it."""
MIN_LOG_PROB: Final = -5.0
"""Log-probability of a token, natural logarithm, below which a term is likely to stand in a wrong place.

On the validation set of Multi30k, chrF with random terms is 66.6 to 66.7 from -4 to -8, 66.5 at -10 and 66.4 at -3.
"""
MAX_ROUNDS: Final = 12
"""Terms that are put into a segment one after the other."""
_SCORED_AT_ONCE: Final = 32

Searches = Generator[list[Request], list[list[Hypothesis]], None]
"""Yields requests, and receives the hypotheses of each."""


@final
@dataclass(frozen=True, eq=False, slots=True)
class SegmentTerms:
    """Terms that the outputs of a segment should have."""

    phrases: tuple[Phrase, ...]
    """The terms and the other constraints, as phrases."""
    reported: PhraseAutomaton | None
    """Phrases that are reported where a translation lacks them; preferred terms are not among them."""
    check: OutputCheck
    without_plural: frozenset[str]
    """Names of phrases for plurals that the glossary does not have: an inflection in the output suffices."""
    request: Callable[[], Request]
    """Build the search that must write them, wherever they fit."""
    segment: Segment
    terms: tuple[SourceTerm, ...]
    """Terms that have places; none if they cannot be placed."""
    others: tuple[Constraint, ...]
    """Constraints on the segment that are not of terms."""
    forced: tuple[int, ...]
    """Tokens that every output begins with."""
    prefix: str
    """Their text."""
    placer: "TermPlacer"

    def is_met(self, hypothesis: Hypothesis) -> bool:
        """Return whether an output has all terms."""
        missing = self.check.unmet(self.phrases, hypothesis)
        if missing and self.without_plural:
            text = self.check.text(hypothesis)
            return all(one.name in self.without_plural and has_inflection(text, one.texts) for one in missing)
        return not missing

    def is_fluent(self, output: Hypothesis) -> bool:
        """Return whether an output has all terms, and its constraints demanded no token that is most unlikely."""
        return self.is_met(output) and min(output.token_log_probs) >= MIN_LOG_PROB

    def has_each(self, output: Hypothesis) -> bool:
        """Return whether an output has each term as often as the segment."""
        if len({term.forms for term in self.terms}) == len(self.terms):
            return True
        text = self.placer.decode(output)
        return not missing_terms(self.terms, find_forms(text, [term.forms for term in self.terms]))


@dataclass(eq=False, slots=True)
class _Job:
    """Segment whose output lacks terms."""

    terms: SegmentTerms
    hypothesis: Hypothesis
    text: str
    done: int
    """Characters of the text that no longer change."""
    place: TermPlace | None = None
    begun: str = ""
    """The text up to the term that is put in place, and the term."""

    def lacks_terms(self) -> bool:
        """Return whether the text has a term less often than the segment."""
        terms = self.terms.terms
        return bool(missing_terms(terms, find_forms(self.text, [term.forms for term in terms])))


@final
class TermPlacer:
    """Puts terms into the translations of one call."""

    def __init__(
        self,
        backend: InferenceBackend[Any, Any],
        tokenizer: Tokenizer,
        direction: Direction,
        config: DecodingConfig,
        *,
        aligner: PairAligner,
        turn: Callable[[], AbstractContextManager[None]],
        request: Callable[[Segment, Sequence[int], Sequence[Constraint]], Request],
    ) -> None:
        """`request` builds that for a segment with what its output begins with, and with constraints."""
        self._backend = backend
        self._tokenizer = tokenizer
        self._direction = direction
        self._config = config
        self._aligner = aligner
        self._turn = turn
        self._build = request

    def place(self, given: Sequence[tuple[SegmentTerms, Hypothesis]], results: list[Hypothesis]) -> Searches:
        """Append to `results`, for each segment and its output, the output with the terms that have a place."""
        jobs = [self._job(*one) for one in given]
        active = jobs
        for _ in range(MAX_ROUNDS):
            active = self._find_places(active)
            if not active:
                break
            found = yield [self._local_request(job) for job in active]
            for job, outputs in zip(active, found, strict=True):
                self._begin(job, outputs)
            found = yield [self._continuation(job) for job in active]
            for job, outputs in zip(active, found, strict=True):
                self._continue(job, outputs)
        results += self._scored(jobs)

    def decode(self, output: Hypothesis) -> str:
        """Return the text of an output."""
        return self._tokenizer.target.decode(output.tokens)

    def _job(self, terms: SegmentTerms, hypothesis: Hypothesis) -> _Job:
        text = self._tokenizer.target.decode(hypothesis.tokens)
        return _Job(terms, hypothesis, text, len(terms.prefix) if text.startswith(terms.prefix) else len(text))

    def _find_places(self, jobs: Sequence[_Job]) -> list[_Job]:
        """Return the segments with a missing term that has a place."""
        jobs = [job for job in jobs if job.hypothesis.finished and job.lacks_terms()]
        self._aligner.align_ahead([(job.terms.segment.text, job.text) for job in jobs])
        found = []
        for job in jobs:
            alignment = self._align(job)
            if alignment is None:
                continue
            own = Translated(job.terms.segment.text, job.terms.terms, job.text, alignment)
            job.place = own.missing_place(job.done)
            if job.place is not None:
                found.append(job)
        return found

    def _align(self, job: _Job) -> TokenAlignment | None:
        source = job.terms.segment.text
        try:
            return self._aligner.align(source, job.text, [(source, job.text)])
        except DataError:  # a model without cross-attention
            return None

    def _local_request(self, job: _Job) -> Request:
        """Return the search for the word before a term and the form of the term."""
        assert job.place is not None, "a place was found"
        place, target = job.place, self._tokenizer.target
        # The search writes the space before the next word, which is a part of its first token.
        [forced] = self._direction.encode_targets(target, [place.before.rstrip()])
        longest = max(map(len, target.encode_batch(list(place.forms))))
        request = self._build(job.terms.segment, forced, [Constraint(place.forms)])
        extra = len(target.encode(place.gap)) if place.gap else 0
        config = self._config.model_copy(
            update={"beam_size": LOCAL_BEAM, "n_best": LOCAL_BEAM, "min_length": 0, "renormalize": False}
        )
        return replace(request, config=config, limit=min(request.limit, len(forced) + extra + longest))

    def _begin(self, job: _Job, outputs: Sequence[Hypothesis]) -> None:
        """Choose the beginning of the output, up to the term: the most probable one with a word before the term."""
        assert job.place is not None, "a place was found"
        place = job.place
        job.begun = place.before + place.gap + place.forms[0]
        for output in outputs:
            text = self._tokenizer.target.decode(output.tokens)
            inside = [one for one in find_forms(text, [place.forms]) if one.start >= len(place.before)]
            if not text.startswith(place.before) or not inside:
                continue
            between = text[len(place.before) : inside[0].start]
            if not place.gap:
                job.begun = place.before + inside[0].text
                return
            if between.strip() and place.words not in between:
                job.begun = text[: inside[0].end]
                return

    def _continuation(self, job: _Job) -> Request:
        """Return the search for the rest of an output after a term."""
        assert job.place is not None, "a place was found"
        place, terms = job.place, job.terms.terms
        [forced] = self._direction.encode_targets(self._tokenizer.target, [job.begun])
        later = find_forms(place.after, [term.forms for term in terms])
        needed = dict.fromkeys(Constraint(forms) for one in later for forms in one.terms)
        constraints = [*job.terms.others, *needed]
        can_write = UNK not in self._tokenizer.target.encode(place.words)
        if can_write and _is_replaced_once(job.text, place.words, terms):
            constraints.append(Constraint(place.words, kind="forbidden"))
        return self._build(job.terms.segment, forced, constraints)

    def _continue(self, job: _Job, outputs: Sequence[Hypothesis]) -> None:
        """Set the output to the one that was found, or to the old one with the term in its place."""
        assert job.place is not None, "a place was found"
        found = outputs[0]
        text = self.decode(found)
        is_whole_word = not text.removeprefix(job.begun)[:1].isalnum()
        if not found.finished or not text.startswith(job.begun) or not is_whole_word:
            text = job.begun + job.place.after
            [tokens] = self._direction.encode_targets(self._tokenizer.target, [text])
            if UNK in tokens:  # a part of a word that the vocabulary has as a whole only
                job.done = len(job.text)
                return
            found = replace(found, tokens=tuple(tokens), finished=True)
        job.hypothesis, job.text, job.done = found, text, len(job.begun)

    def _scored(self, jobs: Sequence[_Job]) -> list[Hypothesis]:
        """Return the outputs with the log-probabilities of all tokens."""
        changed = [job for job in jobs if job.place is not None and self._is_short(job.hypothesis)]
        for first in range(0, len(changed), _SCORED_AT_ONCE):
            some = changed[first : first + _SCORED_AT_ONCE]
            targets = [[*job.hypothesis.tokens, EOS] for job in some]
            with self._turn():
                found = self._backend.score(
                    [job.terms.segment.ids for job in some], targets, penalty=self._config.penalty
                )
            for job, scored in zip(some, found, strict=True):
                job.hypothesis = without_forced(scored, len(job.terms.forced), self._config.penalty)
        return [job.hypothesis for job in jobs]

    def _is_short(self, output: Hypothesis) -> bool:
        """Return whether the model can read an output."""
        return self._backend.max_length is None or len(output.tokens) < self._backend.max_length


def _is_replaced_once(text: str, words: str, terms: Sequence[SourceTerm]) -> bool:
    """Return whether words are in a translation only where a term replaces them, and are no part of a term."""
    forms = [form for term in terms for form in term.forms]
    return len(words) > 2 and len(find_forms(text, [(words,)])) == 1 and not find_forms(" ".join(forms), [(words,)])
