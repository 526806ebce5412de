"""Special symbols that the post-processor of a `tokenizer.json` puts around a text.

Format: https://huggingface.co/docs/tokenizers/api/post-processors
"""

from collections.abc import Mapping
from typing import Any


def first_symbol(tree: Mapping[str, Any]) -> str | None:
    """Return the symbol before a text; an empty name if the template has none, None if there is no template."""
    processor = tree.get("post_processor")
    members = processor.get("processors", [processor]) if isinstance(processor, Mapping) else []
    for member in members if isinstance(members, list) else ():
        if isinstance(member, Mapping) and member.get("type") == "TemplateProcessing":
            single = member.get("single")
            first = single[0] if isinstance(single, list) and single else None
            symbol = first.get("SpecialToken") if isinstance(first, Mapping) else None
            name = symbol.get("id") if isinstance(symbol, Mapping) else symbol
            return str(name) if name is not None else ""
        if isinstance(member, Mapping) and member.get("type") in ("RobertaProcessing", "BertProcessing"):
            symbol = member.get("cls")
            return str(symbol[0]) if isinstance(symbol, list) and symbol else ""
    return None
