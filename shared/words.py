"""What texts have in common once spelling is set aside. Pure; the word lists are data in shared/locales."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import Final

COMPARED_CHARS_MAX: Final = 2_000  # of each text, when two are held against each other
NEAR_SAME_RATIO: Final = 0.9
NUMBERS_TELL_APART_BELOW_CHARS: Final = 40  # "monday at 10" and "monday at 11" are two requests
_ENDS_LEFT_OUT_FROM_CHARS: Final = 400  # of both texts; shorter ones are matched as they are
_STEPS_MAX: Final = 10_000  # pairs of equal letters, which difflib's cost grows with; some milliseconds

# Nothing of these is seen: joiners, marks of direction, variation selectors, fillers.
# Not among them, so that a text with them is not the bare word: overrides of direction, tag characters.
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202c\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef]"
)
# A skin tone says nothing on a hand, and is a sign of its own behind a word.
_SKIN_TONE: Final = re.compile(
    "(?<=[\u261d-\u270d\U0001f385-\U0001f3fa\U0001f400-\U0001faff])[\U0001f3fb-\U0001f3ff]"
)
# The thumbs of keyboards without them: "(y)" is no letter in brackets.
_THUMB: Final = re.compile(r"(?<![^\W_])\(([yn])\)(?![^\W_])")
_THUMBS: Final = {"y": "👍", "n": "👎"}
_ALIKE: Final = str.maketrans({"ş": "ș", "ţ": "ț", "’": "'", "‘": "'", "ʼ": "'"})

# Outer punctuation that leaves a word what it is. Not among it: "?" (it asks), "~" (it strikes out), ">" (it
# quotes), "(" at the end (a sad face) and square brackets (they hold data).
_EITHER_SIDE: Final = " .,;:!¡*_'\"“”„«»‹›-–—、。"
_BEFORE: Final = _EITHER_SIDE + "("
_AFTER: Final = _EITHER_SIDE + ")"

_NUMBERS: Final = re.compile(r"\d+")


def normalise(text: str, dropped_marks: frozenset[str] = frozenset()) -> str:
    """The text as word lists hold it: NFKC, case folded, unseen characters and outer punctuation gone, comma
    and cedilla alike, white space single. `dropped_marks` are combining marks that a locale's writers omit.
    """
    return spaced(fold(text, dropped_marks)).lstrip(_BEFORE).rstrip(_AFTER)


def fold(text: str, dropped_marks: frozenset[str] = frozenset()) -> str:
    """The letters alone made alike; punctuation and spaces stay."""
    if text.isascii():
        return _with_thumbs(text.lower())
    seen = unicodedata.normalize("NFKC", _SKIN_TONE.sub("", _UNSEEN.sub("", text)))
    folded = unicodedata.normalize("NFKC", seen.casefold()).translate(_ALIKE)
    if dropped_marks:
        apart = unicodedata.normalize("NFD", folded)
        folded = unicodedata.normalize("NFC", _on_letters(dropped_marks).sub("", apart))
    return _with_thumbs(folded)


@cache
def _on_letters(marks: frozenset[str]) -> re.Pattern[str]:
    """The marks where they belong to a letter; a tilde of its own is a sign."""
    return re.compile(rf"(?<=\w)[{re.escape(''.join(sorted(marks)))}]+")


def _with_thumbs(text: str) -> str:
    return _THUMB.sub(lambda found: _THUMBS[found[1]], text) if "(" in text else text


def spaced(text: str) -> str:
    """Every run of white space one space, none outside."""
    return " ".join(text.split())


def without_ending(text: str, endings: tuple[str, ...]) -> str:
    """A normalised text without the longest ending it has ("stop" of "stop. thanks a lot"), or itself."""
    if not text.endswith(endings):
        return text
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
    return re.compile(rf"(?<!\w){one_of(phrases)}(?!\w)")


def one_of(phrases: Iterable[str]) -> str:
    """The source of a pattern that matches each of the phrases and no more; of no phrases, nothing."""
    listed = sorted(set(phrases))
    return _branches(listed) if listed else "(?!)"


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

    Short texts that differ in a number are not: they ask for different things. Cost is bounded: of 2,000
    characters at most, only what lies between a common beginning and end is matched, by words where letters
    would take too many steps.
    """
    one, other = one[:COMPARED_CHARS_MAX], other[:COMPARED_CHARS_MAX]
    if one == other:
        return True
    total = len(one) + len(other)

    def enough(alike: int) -> bool:
        return 2 * alike / total >= NEAR_SAME_RATIO

    if not enough(min(len(one), len(other))):
        return False
    if total < 2 * NUMBERS_TELL_APART_BELOW_CHARS and _NUMBERS.findall(one) != _NUMBERS.findall(other):
        return False
    ends = 0
    if total >= _ENDS_LEFT_OUT_FROM_CHARS:
        ends, one, other = _trimmed(one, other)
    letters, others = Counter(one), Counter(other)
    if enough(ends) or not enough(ends + (letters & others).total()):
        return enough(ends)
    steps = sum(count * others[letter] for letter, count in letters.items())
    return enough(ends + (_alike(one, other) if steps <= _STEPS_MAX else _alike_by_words(one, other)))


def _alike(one: str, other: str) -> int:
    """How many characters difflib matches, its short cut for popular ones turned off."""
    return sum(
        block.size for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    )


def _alike_by_words(one: str, other: str) -> int:
    """How many characters lie in the words that difflib matches."""
    words = one.split(" ")
    blocks = SequenceMatcher(None, words, other.split(" ")).get_matching_blocks()
    return sum(len(" ".join(words[block.a : block.a + block.size])) for block in blocks)


def _trimmed(one: str, other: str) -> tuple[int, str, str]:
    """How many characters the texts share at both ends, and what lies between."""
    shortest = min(len(one), len(other))
    start = next((at for at in range(shortest) if one[at] != other[at]), shortest)
    rest = shortest - start
    end = next((at for at in range(rest) if one[-1 - at] != other[-1 - at]), rest)
    return start + end, one[start : len(one) - end], other[start : len(other) - end]
