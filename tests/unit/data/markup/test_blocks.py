"""Blocks split a text, inline elements do not."""

import pytest

from dragoman.data.markup import MarkupRules, split_blocks

HTML, XML = MarkupRules(), MarkupRules(markup="xml")


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("<p>One <b>two</b> three</p>", ["One <b>two</b> three"]),
        ("<ul><li>One<li><i>Two</i></ul>", ["One", "<i>Two</i>"]),
        ("One<br>two <code>x</code>", ["One", "two <code>x</code>"]),
        ("One <b>big<br>red</b> house", ["One <b>big<br>red</b> house"]),
        ("<p><b>One<p>Two<br>three", ["<b>One", "Two", "three"]),
        ("<td>1,234</td><td>5 %</td><td><code>f(x)</code> 7</td><td>a</td>", ["a"]),
        ("<title>a <b> c</title><script>if (a<b) '<p>text'</script>d", ["a <b> c", "d"]),
        ("<button>Save</button><button>Quit</button>", ["Save", "Quit"]),
        ("<pre>x <b>y</b></pre> after", ["after"]),
        ('<div translate="no">keep<p>this</p></div>that', ["that"]),
        ("<script>if (a < b) { }</script>text", ["text"]),
        ("<my-tag>one</my-tag> two", ["<my-tag>one</my-tag> two"]),
        ("<p>&nbsp;</p> \n ", []),
    ],
)
def test_blocks_of_html(content: str, texts: list[str]) -> None:
    assert list(split_blocks(content, HTML)[1::2]) == texts


@pytest.mark.parametrize(
    ("content", "rules", "texts"),
    [
        ("<d><t>A b</t><s>C <i>d</i></s></d>", XML, ["A b", "C <i>d</i>"]),
        ("<d><t>A</t><t><![CDATA[B]]></t></d>", XML, ["A", "<![CDATA[B]]>"]),
        ("a <x>b</x> <x>c</x>", XML, ["a <x>b</x> <x>c</x>"]),
        ("<d><t>A</t><t>B</t></d>", MarkupRules(markup="xml", outline_detection=False), ["<d><t>A</t><t>B</t></d>"]),
        (
            "<d>a <t>b</t> c</d>",
            MarkupRules(markup="xml", outline_detection=False, splitting=frozenset(["t"])),
            ["<d>a", "b", "c</d>"],
        ),
        ("<d><t>A</t><t>B</t></d>", MarkupRules(markup="xml", non_splitting=frozenset(["t"])), ["<t>A</t><t>B</t>"]),
        ("<p>a</p><p>b</p>", MarkupRules(non_splitting=frozenset(["p"])), ["<p>a</p><p>b</p>"]),
        ("a<br>b", MarkupRules(non_splitting=frozenset(["br"])), ["a<br>b"]),
    ],
)
def test_blocks_by_rules(content: str, rules: MarkupRules, texts: list[str]) -> None:
    assert list(split_blocks(content, rules)[1::2]) == texts
