"""Clusters of placeholders that touch each other, with what belongs to them, and what is left outside."""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, final

from dragoman.data.placeholders.recognition import Placeholder, PlaceholderKind

MAX_UNIT = 3
"""Letters that belong to a placeholder which they touch: `%dpx`, `v%s`; more are a word, as in `file%s`."""
_JOINING: Final = frozenset("/:×*+-–_=#%°|\\~^&€$£¥.,'’")
"""Marks between two placeholders that keep them together."""
_SYMBOLS: Final = frozenset("%°€$£¥#~±^*_/\\=+|@")
"""Marks next to a placeholder that belong to it."""
_PAIRS: Final = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "<": ">", "`": "`"}
_OUTSIDE: Final[frozenset[PlaceholderKind]] = frozenset({"tag", "entity", "escape"})
"""Kinds that are left outside of the translated text at its ends."""
_SYMBOLIC: Final[frozenset[PlaceholderKind]] = frozenset({"emoji", "unreadable"})
"""Kinds that are left outside of it if they have no letter and no digit."""
_ORDERED = re.compile(r"%(?!\d+\$|L?\d\d?$|\(|%|[\w#]+[@%])[^%]*|\{(?:[:!][^}]*)?\}", re.DOTALL)
"""Placeholders that get their values by their order."""
_ALONE = re.compile(r"<(?!bpt|ept|sc|ec|bx|ex)[^>]*/>|<(?:br|hr|img|wbr|input)\b.*>|<!--.*", re.DOTALL | re.IGNORECASE)
"""Tags without a partner, which may change places."""


@final
@dataclass(frozen=True, slots=True)
class Cluster:
    """Placeholders that share a stand-in, and their place with what belongs to them."""

    start: int
    end: int
    found: tuple[Placeholder, ...]

    def moved(self, offset: int) -> Self:
        """Return the same cluster in a text that the text around it begins in at a character."""
        found = tuple(replace(one, start=one.start + offset, end=one.end + offset) for one in self.found)
        return replace(self, start=self.start + offset, end=self.end + offset, found=found)

    @property
    def texts(self) -> tuple[str, ...]:
        """The placeholders."""
        return tuple(one.text for one in self.found)

    @property
    def is_outside(self) -> bool:
        """Whether it stays outside of the translated text at its ends: tags and the like, and symbols."""
        return all(
            one.kind in _OUTSIDE or (one.kind in _SYMBOLIC and not any(map(str.isalnum, one.text)))
            for one in self.found
        )

    @property
    def is_ordered(self) -> bool:
        """Whether it has placeholders that get their values by their order, or tags whose partners are elsewhere."""
        if any(one.kind in ("printf", "brace") and _ORDERED.fullmatch(one.text) for one in self.found):
            return True
        tags = [one.text for one in self.found if one.kind == "tag" and not _ALONE.fullmatch(one.text)]
        closed = [tag.startswith("</") for tag in tags]
        return bool(tags) and not (closed == [False, True] and _name_of_tag(tags[0]) == _name_of_tag(tags[1]))


def cluster_placeholders(text: str, found: Sequence[Placeholder]) -> list[Cluster]:
    """Return the placeholders with what belongs to them, in order."""
    clusters = [Cluster(one.start, one.end, (one,)) for one in found]
    clusters = _join_touching(text, clusters, tags=False)
    clusters = _join_touching(text, _join_elements(clusters), tags=True)
    widened: list[Cluster] = []
    for number, cluster in enumerate(clusters, 1):
        high = clusters[number].start if number < len(clusters) else len(text)
        low = widened[-1].end if widened else 0  # what two of them touch belongs to the first
        widened.append(_widen(text, cluster, low=low, high=high))
    return widened


def _join_elements(clusters: Sequence[Cluster]) -> list[Cluster]:
    """Return the clusters; a cluster that is all that an element has is joined with its tags: `<ph>%s</ph>`."""
    joined: list[tuple[int, int, deque[Placeholder]]] = []
    for one in clusters:
        joined.append((one.start, one.end, deque(one.found)))
        while len(joined) >= 3 and _is_element(*joined[-3:]):
            start, inner, end = joined[-3:]
            inner[2].appendleft(start[2][0])
            inner[2].append(end[2][0])
            joined[-3:] = [(start[0], end[1], inner[2])]
    return [Cluster(start, end, tuple(found)) for start, end, found in joined]


