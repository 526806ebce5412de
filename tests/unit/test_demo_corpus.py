"""Synthetic corpus from the CLDR: contents, families, splits and seeds."""

import datetime
import hashlib
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from decimal import Decimal
from itertools import islice
from pathlib import Path

import pytest
from babel import Locale

import dragoman_demo
from dragoman.data.readers.parallel import ParallelFiles, read_corpus
from dragoman.errors import DataError, MissingExtraError
from dragoman_demo import FAMILIES, Phrase, Split, corpus, phrases, split, write_corpus
from dragoman_demo import locale_formatting as writers
from dragoman_demo.corpus import CorpusFiles
from dragoman_demo.phrase_templates import Form
from dragoman_demo.random_values import Values, Zone
from dragoman_demo.run import demo_experiment
from dragoman_demo.unambiguous_templates import consistent

ENGLISH, FRENCH = Locale("en"), Locale("fr")
TEA = datetime.datetime(2031, 3, 4, 17, 5, 9)  # a Tuesday
PARIS_IN_SUMMER = TEA.replace(tzinfo=Zone("Europe/Paris", 1, summer=True))

# The CLDR's texts, checked by hand, with plain spaces.
SPECIMENS = [
    (writers.date("full"), TEA, "Tuesday, March 4, 2031", "mardi 4 mars 2031"),
    (writers.skeleton("yMd"), TEA, "3/4/2031", "04/03/2031"),
    (writers.skeleton("yMMMEd"), TEA.replace(month=8, day=1), "Fri, Aug 1, 2031", "ven. 1 août 2031"),
    (writers.skeleton("yQQQQ"), TEA, "1st quarter 2031", "1er trimestre 2031"),
    (writers.skeleton("GyMMMd"), TEA, "Mar 4, 2031 AD", "4 mars 2031 ap. J.-C."),
    (writers.time("short"), TEA, "5:05 PM", "17:05"),
    (writers.time("short"), TEA.replace(hour=0), "12:05 AM", "00:05"),
    (writers.time("medium"), TEA.replace(hour=12), "12:05:09 PM", "12:05:09"),
    (
        writers.time("full"),
        PARIS_IN_SUMMER,
        "5:05:09 PM Central European Summer Time",
        "17:05:09 heure d’été d’Europe centrale",
    ),
    (writers.together(writers.weekday("wide"), writers.time("short")), TEA, "Tuesday, 5:05 PM", "mardi, 17:05"),
    (writers.interval("yMMMd"), (TEA, TEA.replace(day=7)), "Mar 4 – 7, 2031", "4–7 mars 2031"),
    (writers.interval("jm"), (TEA.replace(hour=9), TEA), "9:05 AM – 5:05 PM", "09:05 – 17:05"),
    (writers.decimal, Decimal("-1234567.5"), "-1,234,567.5", "-1 234 567,5"),
    (writers.percent, Decimal("0.125"), "12.5%", "12,5 %"),
    (writers.scientific, Decimal("1234.5"), "1.2345E3", "1,2345E3"),
    (writers.compact("long"), Decimal(2300000), "2.3 million", "2,3 millions"),
    (writers.compact("long"), Decimal(1200000), "1.2 million", "1,2 million"),
    (writers.amount("standard"), (Decimal("1234.5"), "EUR"), "€1,234.50", "1 234,50 €"),
    (writers.amount("standard"), (Decimal("1234.5"), "JPY"), "¥1,234", "1 234 JPY"),
    (writers.amount("accounting"), (Decimal(-7), "USD"), "($7.00)", "(7,00 $US)"),
    (writers.amount("name"), (Decimal("1.5"), "GBP"), "1.50 British pounds", "1,50 livre sterling"),
    (writers.compact_amount, (Decimal(45000), "USD"), "$45K", "45 k $US"),
    (writers.measure("length-kilometer", "long"), Decimal("1.5"), "1.5 kilometers", "1,5 kilomètre"),
    (writers.measure("mass-kilogram", "short"), Decimal(1200), "1,200 kg", "1 200 kg"),
    (writers.rate("long"), (Decimal(3), "volume-liter", "duration-hour"), "3 liters per hour", "3 litres par heure"),
    (writers.duration(("hour", "minute"), "long"), (2, 1), "2 hours, 1 minute", "2 heures et 1 minute"),
    (writers.relative("week", 1, "long"), (3,), "in 3 weeks", "dans 3 semaines"),
    (writers.relative("day", -1, "long"), (1,), "1 day ago", "il y a 1 jour"),
    (
        writers.listed(writers.territory, "standard"),
        ("DE", "NL", "US"),
        "Germany, Netherlands, and United States",
        "Allemagne, Pays-Bas et États-Unis",
    ),
    (writers.listed(writers.language, "or"), ("fr", "ja"), "French or Japanese", "français ou japonais"),
    (
        writers.listed(writers.weekday_name("wide"), "standard"),
        ("0", "4", "6"),
        "Monday, Friday, and Sunday",
        "lundi, vendredi et dimanche",
    ),
    (writers.listed(writers.month_name("abbreviated"), "or"), ("2", "7"), "Feb or Jul", "févr. ou juil."),
    (
        writers.listed(writers.currency, "or"),
        ("CHF", "SEK"),
        "Swiss Franc or Swedish Krona",
        "franc suisse ou couronne suédoise",
    ),
]

