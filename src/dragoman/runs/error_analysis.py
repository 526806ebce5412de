"""Runs and outputs analysed on a test set, and what the runs looked at in the sentences that went worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.data.tokenizers import Side
from dragoman.evaluation import Bleu, Paired, compare
from dragoman.evaluation.error_analysis import Analysis, analyse
from dragoman.inference.translator import Translator
from dragoman.interpret.forward_pass import Pass, watched
from dragoman.interpret.report.error_analysis import Looks
from dragoman.models.special_symbols import Symbols


@dataclass(frozen=True)
class Analysed:
    """One system: what is said of it, and what it wrote."""

    analysis: Analysis
    looks: Looks
    """Nothing where only its outputs are known."""
    outputs: Sequence[str]


def differences(systems: Sequence[Analysed], references: Sequence[str]) -> list[Paired]:
    """The BLEU of every system beside that of the first, with both tests; nothing of one system alone."""
    if len(systems) < 2:
        return []
    return compare({str(number): one.outputs for number, one in enumerate(systems)}, [references], [Bleu()])


def analyse_run(
    name: str,
    translator: Translator,
    *,
    sources: Sequence[str],
    references: Sequence[str],
    frequencies: Mapping[str, int] | None,
    beam: int | None,
    worst: int,
) -> Analysed:
    """Translate the sources and analyse the outputs, with the attention of the `worst` sentences."""
    found = [best for best, *_ in translator.hypotheses(sources, translator.searching(beam=beam))]
    outputs = [one.text for one in found]
    analysis = analyse(name, outputs, sources=sources, references=references, frequencies=frequencies, worst=worst)
    looks = {
        bad.number: _look(translator, bad.source, list(found[bad.number].hypothesis.tokens))
        for bad in analysis.worst
        if bad.source.strip() and translator.reads_whole(bad.source)
    }
    return Analysed(analysis, looks, outputs)


def _look(translator: Translator, source: str, output: list[int]) -> tuple[list[str], list[str], Pass]:
    tokenizer = translator.tokenizer
    ids = tokenizer.source.encode(source)
    (passed,) = watched(translator.model, [ids], [output], symbols=Symbols())
    return _readable(tokenizer.source, passed.source), _readable(tokenizer.target, passed.target), passed


def _readable(side: Side, ids: Sequence[int]) -> list[str]:
    return [token.strip("▁ ") or token for token in side.tokens(ids)]
