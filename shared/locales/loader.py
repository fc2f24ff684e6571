"""Reads a locale's file once and refuses what would surprise at run time."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Any, Final

from shared.errors import Misconfigured
from shared.locales.locale import Locale
from shared.words import any_of, normalise

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
    "expired": frozenset(),
    "changed": frozenset(),
    "executed": frozenset({"summary"}),
    "not_possible": frozenset({"reason"}),
    "declined_by_customer": frozenset(),
    "declined_by_operator": frozenset(),
    "declined_by_operator_because": frozenset({"reason"}),
    "waiting_for_operator": frozenset(),
    "approval_expired": frozenset(),
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
_ALTERNATIVES: Final = re.compile(r"\(([^()]*)\)")


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
    expect = partial(_keys, name)
    expect("the file", data, {"dropped_marks", "words", "dates", "notices"})
    expect("[words]", data["words"], set(_LISTS))
    expect("[dates]", data["dates"], {"weekdays", "months", "day", "moment"})
    expect("[notices]", data["notices"], set(NOTICES))
    marks = frozenset(_text(name, "dropped_marks", data["dropped_marks"]))
    lists = {key: _phrases(name, key, data["words"][key], marks) for key in _LISTS}
    _refuse_two_meanings(name, lists)
    dates = data["dates"]
    return Locale(
        name=name,
        dropped_marks=marks,
        **{key: lists[key] for key in (*_MEANINGS, "common_words")},
        thanks=tuple(sorted(lists["thanks"], key=len, reverse=True)),
        handoff_phrases=any_of(lists["handoff_phrases"]),
        handoff_negations=tuple(f" {phrase}" for phrase in sorted(lists["handoff_negations"])),
        auto_responder_phrases=any_of(lists["auto_responder_phrases"]),
        auto_responder_titles=_titles(lists["auto_responder_titles"]),
        notices=MappingProxyType(
            {key: _template(name, key, data["notices"][key], NOTICES[key]) for key in NOTICES}
        ),
        weekdays=_names(name, "weekdays", dates["weekdays"], 7),
        months=_names(name, "months", dates["months"], 12),
        day_pattern=_template(name, "day", dates["day"], _DATE_FIELDS - {"time"}),
        moment_pattern=_template(name, "moment", dates["moment"], _DATE_FIELDS),
    )


def _phrases(name: str, key: str, entries: object, marks: frozenset[str]) -> frozenset[str]:
    """Normal forms of a list's entries. "(a|b) c" stands for "a c" and "b c"; a comma may be left out."""
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise Misconfigured(f"Locale {name!r}: {key} must be a list of phrases.")
    normal: Callable[[str], str] = partial(normalise, dropped_marks=marks)
    phrases: set[str] = set()
    for phrase in (spelled for entry in entries for spelled in _spelled_out(entry)):
        forms = {normal(phrase), normal(phrase.replace(",", ""))}
        if "" in forms:
            raise Misconfigured(
                f"Locale {name!r}: {key} has a phrase of nothing but punctuation: {phrase!r}."
            )
        phrases |= forms
    return frozenset(phrases)


def _spelled_out(entry: str) -> Iterable[str]:
    parts = _ALTERNATIVES.split(entry)  # plain text at even places, alternatives at odd ones
    choices = [part.split("|") if at % 2 else [part] for at, part in enumerate(parts)]
    return ("".join(chosen) for chosen in product(*choices))


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


def _keys(name: str, where: str, found: object, expected: set[str]) -> None:
    if not isinstance(found, dict):
        raise Misconfigured(f"Locale {name!r}: {where} must be a table.")
    if missing := expected - found.keys():
        raise Misconfigured(f"Locale {name!r}: {where} lacks {', '.join(sorted(missing))}.")
    if unknown := found.keys() - expected:
        raise Misconfigured(f"Locale {name!r}: {where} has unknown entries: {', '.join(sorted(unknown))}.")


def _text(name: str, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise Misconfigured(f"Locale {name!r}: {key} must be a text.")
    return value


def _names(name: str, key: str, value: object, count: int) -> tuple[str, ...]:
    if (
        not isinstance(value, list)
        or len(set(value)) != count
        or not all(isinstance(one, str) for one in value)
    ):
        raise Misconfigured(f"Locale {name!r}: {key} must be {count} different names.")
    return tuple(value)


def _template(name: str, key: str, value: object, fields: frozenset[str]) -> str:
    """A wording that names exactly these fields, plainly: no attributes, no formats."""
    text = _text(name, key, value)
    try:
        parts = list(Formatter().parse(text))
    except ValueError as cause:
        raise Misconfigured(f"Locale {name!r}: the wording of {key} has a stray brace.") from cause
    named = {field for _, field, _, _ in parts if field is not None}
    plain = not any(form or conversion for _, _, form, conversion in parts)
    if not text.strip() or named != fields or not plain:
        wanted = ", ".join(sorted(fields)) or "no field"
        raise Misconfigured(f"Locale {name!r}: the wording of {key} must be a text that names {wanted}.")
    return text
