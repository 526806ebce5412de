"""Constraints on outputs: phrases that must, or must not, appear, met inside of beam search.

Lexically constrained decoding by dynamic beam allocation (Post and Vilar, 2018; Hu et al., 2019). `phrase_automaton`
follows the phrases in an output, `constrained_beams` chooses the hypotheses of a beam.
"""

from dragoman.decoding.constraints.phrase_automaton import Phrase, PhraseAutomaton, PhraseKind

__all__ = ["Phrase", "PhraseAutomaton", "PhraseKind"]
