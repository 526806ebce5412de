"""Synthetic parallel corpus from the CLDR, for the demo; see `corpus`."""

from dragoman_demo.corpus import FAMILIES, CorpusFiles, Phrase, Split, known_locale, phrases, split, write_corpus

__all__ = ["FAMILIES", "CorpusFiles", "Phrase", "Split", "known_locale", "phrases", "split", "write_corpus"]
