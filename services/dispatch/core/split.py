"""A text in parts that a channel takes, cut where a reader would pause and never inside what a reader takes for one letter."""

from collections.abc import Callable

import regex

# No pause may be followed by a mark: it belongs to the white space before it.
_NO_MARK = r"(?![\p{M}\u200d])"
_PAUSES = tuple(
    regex.compile(pause + _NO_MARK) for pause in (r"\n\s*+\n\s*+", r"\s*+\n\s*+", r"(?<=[.!?…])\s++", r"\s++")
)
_CLUSTER = regex.compile(r"\X")


def split(text: str, *, length: Callable[[str], int], most: int, last_most: int | None = None) -> list[str]:
    """Parts that are at most `most` long as `length` counts, in order, cut after paragraphs, lines, sentences, words, in this
    order of preference, else between grapheme clusters (Unicode, UAX 29). Nothing but white space at a cut is lost.
    `last_most`: what the last part may be at most, where that is less. A cluster that no part can hold is cut after all.
    """
    parts = _parts(text.strip(), length, most)
    if last_most is not None and length(parts[-1]) > last_most:
        parts[-1:] = _parts(parts[-1], length, last_most)
    return parts


def _parts(rest: str, length: Callable[[str], int], most: int) -> list[str]:
    parts: list[str] = []
    while length(rest) > most:
        cut, start = _cut(rest, _fitting(rest, length, most))
        parts.append(rest[:cut].rstrip())
        rest = rest[start:].lstrip()
    if rest or not parts:
        parts.append(rest)
    return parts


def _fitting(text: str, length: Callable[[str], int], most: int) -> int:
    """How many code points of a text that is too long fit; at least one. No way of counting finds more of them than it counts."""
    low, high = 1, min(most, len(text))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if length(text[:middle]) <= most else (low, middle - 1)
    return low


def _cut(text: str, most: int) -> tuple[int, int]:
    """Where the first part ends and where the next begins."""
    for pause in _PAUSES:
        found = [match for match in pause.finditer(text, 0, most + 1) if most // 2 <= match.start() <= most]
        if found:
            return found[-1].start(), found[-1].end()
    boundary = 0
    for cluster in _CLUSTER.finditer(text):
        if cluster.end() > most:
            break
        boundary = cluster.end()
    return (boundary or most,) * 2
