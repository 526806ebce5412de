"""Check of the words of an output on its text, and stricter phrases for another search.

The search compares tokens. A word can have other tokens than those of its phrase, as after a bracket, and a token
sequence can be a part of a longer word, so that the text decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

from dragoman.data.document_context import count_context_tokens
from dragoman.data.terminology.word_units import Span, find_copies, literal_texts
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.decoding.constraints import Phrase, PhraseAutomaton
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference.control.check_phrases import find_in_text, is_satisfied


@final
@dataclass(frozen=True, eq=False)
class OutputCheck:
    """Check of the outputs of one segment."""

    tokenizer: LanguageTokenizer
    source: str
    """Text of the segment: its paths, URLs and the like have no words where an output repeats them."""
    config: DecodingConfig | SamplingConfig
    """Search of an ordinary translation, without constraints."""
    limit: int = 0
    """Most tokens of an ordinary translation."""
    writes_context: bool = False
    """Whether outputs may begin with the translations of the sentences before."""

    def text(self, output: Hypothesis) -> str:
        """Return the text of an output, without its context."""
        return self.tokenizer.decode(self._tokens(output))

    def unmet(self, phrases: Sequence[Phrase], output: Hypothesis) -> tuple[Phrase, ...]:
        """Return the phrases that an output lacks, repeats or may not have."""
        text = self.text(output)
        literals = find_copies(text, self._literals)
        return tuple(phrase for phrase in phrases if not is_satisfied(phrase, text, literals))

    def is_met(self, phrases: Sequence[Phrase], output: Hypothesis) -> bool:
        """Return whether an output satisfies all phrases."""
        return not self.unmet(phrases, output)

    def stricter(self, automaton: PhraseAutomaton, output: Hypothesis) -> PhraseAutomaton:
        """Return an automaton that also knows the tokens of the words that an output has too often.

        Return the same automaton if there are no new tokens.
        """
        text, tokens = self.text(output), self._tokens(output)
        literals = find_copies(text, self._literals)
        phrases = []
        for phrase in automaton.phrases:
            if phrase.kind in ("once", "forbidden") and not is_satisfied(phrase, text, literals):
                spans = find_in_text(phrase, text, literals)
                sequences = [self._sequence(tokens, span, automaton) for span in spans]
                new = [sequence for sequence in sequences if sequence not in phrase.forms]
                phrases.append(replace(phrase, other_forms=tuple(dict.fromkeys([*phrase.other_forms, *new]))))
            else:
                phrases.append(phrase)
        is_same = tuple(phrases) == automaton.phrases
        return automaton if is_same else PhraseAutomaton(phrases, automaton.edges)

    @cached_property
    def _literals(self) -> tuple[str, ...]:
        return literal_texts(self.source)

    def _tokens(self, output: Hypothesis) -> tuple[int, ...]:
        if not self.writes_context:
            return output.tokens
        return output.tokens[count_context_tokens(self.tokenizer.ids_to_tokens(output.tokens)) :]

    def _sequence(self, tokens: Sequence[int], span: Span, automaton: PhraseAutomaton) -> tuple[int, ...]:
        """Return the tokens of a part of the text, from one that begins a word or follows the end of one."""
        ends = [len(self.tokenizer.decode(tokens[: count + 1])) for count in range(len(tokens))]
        first = next(place for place, end in enumerate(ends) if end > span[0])
        last = next(place for place, end in enumerate(ends) if end >= span[1])
        starts, word_ends = automaton.edges
        while first > 0 and not starts[tokens[first]] and not word_ends[tokens[first - 1]]:
            first -= 1
        return tuple(tokens[first : last + 1])
