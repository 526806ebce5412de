"""Process that renders the Jinja template of a model, which the import runs with limits of memory and time.

It reads a JSON object from standard input: the `template`, the `special` tokens by their role, and `conversations`,
pairs of messages and of whether the answer is asked for. It writes the texts as a JSON list, with null for a
conversation that the template refuses. The environment is that of transformers.
"""

import json
import sys

MAX_MEMORY = 2**30
"""Bytes of address space; a template takes less than a tenth."""
MAX_SECONDS = 2
"""Processor time; a template takes milliseconds."""
MAX_TEXT = 100_000
"""Characters of a text; those of the import have less than 10,000."""


def main() -> None:
    """Render the conversations of standard input."""
    _limit()
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: object) -> None:
        raise jinja2.TemplateError(str(message)[:200])

    given = json.load(sys.stdin)
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = refuse
    template = environment.from_string(given["template"])
    texts: list[str | None] = []
    for messages, asks in given["conversations"]:
        try:
            text = template.render(messages=messages, add_generation_prompt=asks, **given["special"])
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError):
            text = None
        texts.append(text if text is None or len(text) <= MAX_TEXT else None)
    json.dump(texts, sys.stdout)


def _limit() -> None:
    """Limit memory and time, where the system can; the import also limits the time."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))


if __name__ == "__main__":
    main()