def _is_element(*parts: tuple[int, int, Sequence[Placeholder]]) -> bool:
    """Return whether the first and the last of three clusters that touch are the tags of an element."""
    start, inner, end = parts
    if start[1] != inner[0] or inner[1] != end[0] or len(start[2]) > 1 or len(end[2]) > 1:
        return False
    tags = start[2][0].text, end[2][0].text
    return _name_of_tag(tags[0]) == _name_of_tag(tags[1]) and [tag.startswith("</") for tag in tags] == [False, True]


def _name_of_tag(text: str) -> str | None:
    found = re.match(r"</?([\w:.-]+)", text)
    return None if found is None else found[1]


def _join_touching(text: str, clusters: Sequence[Cluster], *, tags: bool) -> list[Cluster]:
    """Return the clusters; clusters that stay together are joined: tags, or what is no tag."""
    groups: list[list[Cluster]] = []
    for one in clusters:
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and (one.found[0].kind == "tag") == tags
            and _touches(text[last.end : one.start], last.found[-1], one.found[0])
        ):
            groups[-1].append(one)
        else:
            groups.append([one])
    return list(map(join_clusters, groups))


def join_clusters(clusters: Sequence[Cluster]) -> Cluster:
    """Return clusters as one."""
    if len(clusters) == 1:
        return clusters[0]
    return Cluster(clusters[0].start, clusters[-1].end, tuple(one for cluster in clusters for one in cluster.found))


def _touches(gap: str, first: Placeholder, second: Placeholder) -> bool:
    """Return whether two placeholders stay together, with nothing or few marks between them."""
    if "tag" in (first.kind, second.kind) and first.kind != second.kind:
        return False
    return len(gap) <= 2 and all(mark in _JOINING for mark in gap)


def _widen(text: str, cluster: Cluster, *, low: int, high: int) -> Cluster:
    """Return a cluster with the units, symbols and pairs of brackets that touch it, between `low` and `high`."""
    start, end = cluster.start, cluster.end
    if cluster.found[0].kind not in _OUTSIDE:
        start -= _length(text[max(low, start - MAX_UNIT - 2) : start][::-1])
    if cluster.found[-1].kind not in _OUTSIDE:
        end += _length(text[end : min(high, end + MAX_UNIT + 2)])
    while low < start and end < high and _PAIRS.get(text[start - 1]) == text[end]:
        start, end = start - 1, end + 1
    return Cluster(start, end, cluster.found)


def _length(near: str) -> int:
    """Return how many characters next to a placeholder, nearest first, belong to it."""
    symbols = len(near) - len(near.lstrip("".join(_SYMBOLS)))
    if symbols > 2:
        return 0
    rest = near[symbols:]
    letters = 0
    while letters < len(rest) and rest[letters].isalnum():
        letters += 1
    return symbols + (letters if letters <= MAX_UNIT else 0)


def trim_clusters(
    text: str, clusters: list[Cluster], *, whole_start: bool, labels: bool
) -> tuple[int, int, list[Cluster]]:
    """Return the start and end of what is translated, and the placeholders in it.

    Outside of it are white space, tags, symbols and the like at the ends, and, with `labels`, a label or a value:
    `%s: no space` and `Name: %s`.
    """
    if not _has_letters(text, clusters):
        return len(text), len(text), []
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    left = deque(clusters)
    while left and left[0].start == start and not whole_start:
        first = left[0]
        is_label = labels and text[first.end : first.end + 2] == ": "
        if not is_label and not first.is_outside:
            break
        start = first.end + is_label
        while start < len(text) and text[start].isspace():
            start += 1
        left.popleft()
    while left and left[-1].end == end and start < left[-1].start:
        last = left[-1]
        is_value = labels and text[max(start, last.start - 2) : last.start] == ": "
        if not is_value and not last.is_outside:
            break
        end = last.start
        while end > start and text[end - 1].isspace():
            end -= 1
        left.pop()
    return start, end, list(left)


def _has_letters(text: str, clusters: Sequence[Cluster]) -> bool:
    """Return whether there is something to translate besides placeholders."""
    place, rest = 0, []
    for one in clusters:
        rest.append(text[place : one.start])
        place = one.end
    return any(map(str.isalpha, "".join([*rest, text[place:]])))