LOCALES = """
    de es it pt_BR nl sv fi pl cs ru uk el tr ar he fa ur hi bn ta th vi id ko ja zh zh_Hant sr_Latn sw am ka eu ga
"""


@pytest.fixture(scope="module")
def french() -> list[Phrase]:
    """Phrases as the CLDR writes them; `test_typed_variants` tests those that people type."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "TYPED_SHARE", 0)
        return list(phrases(20_000, seed=3))


@pytest.mark.parametrize(("write", "value", "english", "french"), SPECIMENS)
def test_samples_match_the_cldr(write, value, english, french):
    assert (_plain(write(ENGLISH, value)), _plain(write(FRENCH, value))) == (english, french)


def test_spaces_of_the_cldr_are_kept():
    assert writers.amount("standard")(FRENCH, (Decimal("1234.5"), "EUR")) == "1\u202f234,50\xa0€"


def _plain(text: str) -> str:
    return " ".join(text.split())


def test_hours_match_the_standard_library(french):
    clocks = [phrase for phrase in french if re.fullmatch(r"[\d:]+\s[AP]M", phrase.source)]
    assert len(clocks) > 500
    for phrase in clocks:
        seconds = ":%S" if phrase.source.count(":") == 2 else ""
        clock = datetime.datetime.strptime(_plain(phrase.source), f"%I:%M{seconds} %p")
        assert phrase.target == clock.strftime(f"%H:%M{seconds}")


FRENCH_DAYS = "lundi mardi mercredi jeudi vendredi samedi dimanche"
FRENCH_MONTHS = "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"


def test_full_dates_match_the_calendar(french):
    days = [phrase for phrase in french if re.fullmatch(r"\w+day, \w+ \d+, \d{4}", phrase.source)]
    assert len(days) > 100
    for phrase in days:
        day = datetime.datetime.strptime(phrase.source, "%A, %B %d, %Y")
        assert phrase.source.startswith(day.strftime("%A"))
        assert (
            phrase.target
            == f"{FRENCH_DAYS.split()[day.weekday()]} {day.day} {FRENCH_MONTHS.split()[day.month - 1]} {day.year}"
        )


def test_numbers_keep_every_digit(french):
    plain = [phrase for phrase in french if re.fullmatch(r"-?[\d,]+(\.\d+)?", phrase.source)]
    assert len(plain) > 500
    for phrase in plain:
        assert phrase.target == phrase.source.replace(",", "\u202f").replace(".", ",")


def test_lossy_two_digit_years_are_left_out(french):
    short = re.compile(r"\b\d{1,2}/\d{1,2}/\d{2}\b")
    assert not [phrase for phrase in french if short.search(phrase.source)]
    german = [phrase for phrase in phrases(5_000, target_locale="de") if short.search(phrase.source)]
    assert german
    assert all(re.search(r"\b\d\d\.\d\d\.\d\d\b", phrase.target) for phrase in german)


def test_families_have_their_shares(french):
    counts = Counter(phrase.family for phrase in french)
    assert set(counts) == set(FAMILIES)
    for family, share in FAMILIES.items():
        assert counts[family] / len(french) == pytest.approx(share / sum(FAMILIES.values()), rel=0.25)


def test_few_phrases_equal_their_translation(french):
    assert sum(phrase.source == phrase.target for phrase in french) < 0.02 * len(french)


def test_sources_are_unique(french):
    sources = [" ".join(unicodedata.normalize("NFKC", phrase.source).split()) for phrase in french]
    assert len(set(sources)) == len(sources)


def test_source_with_two_targets_is_left_out(monkeypatch):
    drawn = [("a", "1"), ("b", "2"), ("a", "3"), ("b", "2"), ("c\xa0c", "4"), ("c c", "5"), ("a", "1"), ("d", "6")]
    monkeypatch.setattr(corpus, "_drawn", lambda *_: (Phrase(*pair, "list") for pair in drawn))
    assert [(phrase.source, phrase.target) for phrase in phrases(4)] == [("b", "2"), ("d", "6")]


def test_lossy_form_is_left_out():
    numbers = Values(draw=lambda random: 0, probes=(1, 2, 101))
    forgetful = Form("date", numbers, _either(lambda value: value % 100, lambda value: value), 1)
    faithful = Form("date", numbers, _either(lambda value: value, lambda value: value % 100), 1)
    assert [reading.form for reading in consistent([forgetful, faithful], ENGLISH, FRENCH)] == [faithful]


def test_first_of_two_ambiguous_forms_is_kept():
    numbers = Values(draw=lambda random: 0, probes=(1, 2, 3))
    first = Form("date", numbers, _either(str, str), 1)
    second = Form("date", numbers, _either(str, lambda value: -value), 1)
    assert [reading.form for reading in consistent([first, second], ENGLISH, FRENCH)] == [first]


def test_ambiguous_value_is_skipped():
    numbers = Values(draw=lambda random: 0, probes=(1, 2, 3, 4, 5))
    long = Form("date", numbers, _either(str, lambda value: f"{value} long"), 1)
    short = Form("date", numbers, _either(lambda value: "5" if value == 5 else f"{value}s", lambda value: value), 1)
    readings = consistent([long, short], ENGLISH, FRENCH)
    assert [reading.pair(5) for reading in readings] == [None, None]
    assert [reading.pair(4) for reading in readings] == [("4", "4 long"), ("4s", "4")]


def test_forms_of_other_values_are_left_out():
    metres = Form("unit", Values(draw=lambda random: 5, probes=(5,)), _either("{}m".format, "{} m".format), 1)
    minutes = Form("unit", Values(draw=lambda random: 5, probes=(5,)), _either("{}m".format, "{} min".format), 1)
    assert [reading.form for reading in consistent([metres, minutes], ENGLISH, FRENCH)] == [metres]


def _either(english, french):
    return lambda locale, value: str(english(value) if locale == ENGLISH else french(value))


def test_ambiguous_month_names_are_skipped():
    dates = re.compile(r"(\w+) \d+, \d{4}")
    months = {found[1] for phrase in phrases(20_000, target_locale="es") if (found := dates.fullmatch(phrase.source))}
    assert {"Mar", "March", "Jun", "June"} <= months
    assert "May" not in months
    assert any(phrase.source.startswith("May ") for phrase in phrases(20_000, target_locale="fr"))


def test_phrases_depend_on_the_seed():
    assert list(phrases(500, seed=7)) == list(phrases(500, seed=7))
    assert not set(phrases(500, seed=7)) >= set(phrases(500, seed=8))
    assert split(train=300, valid=50, test=50, seed=7) == split(train=300, valid=50, test=50, seed=7)


def test_phrases_do_not_depend_on_the_hash_seed():
    program = (
        "import hashlib; from dragoman_demo import phrases;"
        "print(hashlib.sha256(repr(list(phrases(2000, target_locale='de', seed=5))).encode()).hexdigest())"
    )
    expected = hashlib.sha256(repr(list(phrases(2000, target_locale="de", seed=5))).encode()).hexdigest()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == expected


def test_splits_share_no_source():
    parts = split(train=5_000, valid=211, test=307)
    assert (len(parts.valid), len(parts.test)) == (211, 307)
    assert 4_990 <= len(set(parts.train)) <= 5_000
    assert len(parts.train) > 5_000, "frequent phrases are repeated"
    sources = [{phrase.source for phrase in part} for part in (parts.train, parts.valid, parts.test)]
    assert sum(map(len, sources)) == len(set.union(*sources)) == len(set(parts.train)) + 211 + 307
    assert {phrase.family for phrase in parts.test} == set(FAMILIES)


@pytest.mark.parametrize("locale", LOCALES.split())
def test_every_locale_has_every_family(locale):
    found = list(phrases(1_200, target_locale=locale, seed=11))
    assert {phrase.family for phrase in found} == set(FAMILIES)
    for phrase in found:
        assert phrase.source
        assert phrase.target
        assert not re.search(r"[\x00-\x1f\x7f\x85\u2028\u2029{}]", phrase.source + phrase.target)
        assert not re.search(r"(duration|length|mass|speed|volume|digital|energy)-[a-z]", phrase.target)


@pytest.mark.parametrize("locale", ["ja", "ar", "de", "fr"])
def test_any_locale_may_be_the_source(locale):
    found = list(phrases(1_200, source_locale=locale, target_locale="en", seed=11))
    assert {phrase.family for phrase in found} == set(FAMILIES)
    assert sum(phrase.source != phrase.target for phrase in found) > 600


def test_arabic_durations_name_each_part_once():
    pair = writers.duration(("hour", "minute"), "long")(Locale("ar"), (15, 20))
    assert pair.count("20") == 1
    assert pair.startswith("15")


def test_locale_names_may_have_hyphens():
    assert list(phrases(20, target_locale="pt-BR")) == list(phrases(20, target_locale="pt_BR"))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("french", "Did you mean fr[?]"),
        ("frr_XX", "Did you mean frr[?]"),
        ("xx", "Give a language code such as"),
        ("pt_BRR", "Did you mean pt[?]"),
        ("", "Give a language code such as"),
    ],
)
def test_unknown_locale_suggests_a_similar_one(name, remedy):
    """Every code of two letters is similar to many others, so that none is suggested for it."""
    with pytest.raises(DataError, match=f"^{name}: no locale that Babel knows. {remedy}"):
        phrases(1, target_locale=name)


def test_missing_babel_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(MissingExtraError, match=r"dragoman\[demo\]"):
        phrases(1)


def test_package_is_imported_without_babel():
    program = "import sys; sys.modules['babel'] = None; import dragoman_demo"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")


PARTS = Split(
    train=(Phrase("a", "1", "list"), Phrase("b", "2", "list")),
    valid=(Phrase("c", "3", "date"),),
    test=(Phrase("d", "4", "time"), Phrase("e", "5", "date")),
)


def test_written_corpus_is_read_back(tmp_path: Path):
    files = write_corpus(tmp_path / "new" / "corpus", PARTS, target_locale="pt-BR")
    assert files.test.target.name == "test.pt_BR"
    for part, phrases_of_part in ((files.train, PARTS.train), (files.valid, PARTS.valid), (files.test, PARTS.test)):
        pairs = [(example.source, example.target) for example in read_corpus(part)]
        assert pairs == [(phrase.source, phrase.target) for phrase in phrases_of_part]
    assert files.families.read_text().splitlines() == ["time", "date"]


def test_generated_corpus_has_one_phrase_per_line(tmp_path: Path):
    parts = split(train=400, valid=20, test=20)
    files = write_corpus(tmp_path, parts)
    assert [(example.source, example.target) for example in islice(read_corpus(files.train), 1000)] == [
        (phrase.source, phrase.target) for phrase in parts.train
    ]


def test_files_with_other_content_are_not_overwritten(tmp_path: Path):
    write_corpus(tmp_path, PARTS)
    write_corpus(tmp_path, PARTS)
    (tmp_path / "test.fr").write_text("mine\n")
    with pytest.raises(DataError, match=r"test\.fr: exists with other content"):
        write_corpus(tmp_path, PARTS)
    assert (tmp_path / "test.fr").read_text() == "mine\n"
    assert (tmp_path / "train.en").read_text() == "a\nb\n"


def test_equal_locales_are_refused(tmp_path: Path):
    with pytest.raises(DataError, match="choose another target"):
        write_corpus(tmp_path, PARTS, target_locale="en")
    assert not list(tmp_path.iterdir())


def test_exported_names_exist():
    assert all(hasattr(dragoman_demo, name) for name in dragoman_demo.__all__)


@pytest.mark.parametrize("key", ["max_epochs", "max_steps"])
def test_length_of_the_demo_is_the_given_one(key):
    paths = {name: Path(f"{name}.txt") for name in ("source", "target")}
    corpora = [ParallelFiles(**paths) for _ in range(3)]
    files = CorpusFiles(*corpora, families=Path("families"))
    training = demo_experiment(files, [f"training.{key}=7"]).training
    assert (training.max_epochs, training.max_steps) == ((7, None) if key == "max_epochs" else (None, 7))
