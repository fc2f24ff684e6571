"""What two texts have in common once spelling is set aside. Pure; the word lists are data in shared/locales."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Final

COMPARED_CHARS_MAX: Final = 2_000  # of each text, when two are held against each other
NEAR_SAME_RATIO: Final = 0.9
NUMBERS_TELL_APART_BELOW_CHARS: Final = 40  # "monday at 10" and "monday at 11" are two requests
_DIFFLIB_PLAIN_BELOW_CHARS: Final = 200  # from here on difflib's own short cut for popular letters bounds its cost

# Nothing of these is seen: joiners, marks of direction, variation selectors, soft hyphens, fillers, skin tones.
# Not among them, so that a text with them is not taken for the bare word: overrides of direction, tag characters.
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202c\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]"
)
_ALIKE: Final = str.maketrans({"ş": "ș", "ţ": "ț", "’": "'", "‘": "'", "ʼ": "'", "`": "'"})

# Outer punctuation that leaves a word what it is. Not among it: "?" (it asks), "~" (strikes out), ">" (quotes),
# and the brackets of a sad face: "(" at the end.
_EITHER_SIDE: Final = " .,;:!¡*_'\"“”„«»‹›-–—、。"
_BEFORE: Final = _EITHER_SIDE + "(["
_AFTER: Final = _EITHER_SIDE + ")]"

_NUMBERS: Final = re.compile(r"\d+")


def normalise(text: str, dropped_marks: frozenset[str] = frozenset()) -> str:
    """The text as word lists hold it: NFKC, case folded, unseen characters gone, comma and cedilla alike, outer
    punctuation gone, white space single. `dropped_marks` are the combining marks a locale's writers leave out."""
    return spaced(fold(text, dropped_marks)).lstrip(_BEFORE).rstrip(_AFTER)


def fold(text: str, dropped_marks: frozenset[str] = frozenset()) -> str:
    """The letters alone made alike; punctuation and spaces stay."""
    if text.isascii():
        return text.lower()
    seen = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    folded = unicodedata.normalize("NFKC", seen.casefold()).translate(_ALIKE)
    if not dropped_marks:
        return folded
    apart = unicodedata.normalize("NFD", folded)
    return unicodedata.normalize("NFC", "".join(mark for mark in apart if mark not in dropped_marks))


def spaced(text: str) -> str:
    """Every run of white space one space, none outside."""
    return " ".join(text.split())


def without_ending(text: str, endings: Iterable[str]) -> str:
    """A normalised text without one of the endings, as "stop" of "stop. thanks a lot"; itself when nothing is left."""
    for ending in endings:
        if text.endswith(ending):
            rest = text[: -len(ending)]
            bare = rest.rstrip(_AFTER)
            if bare and bare != rest:
                return bare
    return text


def is_blank(text: str) -> bool:
    """Nothing to see: empty, white space, or characters without a shape."""
    return not text or text.isspace() or not _UNSEEN.sub("", text).strip()


def any_of(phrases: Iterable[str]) -> re.Pattern[str]:
    """Finds one of the phrases as whole words inside a normalised text; of no phrases, nothing."""
    listed = sorted(set(phrases))
    return re.compile(rf"(?<!\w){_branches(listed)}(?!\w)" if listed else r"(?!)")


def _branches(phrases: Sequence[str]) -> str:
    """The phrases as one pattern in which common beginnings are tried once."""
    tails: dict[str, list[str]] = {}
    for phrase in phrases:
        tails.setdefault(phrase[:1], []).append(phrase[1:])
    may_end = tails.pop("", None) is not None
    branches = [re.escape(head) + _branches(rest) for head, rest in tails.items()]
    if not branches:
        return ""
    if len(branches) == 1 and not may_end:
        return branches[0]
    return f"(?:{'|'.join(branches)}){'?' if may_end else ''}"


def near_same(one: str, other: str) -> bool:
    """Whether two normalised texts are the same but for a little (difflib's ratio of 0.9 or more).

    Short texts that differ in a number are not: they ask for different things. Cost is bounded: 2,000 characters,
    and of long texts only what lies between their common beginning and end is matched.
    """
    one, other = one[:COMPARED_CHARS_MAX], other[:COMPARED_CHARS_MAX]
    if one == other:
        return True
    total = len(one) + len(other)
    needed = NEAR_SAME_RATIO * total / 2  # matching characters
    if min(len(one), len(other)) < needed:
        return False
    if total < 2 * NUMBERS_TELL_APART_BELOW_CHARS and _NUMBERS.findall(one) != _NUMBERS.findall(other):
        return False
    if max(len(one), len(other)) < _DIFFLIB_PLAIN_BELOW_CHARS:
        return _ratio_reaches(one, other)
    shared, one, other = _trimmed(one, other)
    if shared >= needed:
        return True
    matcher = SequenceMatcher(None, one, other)
    return shared + matcher.quick_ratio() * (len(one) + len(other)) / 2 >= needed and (
        shared + matcher.ratio() * (len(one) + len(other)) / 2 >= needed
    )


def _ratio_reaches(one: str, other: str) -> bool:
    matcher = SequenceMatcher(None, one, other)
    return matcher.quick_ratio() >= NEAR_SAME_RATIO and matcher.ratio() >= NEAR_SAME_RATIO


def _trimmed(one: str, other: str) -> tuple[int, str, str]:
    """How many characters the texts share at both ends, and what lies between."""
    shortest = min(len(one), len(other))
    start = next((at for at in range(shortest) if one[at] != other[at]), shortest)
    rest = shortest - start
    end = next((at for at in range(rest) if one[-1 - at] != other[-1 - at]), rest)
    return start + end, one[start : len(one) - end], other[start : len(other) - end]
