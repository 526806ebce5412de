"""Web page at `/docs` that describes every address of the server: plain HTML, without scripts and other hosts.

Source of its content: the OpenAPI 3.1 description of the application, https://spec.openapis.org/oas/v3.1.0.
"""

import json
import re
import shlex
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any, NamedTuple, final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

Tree = Mapping[str, Any]
MAX_DEPTH = 4
"""Levels of nested objects that a table shows."""

_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .75rem; }
pre, details { border: 1px solid var(--line); border-radius: .4rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
details { margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5em; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: start; vertical-align: top; padding: .25rem .75rem .25rem 0; }
tr { border-bottom: 1px solid var(--line); }
"""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'sha256-"
    + b64encode(sha256(_STYLE.encode()).digest()).decode()
    + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


class Row(NamedTuple):
    """Parameter of a request, or field of a body."""

    name: str
    type: str
    description: str


def add_api_page(app: FastAPI) -> None:
    """Answer `/docs` with the description of the application, in which the examples have the address of the server."""

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        return HTMLResponse(render_page(app.openapi(), str(request.base_url).rstrip("/")), headers=_HEADERS)


def render_page(description: Tree, address: str) -> str:
    """Return the HTML page of an OpenAPI description, whose examples call a server at `address`."""
    groups: dict[str, list[str]] = {}
    schemas = _Schemas(description)
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            shown = _render_operation(method.upper(), path, operation, schemas, address)
            groups.setdefault(next(iter(operation.get("tags", ())), "Other"), []).append(shown)
    info = description["info"]
    title = f"{escape(info['title'])} {escape(info['version'])}"
    body = "".join(f"<section><h2>{escape(name)}</h2>{''.join(shown)}</section>" for name, shown in groups.items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main><h1>{title}</h1><p>{escape(info.get('description', ''))} "
        '<a href="openapi.json">openapi.json</a> has the same description for programs.</p>'
        f"{body}</main></body></html>"
    )


def _render_operation(method: str, path: str, operation: Tree, schemas: "_Schemas", address: str) -> str:
    text = operation.get("description", "")
    content: Tree = operation.get("requestBody", {}).get("content", {})
    first: Tree = next(iter(content.values()), {})
    kinds = " or ".join(f"<code>{escape(kind)}</code>" for kind in content)
    schema = schemas.merged(first.get("schema", {}))
    parameters = [
        Row(one["name"], schemas.type_of(one["schema"]), _note(one["schema"], one.get("description", "")))
        for one in operation.get("parameters", ())
    ]
    parts = [
        f"<pre>{escape(_curl(method, address + path, content, schemas))}</pre>",
        _render_table("Parameters", "", parameters),
        _render_table("Body", kinds, schemas.rows(schema)),
        _render_answer(operation.get("responses", {}).get("200", {}), schemas),
    ]
    summary = f"<b>{method}</b><code>{escape(path)}</code> {_prose(text.partition(chr(10))[0])}"
    return f"<details><summary>{summary}</summary>{''.join(parts)}</details>"


def _render_answer(response: Tree, schemas: "_Schemas") -> str:
    kind = next(iter(response.get("content", ())), "")
    schema: Tree = response["content"][kind].get("schema", {}) if kind else {}
    shown = f"<code>{escape(kind)}</code> {escape(schemas.type_of(schema)) if schema else ''}" if kind else ""
    return _render_table("Answer", shown, schemas.rows(schemas.merged(schema), is_answer=True))


def _render_table(title: str, note: str, rows: Iterable[Row]) -> str:
    """Return a table with its title; nothing where there is nothing to tell."""
    lines = "".join(
        f"<tr><td><code>{escape(row.name)}</code></td><td>{_prose(row.type)}</td><td>{_prose(row.description)}</td></tr>"
        for row in rows
    )
    head = "<tr><th>name</th><th>type</th><th>description</th></tr>"
    table = f'<div class="scroll"><table>{head}{lines}</table></div>' if lines else ""
    if not (note or table):
        return ""
    return f"<p><strong>{title}</strong> {note}</p>{table}"


def _prose(text: str) -> str:
    """Return a text as HTML, with code between backquotes."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _curl(method: str, url: str, content: Tree, schemas: "_Schemas") -> str:
    """Return a command that sends an example of a request."""
    words = ["curl", *(() if method in ("GET", "POST") else ("-X", method)), url]
    for kind, body in list(content.items())[:1]:
        example = body.get("example") or schemas.example(body.get("schema", {}))
        if kind == "application/json":
            words += ["-H", f"Content-Type: {kind}", "-d", json.dumps(example, ensure_ascii=False)]
        else:
            fields = {name: value for name, value in example.items() if name != "file"} | {"file": "@FILE"}
            words += [word for name, value in fields.items() for word in ("-F", f"{name}={value}")]
    return shlex.join(words)


@final
class _Schemas:
    """Schemas of a description, in which references are resolved."""

    def __init__(self, description: Tree) -> None:
        self._named: dict[str, Tree] = dict(description.get("components", {}).get("schemas", {}))

    def merged(self, schema: Tree) -> Tree:
        """Return the object that a schema, or the list of a schema, refers to; an empty one where it is no object."""
        self._named |= schema.get("$defs", {})
        if "$ref" in schema:
            return self.merged(self._named.get(schema["$ref"].rpartition("/")[2], {}))
        for one in (schema.get("items"), *schema.get("anyOf", ())):
            if isinstance(one, Mapping) and (found := self.merged(one)):
                return found
        return schema if "properties" in schema else {}

    def rows(self, schema: Tree, prefix: str = "", *, is_answer: bool = False, depth: int = 1) -> Iterator[Row]:
        """Yield the fields of an object, and those of the objects in it, named such as `messages[].role`."""
        required = () if is_answer else schema.get("required", ())
        for name, field in schema.get("properties", {}).items():
            note = _note(field, "required" if name in required else "")
            yield Row(prefix + name, self.type_of(field), note)
            if depth < MAX_DEPTH and (inner := self.merged(field)):
                suffix = "[]." if "list of" in self.type_of(field) else "."
                yield from self.rows(inner, prefix + name + suffix, is_answer=is_answer, depth=depth + 1)

    def type_of(self, schema: Tree) -> str:
        """Return the type of a value in words."""
        if "$ref" in schema:
            target = self._named.get(schema["$ref"].rpartition("/")[2], {})
            return "object" if "properties" in target else self.type_of(target)
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return " or ".join(dict.fromkeys(self.type_of(one) for one in options if one.get("type") != "null"))
        if "const" in schema or "enum" in schema:
            values = schema.get("enum", (schema.get("const"),))
            return ", ".join(f"`{one if isinstance(one, str) and one else json.dumps(one)}`" for one in values)
        if schema.get("type") == "array":
            return f"list of {self.type_of(schema.get('items', {}))}"
        return "file" if schema.get("format") == "binary" else str(schema.get("type", "any value"))

    def example(self, schema: Tree) -> dict[str, Any]:
        """Return an object with the examples of its fields; objects in it have theirs where they are required."""
        whole = self.merged(schema)
        if examples := whole.get("examples"):
            return dict(examples[0])
        fields, found = whole.get("properties", {}), {}
        for name, field in fields.items():
            if field.get("examples"):
                found[name] = field["examples"][0]
            elif name in whole.get("required", ()) and (inner := self.example(field)):
                found[name] = [inner] if field.get("type") == "array" else inner
        return found


def _note(schema: Tree, first: str) -> str:
    """Return the description of a value, with its default and its bounds."""
    default = schema.get("default")
    limits = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "above", "exclusiveMaximum": "below"}
    parts = [first, schema.get("description", "")]
    parts += [f"{word} {schema[name]:,g}" for name, word in limits.items() if name in schema]
    parts += [] if default is None or default == "" else [f"default {json.dumps(default, ensure_ascii=False)}"]
    return "; ".join(dict.fromkeys(part for part in parts if part))
