"""Runs and outputs analysed on a test set, and what the runs looked at in the sentences that went worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.evaluation import Bleu, Paired, compare
from dragoman.evaluation.error_analysis import Analysis, analyse
from dragoman.interpret.report.error_analysis import Looks
from dragoman.interpret.forward_pass import Pass, watched
from dragoman.models.special_symbols import SpecialSymbols
from dragoman.inference.translator import Translator


@dataclass(frozen=True)
class SystemAnalysis:
    """One system: what is said of it, and what it wrote."""

    analysis: Analysis
    looks: Looks
    """Nothing where only its outputs are known."""
    outputs: Sequence[str]


def compare_bleu(systems: Sequence[SystemAnalysis], references: Sequence[str]) -> list[Paired]:
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
) -> SystemAnalysis:
    """Translate the sources and analyse the outputs, with the attention of the `worst` sentences."""
    found = [best for best, *_ in translator.hypotheses(sources, translator.searching(beam=beam))]
    outputs = [one.text for one in found]
    analysis = analyse(name, outputs, sources=sources, references=references, frequencies=frequencies, worst=worst)
    looks = {
        bad.number: _record_attention(translator, bad.source, list(found[bad.number].hypothesis.tokens))
        for bad in analysis.worst
        if bad.source.strip() and translator.reads_whole(bad.source)
    }
    return SystemAnalysis(analysis, looks, outputs)


def _record_attention(translator: Translator, source: str, output: list[int]) -> tuple[list[str], list[str], Pass]:
    tokenizer = translator.tokenizer
    ids = tokenizer.source.encode(source)
    (passed,) = watched(translator.model, [ids], [output], symbols=SpecialSymbols())
    return _display_tokens(tokenizer.source, passed.source), _display_tokens(tokenizer.target, passed.target), passed


def _display_tokens(side: LanguageTokenizer, ids: Sequence[int]) -> list[str]:
    return [token.strip("▁ ") or token for token in side.ids_to_tokens(ids)]
