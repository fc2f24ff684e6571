"""A text in parts that a channel takes, cut where a reader would pause."""

import re

_PAUSES = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?…])\s+"), re.compile(r"\s+"))


def split(text: str, *, characters_max: int) -> list[str]:
    """Parts of at most `characters_max` code points, in order, cut after paragraphs, lines, sentences, words, in this
    order of preference. Nothing but white space at a cut is lost."""
    parts: list[str] = []
    rest = text.strip()
    while len(rest) > characters_max:
        cut, start = _cut(rest, characters_max)
        parts.append(rest[:cut].rstrip())
        rest = rest[start:].lstrip()
    if rest or not parts:
        parts.append(rest)
    return parts


def _cut(text: str, most: int) -> tuple[int, int]:
    """Where the first part ends and where the next begins."""
    for pause in _PAUSES:
        found = [match for match in pause.finditer(text, 0, most + 1) if most // 2 <= match.start() <= most]
        if found:
            return found[-1].start(), found[-1].end()
    return most, most
