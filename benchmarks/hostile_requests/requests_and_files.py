"""Hostile texts and files: the requests that once froze the server, and generated ones."""

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

FRAGMENTS = (
    *("<", "<a", "<a ", '<a "', "<!--", "<![CDATA[", "</", "<b>a</b> ", "<p>", "]]>", "&", "&#", "&amp;", "<script>"),
    *("{", "{{", "}", "{a, plural, other {", "%", "%(a)", "${", "`", '"', "'", '"`"', "\"' ", "(", "[", "\\", "\\u"),
    *(
        " ",
        "\t",
        "\n",
        "\r\n",
        "\n\n",
        " \n",
        "\u00a0",
        "a",
        "a ",
        "1",
        "1.",
        "-",
        "_",
        "/",
        "http://",
        "a@",
        ".",
        ". A",
    ),
    *(
        "\u0301",
        "\u200d",
        "😀",
        "中",
        "。",
        "א",
        "&a",
        "=",
        "=\n",
        ": ",
        "- ",
        "# ",
        "| a ",
        "* ",
        "```",
        "~~~",
        "[a](",
        "#: ",
    ),
)
"""Beginnings and repetitions on which scanners look back or ahead."""
ENDINGS = (
    *(
        ".html",
        ".txt",
        ".json",
        ".po",
        ".md",
        ".xml",
        ".xlf",
        ".srt",
        ".properties",
        ".yaml",
        ".strings",
        ".csv",
        ".ts",
    ),
)


class HostileRequest(NamedTuple):
    """Request of the native interface, or a file."""

    name: str
    body: dict[str, Any] | None
    """JSON of `/api/translate`; None for a file."""
    file: tuple[str, bytes] | None = None

    @property
    def size(self) -> int:
        """Bytes of the request."""
        return len(self.file[1]) if self.file is not None else len(json.dumps(self.body))


def known_requests(source: str, target: str) -> Iterator[HostileRequest]:
    """Yield the requests that stopped the server for seconds to minutes."""

    def texts(name: str, text: str, **options: Any) -> HostileRequest:
        return HostileRequest(name, {"texts": text, "source": source, "target": target, **options})

    yield HostileRequest("tag without end, file", None, ("a.html", b"<" + b"a" * 100_000))
    yield texts("attributes without end", '<a "' * 12_000, format="html")
    yield texts("attributes without end, XML", '<a "' * 12_000, format="xml")
    yield HostileRequest("spaces, file", None, ("a.txt", b"a" + b" " * 30_000 + b"b"))
    yield texts("quotation marks", "`" + "\"' " * 16_000, placeholders=True)
    yield texts("one word", "a" * 49_000)
    yield texts("tags", "<b>a</b> " * 5_000, format="html")
    yield HostileRequest("tags, file", None, ("a.html", b"<i>a</i> " * 10_000))
    terms = [[f"term {number} of", f"termo {number}|termos"] for number in range(10_000)]
    yield texts("glossary", "this is the term 5 of all", glossary={"entries": terms})
    yield HostileRequest("strings, file", None, ("a.json", json.dumps(["ab"] * 400_000).encode()))
    long_names = {"K" * 300_000: {f"a{number}": "ab" for number in range(5_000)}}
    yield HostileRequest("long names, file", None, ("a.json", json.dumps(long_names).encode()))
    doctype = '<!DOCTYPE a [<!ENTITY e "' + "b" * 1000 + '">]>'
    units = "".join(f'<trans-unit id="{number}&e;&e;"><source>ab</source></trans-unit>' for number in range(3_000))
    xliff = f'<?xml version="1.0"?>{doctype}<xliff version="1.2"><file><body>{units}</body></file></xliff>'
    yield HostileRequest("entities, file", None, ("a.xlf", xliff.encode()))


def generated_requests(
    source: str, target: str, *, count: int, seed: int, largest: int = 48_000
) -> Iterator[HostileRequest]:
    """Yield texts and files of repeated and mixed fragments, of log-uniform sizes."""
    generator = random.Random(seed)
    for number in range(count):
        text = _text(generator, largest)
        if generator.random() < 0.4:
            ending = generator.choice(ENDINGS)
            yield HostileRequest(f"{number}{ending}", None, (f"a{ending}", text.encode("utf-8", "surrogatepass")))
            continue
        body: dict[str, Any] = {
            "texts": text,
            "source": source,
            "target": target,
            "format": generator.choice(["text", "html", "xml"]),
            "split_sentences": generator.random() < 0.7,
        }
        if generator.random() < 0.5:
            body["placeholders"] = True
        if generator.random() < 0.1:
            body["glossary"] = {"entries": [[_text(generator, 20).strip() or "a", "b"] for _ in range(1_000)]}
        yield HostileRequest(str(number), body)


def _text(generator: random.Random, largest: int) -> str:
    """Return fragments repeated or mixed, after a beginning."""
    size = int(2 ** generator.uniform(3, largest.bit_length()))
    chosen = generator.choices(FRAGMENTS, k=generator.randint(1, 4))
    beginning = generator.choice(["", *FRAGMENTS])
    if generator.random() < 0.6:
        unit = "".join(chosen)
        text = beginning + unit * (size // len(unit) + 1)
    else:
        text = beginning + "".join(generator.choices(chosen, k=size))
    return text[: min(size, largest)]
