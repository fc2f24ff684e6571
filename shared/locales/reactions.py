"""The texts that phones send where a channel has no reactions: a few words, then the quoted message."""

import re
from collections.abc import Iterable
from typing import Final

from shared.words import one_of

_SIGN: Final = r"[^\w\s\"'“”„‟«»()<>]{1,12}"  # one emoji, of several characters maybe
_QUOTE: Final = r"[\"'“”„‟«].*(?:[\"'“”»]|\.\.\.)"  # a long one may be cut off by dots


def reaction_pattern(*, to_words: Iterable[str], to_things: Iterable[str]) -> re.Pattern[str]:
    """Matches the whole of a folded, spaced text. `to_words` stand before a quote, `to_things` without one;
    in both "{emoji}" stands for a sign.
    """
    return re.compile(rf"(?:{_with_signs(to_words)} ?{_QUOTE}|{_with_signs(to_things)})\.?")


def _with_signs(pieces: Iterable[str]) -> str:
    return one_of(pieces).replace(re.escape("{emoji}"), _SIGN)
