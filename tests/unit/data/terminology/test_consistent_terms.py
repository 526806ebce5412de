"""One word for each term of a document."""

from dragoman import Glossary, Term
from dragoman.data.terminology.consistent_terms import choose_words, group_forms, with_choices

FOLDER = Term(("folder",), ("Ordner", "Ordnern", "Verzeichnis", "Verzeichnisse"))
SAVE = Term(("save",), ("speichern", "speicherte"))
GLOSSARY = Glossary((FOLDER, SAVE, Term(("Mac",)), Term((), forbidden=("Datei",))))
PAIRS = [
    ("a folder", "ein Verzeichnis"),
    ("save it", "es speichern"),
    ("in folders", "in Ordnern"),
    ("other folder", "anderes Verzeichnis"),
    ("that folder", "was auch immer"),
    ("folder in folder", "Verzeichnis im Ordner"),
]


def test_forms_of_a_word_share_their_stem() -> None:
    assert group_forms(FOLDER.targets) == [("Ordner", "Ordnern"), ("Verzeichnis", "Verzeichnisse")]
    assert group_forms(SAVE.targets) == [SAVE.targets]


def test_the_most_frequent_word_is_chosen() -> None:
    [choice] = choose_words(GLOSSARY, PAIRS)
    assert (choice.source, choice.forms, choice.texts) == ("folder", ("Verzeichnis", "Verzeichnisse"), 4)
    assert choice.others == (2, 5)
    [first] = choose_words(GLOSSARY, PAIRS[2:4])
    assert first.forms == ("Ordner", "Ordnern")  # of equally frequent ones the first
    [given] = choose_words(GLOSSARY, PAIRS[:1], given=[first])
    assert (given.forms, given.others) == (first.forms, (0,))


def test_a_glossary_keeps_the_chosen_word() -> None:
    found = with_choices(GLOSSARY, choose_words(GLOSSARY, PAIRS))
    assert found.terms == (Term(("folder",), ("Verzeichnis", "Verzeichnisse")), *GLOSSARY.terms[1:])


def test_terms_with_one_source_share_a_choice() -> None:
    glossary = Glossary((Term(("folder",), ("Ordner",)), Term(("folder",), ("Verzeichnis",))))
    choices = choose_words(glossary, PAIRS)
    assert [one.forms for one in choices] == [("Verzeichnis",)]
    assert with_choices(glossary, choices).terms == (glossary.terms[1],)
