"""Reads a locale's file once and refuses what would surprise at run time."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from shared.errors import Misconfigured
from shared.locales.claim_words import asking_words, claim_words
from shared.locales.entries import names, phrases, pieces, refuse_other_keys, template, text
from shared.locales.locale import Locale
from shared.locales.reactions import reaction_pattern
from shared.words import any_of, fold

_FOLDER: Final = Path(__file__).parent

# Every fixed message and the fields its wording may name; a locale has all of them and no other.
NOTICES: Final[Mapping[str, frozenset[str]]] = {
    "handoff_requested": frozenset(),
    "handoff_waiting": frozenset(),
    "rate_limited": frozenset(),
    "budget": frozenset(),
    "processing_failed": frozenset(),
    "opted_in": frozenset(),
    "fallback": frozenset(),
    "fallback_done": frozenset({"done"}),
    "unsupported": frozenset(),
    "prompt_suffix_yes_no": frozenset(),
    "prompt_suffix_buttons": frozenset(),
    "prompt_last_step": frozenset(),
    "prompt_repeated": frozenset(),
    "button_confirm": frozenset(),
    "button_cancel": frozenset(),
    "no_longer_open": frozenset(),
    "request_edited": frozenset(),
    "write_again": frozenset(),
    "expired": frozenset(),
    "changed": frozenset(),
    "executed": frozenset({"summary"}),
    "not_possible": frozenset({"reason"}),
    "declined_by_customer": frozenset(),
    "declined_by_operator": frozenset(),
    "declined_by_operator_because": frozenset({"reason"}),
    "waiting_for_operator": frozenset(),
    "approval_expired": frozenset(),
    "approval_asked": frozenset({"summary"}),
    "still_waiting": frozenset(),
    "withdrawn": frozenset(),
    "action_unknown": frozenset({"summary"}),
    "reminder_not_open": frozenset(),
}

_LISTS: Final = (
    "explicit_yes", "soft_yes", "no", "opt_out", "carrier_opt_out", "opt_in", "thanks", "handoff_words",
    "handoff_phrases", "handoff_negations", "auto_responder_phrases", "auto_responder_titles", "common_words",
)  # fmt: skip
# One meaning each. A yes may opt in as well: that is read only of the opted out, who can confirm nothing.
_MEANINGS: Final = (
    "explicit_yes", "soft_yes", "no", "opt_out", "carrier_opt_out", "opt_in", "handoff_words",
)  # fmt: skip
_MAY_SHARE: Final = {("explicit_yes", "opt_in")}
_DATE_FIELDS: Final = frozenset({"weekday", "day", "month", "time"})


def available() -> tuple[str, ...]:
    """The names of the locales there are files for."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.toml")))


@cache
def load(name: str) -> Locale:
    """The locale of that name, read and checked once. Misconfigured says what is wrong with name or file."""
    if name not in available():
        raise Misconfigured(f"There is no locale {name!r}; there are: {', '.join(available())}.")
    try:
        data = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        raise Misconfigured(f"The file of locale {name!r} can't be read: {cause}.") from cause
    return parse(name, data)


def parse(name: str, data: Mapping[str, Any]) -> Locale:
    """A locale from its file's content; Misconfigured names the entry that is missing, unknown or at odds."""
    expect = partial(refuse_other_keys, name)
    expect(
        "the file",
        data,
        {"dropped_marks", "told_by_marks", "words", "reactions", "claims", "asking", "dates", "notices"},
    )
    expect("[words]", data["words"], set(_LISTS))
    expect("[reactions]", data["reactions"], {"to_words", "to_things"})
    expect("[dates]", data["dates"], {"weekdays", "months", "day", "moment"})
    expect("[notices]", data["notices"], set(NOTICES))
    marks = frozenset(text(name, "dropped_marks", data["dropped_marks"]))
    lists = {key: phrases(name, key, data["words"][key], marks) for key in _LISTS}
    _refuse_two_meanings(name, lists)
    dates = data["dates"]
    return Locale(
        name=name,
        dropped_marks=marks,
        told_by_marks=_told_by_marks(name, data["told_by_marks"], marks),
        **{key: lists[key] for key in (*_MEANINGS, "common_words")},
        thanks=tuple(sorted(lists["thanks"], key=len, reverse=True)),
        handoff_phrases=any_of(lists["handoff_phrases"]),
        handoff_negations=tuple(f" {phrase}" for phrase in sorted(lists["handoff_negations"])),
        auto_responder_phrases=any_of(lists["auto_responder_phrases"]),
        auto_responder_titles=_titles(lists["auto_responder_titles"]),
        reactions=reaction_pattern(
            **{key: pieces(name, key, data["reactions"][key], marks) for key in ("to_words", "to_things")}
        ),
        claims=claim_words(name, data["claims"], marks),
        asking=asking_words(name, data["asking"], marks),
        notices=MappingProxyType(
            {key: template(name, key, data["notices"][key], NOTICES[key]) for key in NOTICES}
        ),
        weekdays=names(name, "weekdays", dates["weekdays"], 7),
        months=names(name, "months", dates["months"], 12),
        day_pattern=template(name, "day", dates["day"], _DATE_FIELDS - {"time"}),
        moment_pattern=template(name, "moment", dates["moment"], _DATE_FIELDS),
    )


def _refuse_two_meanings(name: str, lists: Mapping[str, frozenset[str]]) -> None:
    for one, other in combinations(_MEANINGS, 2):
        both = lists[one] & lists[other]
        if both and (one, other) not in _MAY_SHARE:
            raise Misconfigured(f"Locale {name!r}: {min(both)!r} has two meanings, {one} and {other}.")
    pleas = any_of(lists["handoff_phrases"])
    for meaning in _MEANINGS[:-1]:
        for phrase in sorted(lists[meaning]):
            if pleas.search(phrase):
                raise Misconfigured(f"Locale {name!r}: {phrase!r} of {meaning} also asks for a person.")


def _titles(phrases: frozenset[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(map(re.escape, sorted(phrases))) or '(?!)'})(?=\s?[\]:.!–—-]|$)")


def _told_by_marks(name: str, entries: object, marks: frozenset[str]) -> frozenset[str]:
    """Words as they are written; one without any of the dropped marks is told by nothing."""
    listed = pieces(name, "told_by_marks", entries, frozenset())
    for word in sorted(listed):
        if fold(word, marks) == word:
            raise Misconfigured(f"Locale {name!r}: told_by_marks has {word!r}, which has none of the marks.")
    return listed
