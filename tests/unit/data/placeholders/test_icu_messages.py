import pytest

from dragoman.data.placeholders.icu_messages import MAX_BRANCHES, IcuMessage, quote_text, unquote_text


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("{n, plural, one {# file} other {# files}}", ["# file", "# files"]),
        ("{n,plural,offset:1 =0{none}one{it''s}other{#}}", ["none", "it''s", "#"]),
        ("{g, select, f {she} other {they}}", ["she", "they"]),
        ("{n, selectordinal, one {#st} other {#th}}", ["#st", "#th"]),
        ("{a, select, x {{n, plural, one {1} other {# of {b}}}} other {z}}", ["1", "# of {b}", "z"]),
    ],
)
def test_message_without_text_around_keeps_its_bytes(text: str, leaves: list[str]) -> None:
    message = IcuMessage.parse(text)
    assert message is not None
    assert [leaf.source for leaf in message.leaves] == leaves
    assert message.fill(leaves) == text


def test_text_around_a_choice_moves_into_its_branches() -> None:
    message = IcuMessage.parse("You have {n, plural, one {# file} other {# files}} in {folder}.")
    assert message is not None
    sentences = [leaf.source for leaf in message.leaves]
    assert sentences == ["You have # file in {folder}.", "You have # files in {folder}."]
    assert message.fill(sentences) == (
        "{n, plural, one {You have # file in {folder}.} other {You have # files in {folder}.}}"
    )


def test_number_sign_that_moves_into_another_plural_is_named() -> None:
    message = IcuMessage.parse("{n, plural, other {# of {m, plural, other {#}}}}")
    assert message is not None
    assert [leaf.source for leaf in message.leaves] == ["{n, number} of #"]


def test_number_sign_outside_of_plurals_is_quoted_inside() -> None:
    message = IcuMessage.parse("Room #1: {n, plural, other {# beds}}")
    assert message is not None
    assert [leaf.source for leaf in message.leaves] == ["Room '#'1: # beds"]


@pytest.mark.parametrize(
    "text",
    [
        *("plain", "{name}", "{n, plural}", "{n, plural, }", "{n, plural, one {a}", "{n, plural, one {a}} }"),
        *("{n, plural, one {a {b}", "{n, number, integer}", "{n, plural, one {'{}}"),
        "{n, plural, one {1} other {2}}" * (MAX_BRANCHES // 4),
        "{n, plural, other {" * 1000,
    ],
)
def test_other_texts_are_no_messages(text: str) -> None:
    assert IcuMessage.parse(text) is None


@pytest.mark.parametrize("doubles", [False, True])
@pytest.mark.parametrize("text", ["l'ami", "it's {x}", "'", "''", "#1", "a'{'b", "}'", "'#'"])
def test_quoted_text_reads_as_before(text: str, doubles: bool) -> None:
    assert unquote_text(quote_text(text, in_plural=True, doubles=doubles), in_plural=True) == text


def test_apostrophes_are_doubled_where_they_would_quote() -> None:
    assert quote_text("l'ami {x}", in_plural=False, doubles=False) == "l'ami '{'x'}'"
    assert quote_text("l'", in_plural=False, doubles=False) == "l''"
    assert quote_text("l'ami", in_plural=False, doubles=True) == "l''ami"


def test_missing_categories_are_copies_of_other() -> None:
    text = "{n, plural, =0 {none} one {# file} other {# files {g, select, a {x} other {y}}}}"
    message = IcuMessage.parse(text, ("one", "few", "other"))
    assert message is not None
    assert [leaf.source for leaf in message.leaves] == [
        "none",
        "# file",
        "# files x",
        "# files y",
        "# files x",
        "# files y",
    ]
    assert "few {{g, select" in message.fill([leaf.source for leaf in message.leaves])


def test_ordinals_keep_their_categories() -> None:
    text = "{n, selectordinal, one {#st} other {#th}}"
    message = IcuMessage.parse(text, ("one", "few", "other"))
    assert message is not None
    assert message.fill([leaf.source for leaf in message.leaves]) == text


def test_doubled_apostrophe_makes_a_message_of_a_text_with_argument() -> None:
    message = IcuMessage.parse("It''s {0}")
    assert message is not None
    assert message.quote(message.leaves[0])("l'") == "l''"
    assert IcuMessage.parse("It's {0}") is None
