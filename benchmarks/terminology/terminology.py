"""Measure terms in translations as the shared tasks on terminology do: without, with proper, with random terms.

    python -m benchmarks.terminology.terminology plain=runs/plain terms=runs/terms --train train.en train.de \
        --source test.en --reference test.de

Proper terms are those of a glossary that is mined from the training text, with inflections, where the reference has one
of the forms. Random terms are up to three words of each source with the words of the reference that they are aligned
to. Every sentence has its own glossary of these terms. Texts are lower-cased and tokenized.
"""

import argparse
import random
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import dragoman
from benchmarks.collect_runs import update_results
from dragoman import Glossary, Term
from dragoman.data.readers.line_reader import read_lines
from dragoman.data.terminology.mine_forms import mine_forms
from dragoman.data.terminology.target_forms import check_terms, has_phrase
from dragoman.data.terminology.word_lexicon import WordLexicon
from dragoman.data.terminology.words import share_stem, split_words
from dragoman.data.tokenizers.reserved_symbols import TERM_SYMBOLS, has_reserved_symbols
from dragoman.evaluation import Bleu, Chrf, corpus_score
from dragoman.inference import TranslationWarning, Translator

HERE = Path(__file__).parent
MODES = ("none", "hard", "soft", "annotated")
FREQUENT_WORDS = 50
"""Most frequent words of the training text, which are no proper terms."""
MIN_COUNT = 5
"""Occurrences of a proper term in the training text."""
MIN_PROBABILITY = 0.4
"""Probability of its translation."""
RANDOM_TERMS = 3
"""Most random terms of a sentence."""


class Test(NamedTuple):
    """Sentences, their references, and the terms of each sentence."""

    sources: list[str]
    references: list[str]
    terms: list[Glossary]


def main() -> None:
    arguments = parse_arguments()
    training, test = read_pairs(*arguments.train), read_pairs(arguments.source, arguments.reference)
    lexicon = WordLexicon.train(training)
    glossary = mine_forms(mine_glossary(lexicon), training)
    tests = {"proper": proper_terms(glossary, test), "random": random_terms(lexicon, test, arguments.seed)}
    translators = {name: dragoman.load(folder, Translator) for name, folder in arguments.runs}
    rows = [
        {"run": name, "terms": kind, **row}
        for name, translator in translators.items()
        for kind, one in tests.items()
        for row in measure(translator, one, lexicon, arguments)
    ]
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "sentences": len(test),
        "beam_size": arguments.beam_size,
        "glossary": {"terms": len(glossary), "forms": sum(len(term.targets) for term in glossary.terms)},
        "terms": {
            kind: sum(len(one.find(source)) for source, one in zip(some.sources, some.terms, strict=True))
            for kind, some in tests.items()
        },
        "rows": rows,
    }
    update_results(arguments.out, tree)
    print(format_table(rows))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--train", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def read_pairs(source: Path, target: Path) -> list[tuple[str, str]]:
    """Return the pairs of two files."""
    sides = ([line for _, line in read_lines(path)] for path in (source, target))
    return list(zip(*sides, strict=True))


def mine_glossary(lexicon: WordLexicon) -> Glossary:
    """Return the words that are the most probable translations of each other, without the most frequent words."""
    frequent = lexicon.frequent(FREQUENT_WORDS)
    best = {word: max(found, key=found.__getitem__) for word, found in lexicon.forward.items()}
    back = {word: max(found, key=found.__getitem__) for word, found in lexicon.backward.items()}
    terms = [
        Term((word,), (translation,))
        for word, translation in best.items()
        if word not in frequent
        and lexicon.counts[word] >= MIN_COUNT
        and min(len(word), len(translation)) > 2
        and word.isalpha()
        and back.get(translation) == word
        and lexicon.forward[word][translation] >= MIN_PROBABILITY
    ]
    return Glossary(tuple(terms), match_variants=False)


