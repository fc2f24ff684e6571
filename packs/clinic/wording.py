"""What the clinic says itself: prompts, what was done, refusals. No word of a model is in it.

Whatever it shows is the pack's own words, or the clinic's data cut to a length; dates are worded by code from
the clinic's local time. Wording depends on a locale, what is worded does not: a yes in another language is
the same yes.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Final

from packs.clinic.facts import Why
from packs.clinic.locales import FALLBACK, language, words
from shared.locales import load
from shared.packs import Refusal, ReminderWords

SHOWN_CHARS_MAX: Final = 80
LIST_MAX: Final = 12
_NEED_NO_VALUES: Final = frozenset(
    {
        Why.IN_THE_PAST,
        Why.NO_SUCH_TIME,
        Why.SLOT_TAKEN,
        Why.NO_SUCH_APPOINTMENT,
        Why.APPOINTMENT_PAST,
        Why.APPOINTMENT_CANCELLED,
        Why.APPOINTMENT_CHANGED,
        Why.IMPLAUSIBLE_NAME,
    }
)


def day(when: date, locale: str) -> str:
    """ "Thursday 3 December"."""
    return load(language(locale)).day(datetime.combine(when, time()))


def instant(local: str, locale: str) -> str:
    """ "Thursday 3 December, 10:00", of a local time in ISO form."""
    return load(language(locale)).moment(datetime.fromisoformat(local))


def name(names: Mapping[str, str], locale: str) -> str:
    """A thing's name in the locale's language."""
    return bounded(names.get(language(locale)) or names.get(FALLBACK) or next(iter(names.values()), ""))


def bounded(text: str, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """One line of at most `chars_max` printable characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def book_prompt(shown: Mapping[str, Any], locale: str) -> str:
    """The question before a booking, without how to answer it."""
    return _appointment("book_appointment", "prompt", shown, locale)


def book_done(result: Mapping[str, Any], locale: str) -> str:
    return _appointment("book_appointment", "done", result, locale)


def reschedule_prompt(shown: Mapping[str, Any], locale: str) -> str:
    """The question before a move: the old time and the new one, both in full."""
    return _appointment("reschedule_appointment", "prompt", shown, locale)


def reschedule_done(result: Mapping[str, Any], locale: str) -> str:
    return _appointment("reschedule_appointment", "done", result, locale)


def cancel_prompt(shown: Mapping[str, Any], locale: str) -> str:
    """The question before a cancellation."""
    return _appointment("cancel_appointment", "prompt", shown, locale)


def cancel_done(result: Mapping[str, Any], locale: str) -> str:
    return _appointment("cancel_appointment", "done", result, locale)


def name_prompt(shown: Mapping[str, Any], locale: str) -> str:
    """The question before a name is changed; names the old one where there is one."""
    said = words(locale)["update_my_name"]
    text: str = said["prompt" if shown["before"] else "first"]
    return text.format(name=bounded(shown["name"]), before=bounded(shown["before"] or ""))


def name_done(result: Mapping[str, Any], locale: str) -> str:
    text: str = words(locale)["update_my_name"]["done"]
    return text.format(name=bounded(result["name"]))


def reminder(values: Mapping[str, Any], locale: str) -> ReminderWords:
    """A reminder of an appointment, with its buttons."""
    said = words(locale)["reminder"]
    return ReminderWords(
        text=_appointment("reminder", "text", values, locale),
        keep=said["keep"],
        cancel=said["cancel"],
        thanks=said["thanks"],
    )


def unnamed(locale: str) -> str:
    """Who has given no name."""
    text: str = words(locale)["unnamed"]
    return text


def slot(offer: Mapping[str, str], locale: str) -> str:
    """ "Thursday 3 December, 10:00 with Dr. Ionescu", of a local start in ISO form and a dentist."""
    text: str = words(locale)["slot"]
    return text.format(when=instant(offer["start"], locale), dentist=bounded(offer["dentist"]))


def refusal(refused: Refusal, locale: str) -> str:
    """Why not, and what else is possible."""
    said = words(locale)["refusal"]
    sentences = [_reason(refused, locale)]
    alternatives: Sequence[Mapping[str, str]] = refused.detail.get("alternatives", ())
    if alternatives:
        slots = "; ".join(slot(one, locale) for one in alternatives[:LIST_MAX])
        sentences.append(said["alternatives"].format(slots=slots))
    return " ".join(sentences)


def _appointment(table: str, key: str, values: Mapping[str, Any], locale: str) -> str:
    text: str = words(locale)[table][key]
    return text.format(
        service=name(values["service"], locale),
        dentist=bounded(values["dentist"]),
        when=instant(values["start"], locale),
        before=instant(values["from"], locale) if "from" in values else "",
    )


def _reason(refused: Refusal, locale: str) -> str:
    said, detail = words(locale)["refusal"], refused.detail
    key, values = refused.code, dict[str, str]()
    match refused.code:
        case Why.UNKNOWN_SERVICE:
            values["services"] = ", ".join(
                name(one, locale) for one in list(detail["services"].values())[:LIST_MAX]
            )
        case Why.DENTIST_AWAY:
            values["dentists"] = ", ".join(bounded(one) for one in detail["dentists"][:LIST_MAX])
        case Why.UNKNOWN_DENTIST | Why.NOT_OFFERED:
            values["dentists"] = ", ".join(bounded(one) for one in detail["dentists"][:LIST_MAX])
            key = refused.code if detail["dentists"] else "not_offered_by_anyone"
        case Why.CLOSED:
            values["open"] = ", ".join(detail["open"])
            values["holiday"] = name(detail.get("holiday", {}), locale)
            key = "closed_then" if detail["open"] else "closed_holiday" if values["holiday"] else refused.code
        case Why.OVERLAPS_OWN:
            values["own"] = instant(detail["own"], locale)
        case Why.TOO_FAR:
            values["last_day"] = day(date.fromisoformat(detail["last_day"]), locale)
        case Why.DATE_MISMATCH:
            values["days"] = "; ".join(
                day(date.fromisoformat(one), locale) for one in detail["days"][:LIST_MAX]
            )
        case Why.SAME_TIME:
            values["when"] = instant(detail["start"], locale)
        case Why.SAME_NAME:
            values["name"] = bounded(detail["name"])
        case _:
            key = refused.code if refused.code in _NEED_NO_VALUES else "other"
    text: str = said[key]
    return text.format(**values)
