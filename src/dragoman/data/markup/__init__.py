"""Texts with tags of XML and HTML: blocks are split, and inline tags taken out of texts and placed in translations."""

from dragoman.data.markup.blocks import split_blocks
from dragoman.data.markup.inline_text import InlineText, PlacedText, parse_inline
from dragoman.data.markup.tags import Markup, MarkupRules
from dragoman.data.markup.token_alignment import TokenAlignment

__all__ = [
    "InlineText",
    "Markup",
    "MarkupRules",
    "PlacedText",
    "TokenAlignment",
    "parse_inline",
    "split_blocks",
]
