"""Count texts of a PO file whose word for a term is another one than in most texts, and measure chrF.

    python -m benchmarks.terminology.consistent_terms runs/en-pt coreutils-9.1/po/pt_BR.po

The glossary gives two words for each of nine terms, in singular and plural. The texts are the first 250 short ones with
a term and a translation, which is the reference.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import dragoman
from benchmarks.collect_runs import update_results
from dragoman import Glossary
from dragoman.data.documents.recognize import open_document
from dragoman.data.terminology.consistent_terms import choose_words
from dragoman.evaluation import Chrf, corpus_score
from dragoman.inference import Translator
from dragoman.runs.translate_file import FileOptions, translate_document

HERE = Path(__file__).parent
TERMS = {
    "file": "arquivo|arquivos|ficheiro|ficheiros",
    "directory": "diretório|diretórios|pasta|pastas",
    "output": "saída|saídas|resultado|resultados",
    "user": "usuário|usuários|utilizador|utilizadores",
    "error": "erro|erros|falha|falhas",
    "number": "número|números|quantidade|quantidades",
    "option": "opção|opções|alternativa|alternativas",
    "link": "link|links|ligação|ligações",
    "failed": "falhou|falharam|falha|erro",
}
MAX_TEXTS = 250
MAX_LENGTH = 90
"""Characters of a text."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    arguments = parser.parse_args()
    translator, glossary = dragoman.load(arguments.run, Translator), Glossary.from_pairs(TERMS)
    references = read_references(arguments.file, glossary)
    rows = [
        measure(translator, references, glossary, name, consistent=name == "one word")
        for name in ("none", "glossary", "one word")
    ]
    update_results(arguments.out, {"consistent": rows})
    print("| terms | texts with a term and one of its words | with another word than most | chrF | seconds |")
    print("|---|---:|---:|---:|---:|")
    for row in rows:
        print(f"| {' | '.join(str(row[name]) for name in ('control', 'terms', 'others', 'chrf', 'seconds'))} |")


def read_references(path: Path, glossary: Glossary) -> dict[str, str]:
    """Return texts of a file and their translations."""
    units = open_document(path.read_bytes(), name=path.name).units
    pairs = {
        unit.source: unit.target
        for unit in units
        if unit.target and unit.state == "translated" and len(unit.source) < MAX_LENGTH
        if "\n" not in unit.source.strip() and glossary.find(unit.source)
    }
    return dict(list(pairs.items())[:MAX_TEXTS])


def measure(
    translator: Translator, references: dict[str, str], glossary: Glossary, control: str, *, consistent: bool
) -> dict[str, Any]:
    """Return how many texts have another word for a term than most, and chrF."""
    entries = [f'msgid "{escape(source)}"\nmsgstr ""\n' for source in references]
    document = open_document("\n".join([HEADER, *entries]).encode(), name="pt.po")
    options: Any = {} if control == "none" else {"glossary": glossary}
    start = time.process_time()
    found = translate_document(translator, document, FileOptions(consistent_terms=consistent), stream_options=options)
    seconds = time.process_time() - start
    pairs = [(one.source, one.text) for one in found.report.segments]
    choices = choose_words(glossary, pairs)
    score = corpus_score([text for _, text in pairs], [[references[source] for source, _ in pairs]], Chrf())
    return {
        "control": control,
        "texts": len(pairs),
        "terms": sum(one.texts for one in choices),
        "others": sum(len(one.others) for one in choices),
        "chrf": round(score.value, 2),
        "seconds": round(seconds, 1),
    }


HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


if __name__ == "__main__":
    main()
