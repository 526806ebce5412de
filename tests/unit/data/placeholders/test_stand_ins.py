import pytest

from dragoman.data.placeholders.stand_ins import protect_placeholders, restore_placeholders

STAND_INS = ("A1", "B2", "C3")


@pytest.mark.parametrize(
    ("text", "protected"),
    [
        ("Delete %s?", "Delete A1?"),
        ("%dpx wide", "A1 wide"),
        ("%d%% of {a}/{b}", "A1 of B2"),
        ("({name}) is here", "A1 is here"),
        ("see ({name} files)", "see (A1 files)"),
        ("file%s here", "file A1 here"),
        ("{user}'s files", "A1's files"),
        ("Hello\\nWorld", "Hello A1 World"),
        ("<b>Note:</b> read this\\n", "Note: A1 read this"),
        ("%s: file not found", "file not found"),
        ("  Name: %s ", "Name:"),
        ("%s %s", ""),
        ("Read <b>%d%%</b> now", "Read A1 now"),
        ("At <x/>:<x/>:<ph>%s</ph> it ends", "At A1 it ends"),
        ("no placeholder", "no placeholder"),
    ],
)
def test_stand_ins_keep_words_apart(text: str, protected: str) -> None:
    found = protect_placeholders(text, STAND_INS)
    assert found.text == protected
    written = [slot.stand_in for slot in found.slots]
    assert restore_placeholders(found, found.text, written=written).text == text


def test_stand_in_of_text_is_not_used() -> None:
    assert protect_placeholders("A1 and %s", STAND_INS).text == "A1 and B2"


def test_last_stand_in_stands_for_all_that_is_left() -> None:
    found = protect_placeholders("one {a} two {b} three {c} four {d} five", STAND_INS)
    assert found.text == "one A1 two B2 three C3 five"
    assert found.slots[-1].original == "{c} four {d}"


@pytest.mark.parametrize(
    ("translation", "restored", "moved"),
    [
        ("B2 für A1.", "{b} für {a}.", ()),
        ("Kopiert A1.", "Kopiert {a} {b}.", ("{b}",)),
        ("A1 A1 und B2", "{a} und {b}", ("{a}",)),
        ("A10 und B2", "{a} A10 und {b}", ("{a}",)),
        ("nichts.", "{a} nichts {b}.", ("{a}", "{b}")),
        ("", "{a} {b}", ("{a}", "{b}")),
    ],
)
def test_lost_placeholders_are_put_in_place_and_named(translation: str, restored: str, moved: tuple[str, ...]) -> None:
    found = restore_placeholders(protect_placeholders("{a} for {b}.", STAND_INS), translation, written=["A1", "B2"])
    assert (found.text, found.moved) == (restored, moved)


def test_unnumbered_placeholders_keep_their_order() -> None:
    protected = protect_placeholders("Copy %d files to %s now", STAND_INS)
    found = restore_placeholders(protected, "Nach B2 A1 kopieren", written=["A1", "B2"])
    assert found.text == "Nach %d %s kopieren"
    assert set(found.moved) == {"%d", "%s"}


def test_numbered_placeholders_may_change_places() -> None:
    for text in ("Copy %1 files to %2 now", "Copy %1$d files to %2$s now"):
        protected = protect_placeholders(text, STAND_INS)
        assert restore_placeholders(protected, "Nach B2 A1 kopieren", written=["A1", "B2"]).moved == ()


def test_closing_tag_never_precedes_opening_tag() -> None:
    protected = protect_placeholders("Click <b>here</b> now", STAND_INS)
    assert restore_placeholders(protected, "B2 hier A1 jetzt", written=["A1", "B2"]).text == "<b>hier</b> jetzt"


def test_elements_and_tags_without_partner_may_change_places() -> None:
    protected = protect_placeholders('Give <b>%1$s</b> to <i>%2$s</i> by <x id="3"/> now', STAND_INS)
    found = restore_placeholders(protected, "C3 B2 A1 jetzt", written=["A1", "B2", "C3"])
    assert found.text == '<x id="3"/> <i>%2$s</i> <b>%1$s</b> jetzt'
    assert found.moved == ()


@pytest.mark.parametrize(
    ("translation", "restored"),
    [
        ("48175926 jetzt", "{a} {b} jetzt"),
        ("4817o zu 5926", "{a} zu {b}"),
        ("4817 zu 5926 und 48172", "{a} zu {b} und"),
        ("4817 zu 5926 um 8642 oder 7", "{a} zu {b} um oder 7"),
        ("4817 zu 5926 \ue015", "{a} zu {b}"),
        ("4817 zu 5926 in 2030", "{a} zu {b} in 2030"),
    ],
)
def test_words_like_stand_ins_are_not_left(translation: str, restored: str) -> None:
    protected = protect_placeholders("{a} to {b} in 2030", ("4817", "5926"))
    assert restore_placeholders(protected, translation, written=["4817", "5926"]).text.split() == restored.split()


@pytest.mark.parametrize(
    ("text", "translation", "restored"),
    [
        ("Copy %d files to %s now", "Nach B2 A1 kopieren", "Nach %2$s %1$d kopieren"),
        ("Copy %d files to %s now", "A1 nach B2 kopieren", "%d nach %s kopieren"),
        ("Copy {} to {:d} by {!r}", "B2 A1 C3", "{1:d} {0} {2!r}"),
        ("%s: copy %5.1f%% of %-10s", "zu B2 A1", "%1$s: zu %3$-10s %2$5.1f%%"),
        ("Copy %*d files to %s now", "Nach B2 A1 kopieren", "Nach %*d %s kopieren"),
        ("At %Y in %s now", "In B2 A1", "In %Y %s"),
    ],
)
def test_numbered_placeholders_follow_their_words(text: str, translation: str, restored: str) -> None:
    protected = protect_placeholders(text, STAND_INS, numbering=True)
    written = [slot.stand_in for slot in protected.slots]
    assert restored in restore_placeholders(protected, translation, written=written).text
