"""The name in a customer's words, as they wrote it."""

from typing import Final

from packs.clinic.dates import normal
from packs.clinic.mock_phrases import phrases

WORDS_MAX: Final = 6
_ENDS: Final = ".,;!?:\n"
_QUOTES: Final = "\"'„”“«»‘"
_STOPS: Final = frozenset({"and", "please", "thanks", "si", "va", "te", "multumesc", "instead"})


def read_name(text: str) -> str | None:
    """What follows the words that introduce a name ("my name is …"); None where nothing does."""
    tokens = text.split()
    for start in range(len(tokens)):
        before = " ".join(normal(token).strip(_ENDS) for token in tokens[:start])
        introduced = any(match.end() == len(before) for match in phrases("listen", "named").finditer(before))
        if introduced:
            return whole_name(" ".join(tokens[start:]))
    return None


def whole_name(text: str) -> str | None:
    """A text that is a name from its beginning on, up to the first word or sign that is none of it."""
    taken: list[str] = []
    for token in text.split()[:WORDS_MAX]:
        word = token.strip(_QUOTES)
        bare = word.rstrip(_ENDS + _QUOTES)
        if normal(bare) in _STOPS:
            break
        if bare:
            taken.append(bare)
        if bare != word:
            break
    return " ".join(taken) or None