def proper_terms(glossary: Glossary, test: Sequence[tuple[str, str]]) -> Test:
    """Return the terms of the glossary that a source has, and whose translation the reference has in any form."""
    each = []
    for source, reference in test:
        found = dict.fromkeys(term for match in glossary.find(source) for term in match.terms)
        terms = tuple(term for term in found if has_phrase(reference, term.targets))
        each.append(Glossary(terms, match_variants=False))
    return Test([source for source, _ in test], [reference for _, reference in test], each)


def random_terms(lexicon: WordLexicon, test: Sequence[tuple[str, str]], seed: int) -> Test:
    """Return words of each source with those of the reference that they are aligned to."""
    each = []
    for number, (source, reference) in enumerate(test):
        generator = random.Random(f"{seed}/{number}")
        words = split_words(source), split_words(reference)
        links = lexicon.align(*([word.text for word in side] for side in words))
        pairs = {
            words[0][one].text: words[1][other].text
            for one, other in links
            if words[0][one].is_word and words[1][other].is_word
        }
        drawn = generator.sample(sorted(pairs), min(len(pairs), generator.randint(1, RANDOM_TERMS)))
        each.append(Glossary(tuple(Term((word,), (pairs[word],)) for word in drawn), match_variants=False))
    return Test([source for source, _ in test], [reference for _, reference in test], each)


def measure(
    translator: Translator, test: Test, lexicon: WordLexicon, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return the scores of each mode; the modes alternate, and the time is the lowest of several."""
    modes = [
        mode for mode in MODES if mode != "annotated" or has_reserved_symbols(translator.tokenizer.source, TERM_SYMBOLS)
    ]
    outputs: dict[str, list[str]] = {}
    seconds: dict[str, list[float]] = {mode: [] for mode in modes}
    for _ in range(arguments.repeats):
        for mode in modes:
            control: dict[str, Any] = {} if mode == "none" else {"glossary": test.terms, "glossary_mode": mode}
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TranslationWarning)  # the success shows it
                found = translator.translate(test.sources, beam_size=arguments.beam_size, **control)
            seconds[mode].append(time.process_time() - start)
            outputs[mode] = [one.text for one in found]
    return [
        {"mode": mode, **score(test, outputs[mode], lexicon), "seconds": round(min(seconds[mode]), 1)} for mode in modes
    ]


def score(test: Test, outputs: Sequence[str], lexicon: WordLexicon) -> dict[str, float]:
    """Return BLEU, chrF, and the shares of terms that are met and that are translated consistently."""
    checks = [
        check.is_met
        for source, output, terms in zip(test.sources, outputs, test.terms, strict=True)
        for check in check_terms(terms, source, output)
    ]
    metrics = {"bleu": Bleu(tokenize="none"), "chrf": Chrf()}
    return {
        **{name: round(corpus_score(list(outputs), [test.references], one).value, 2) for name, one in metrics.items()},
        "success": round(100 * sum(checks) / len(checks), 2),
        "consistency": round(100 * consistency(test, outputs, lexicon), 2),
    }


def consistency(test: Test, outputs: Sequence[str], lexicon: WordLexicon) -> float:
    """Return the share of occurrences of terms that have the most frequent translation of their term.

    The translation of a word is the word of the output that it is aligned to; words with the same stem are equal.
    Terms that occur once do not count.
    """
    found: dict[str, list[str]] = {}
    for source, output, terms in zip(test.sources, outputs, test.terms, strict=True):
        words = split_words(source), split_words(output)
        links = dict(lexicon.align(*([word.text for word in side] for side in words)))
        starts = {match.start: match.terms[0].sources[0] for match in terms.find(source)}
        for place, word in enumerate(words[0]):
            if word.start in starts:
                translation = words[1][links[place]].text if place in links else ""
                known = found.setdefault(starts[word.start], [])
                known.append(next((one for one in known if one and share_stem(one, translation)), translation))
    several = [some for some in found.values() if len(some) > 1]
    return sum(Counter(some).most_common(1)[0][1] for some in several) / max(1, sum(map(len, several)))


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    names = ("run", "terms", "mode", "success", "consistency", "chrf", "bleu", "seconds")
    lines = [list(names), ["---", "---", "---", *["---:"] * 5]]
    lines += [[str(row[name]) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
