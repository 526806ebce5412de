import pytest

from dragoman.data.placeholders.recognition import PlaceholderKind, find_placeholders

PLACEHOLDERS: dict[PlaceholderKind, tuple[str, ...]] = {
    "printf": (
        *("%s", "%d", "%1$s", "%2$@", "%(name)d", "%-5.2f", "%05.1f", "%%", "%@", "%lld", "%zu", "%*d", "%+d", "%'d"),
        *("%1", "%L2", "%n", "%#@files@", "%Y", "%x"),
        *("%,d", "%1$tB", "%tY", "%1$*2$d", "%(file name)s", "%1$#@files@", "%arg", "~a", "%O"),
    ),
    "brace": (
        *("{}", "{0}", "{name}", "{user.name}", "{items[0]}", "{0!r}", "{0:.2f}", "{a:>{w}}", "{when:%Y-%m-%d %H:%M}"),
        *("{n, number, integer}", "{0,number,#.##}", "{0,-10:N2}", "{ $name }", "{ -brand }", "{ NUMBER($x, a: 1) }"),
        *(
            "{0:dd MMM yyyy}",
            "{when:dd/MM yyyy}",
            "{a|upper}",
            "{#if x}",
            "{0,choice,0#none|1#{1}}",
            "[1,19]",
            "[20,*]",
        ),
    ),
    "template": (
        "{{x}}",
        "{{ x | date:'short' }}",
        "{{{raw}}}",
        "${x}",
        "#{x}",
        "%{x}",
        "{% if a %}",
        "$t(key)",
        "$(VAR)",
    ),
    "variable": (
        "$x",
        "$1",
        "$NAME$",
        "@count",
        "%PATH%",
        "%name%",
        "__count__",
        ":name",
        "@:a.b",
        "@.lower:a",
        "%name",
        "!name",
    ),
    "tag": ("<0>", "</1>", "<2/>", "<!-- a -->", '<x id="1"/>', "<br>", "</b>", '<a href="x y">', "<ph id='2' />"),
    "entity": ("&nbsp;", "&#160;", "&#xA0;", "&vendor.name;"),
    "escape": (r"\n", r"\t", r"\u00a0", r"\""),
    "url": ("https://example.org/a?b=c#d", "www.example.org", "https://x.org/{id}?q=%s", "mailto:me@example.org"),
    "email": ("me@example.org", "first.last+tag@mail.example.co.uk"),
    "code": ("`x y`", "``ls -l``", "``a`b``", "snake_case_name", "max_size", "getName()"),
    "option": ("--help", "--output=FILE", "-v"),
    "key": ("Ctrl+S", "Ctrl+Shift+T", "Alt+F4", "F12", "\u2318C"),
    "emoji": (":smile:", ":+1:", "\u2605", "\U0001f469\u200d\U0001f52c"),
    "path": (
        "/usr/bin/x",
        "~/x",
        "./run.sh",
        r"C:\a\b",
        "../up/x.txt",
        "config.yaml",
        "a/b/c.json",
        "C:/x/y",
        r"\\server\share",
    ),
}
PROSE = (
    *("[Optional] text", "an [optional] word", "file[s]", "[text](url)", "[a][b]", "color #fff", "a[0]", "[two words]"),
    *("100 % sure", "50% of it", "5%discount", "20% increase", "%age", "it's 100%.", "10 % d", "5% and 6%", "50%off"),
    *(
        "{alone",
        "a } b {",
        "I {really like} it",
        "{see: this one}",
        "$15",
        "$5.50",
        "US$ 5",
        "@ home",
        "AT&T",
        "R&D",
        "3 &lt 4",
    ),
    *(
        "10 %ige",
        "~38% faster",
        "x < y and y > z",
        "<3",
        "<- ->",
        "and/or",
        "1/2",
        "km/h",
        "C: drive",
        "a -- b",
        "word--word",
        ":)",
        "a:b",
        "10:45",
    ),
)


@pytest.mark.parametrize("context", ["{}", "a {} b", "a {}.", "({})", "Step 2 {}", '"{}"', "{}, b", "{}!"])
@pytest.mark.parametrize("kind", PLACEHOLDERS)
def test_placeholder_is_recognized(kind: PlaceholderKind, context: str) -> None:
    for text in PLACEHOLDERS[kind]:
        [found] = find_placeholders(context.replace("{}", text, 1))
        assert (found.kind, found.text) == (kind, text)


@pytest.mark.parametrize("text", PROSE)
def test_prose_has_no_placeholders(text: str) -> None:
    assert find_placeholders(text) == []


@pytest.mark.parametrize(
    "text",
    ["{!name}", "$[name]", "[name]", "[user_name]", "[1]", "\\1", "#123", '@lang("x")', "@lang('a.b c')", "%%(rest)s"],
)
def test_placeholder_of_other_programs_is_recognized(text: str) -> None:
    for context in ("{}", "Open {} now", "It is {}.", "({})"):
        assert [one.text for one in find_placeholders(context.replace("{}", text, 1))] == [text]


def test_sentence_punctuation_is_no_part_of_url() -> None:
    text = "See (https://x.org/a_(b)), or www.y.org."
    assert [one.text for one in find_placeholders(text)] == ["https://x.org/a_(b)", "www.y.org"]


def test_quotation_marks_surround_options() -> None:
    assert [one.text for one in find_placeholders("“-v” and ‘-x’ or «-y»")] == ["-v", "-x", "-y"]


def test_markup_hides_tags_and_their_attributes() -> None:
    text = '<a href="{x}">%s</a> &amp; {y}'
    assert [one.text for one in find_placeholders(text, markup=True)] == ["%s", "{y}"]
    assert [one.kind for one in find_placeholders(text)] == ["tag", "printf", "tag", "entity", "brace"]


@pytest.mark.parametrize(
    "unit",
    [
        "<a b ",
        "`",
        "{",
        "%",
        "a.",
        "x@",
        "{a:{b}",
        "/a",
        "\\",
        "http://",
        "{{a",
        "<a b='",
        "%(",
        "http://a)))))",
        "Ctrl+",
        ":a",
        "a_",
        "{a,choice,",
    ],
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    # Quadratic time would be minutes for these texts, and the test runner ends them.
    assert len(find_placeholders(unit * 50_000)) <= 50_000
