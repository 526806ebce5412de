"""Look inside: what a network looks at, what it weighs, and why a search chose as it did."""

from dragoman.interpret.recorder import KINDS, Kind, Seen, Trace, record

__all__ = ["KINDS", "Kind", "Seen", "Trace", "record"]
