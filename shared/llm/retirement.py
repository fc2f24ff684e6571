"""Models that providers switch off, so that nobody learns it from a customer's unanswered message.

From the providers' own pages of November 2026.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """The last day's end of a name, and which model to set instead."""

    on: date
    instead: str
    then: str = ""  # what the provider does with the name afterwards


_GPT_4 = Retirement(on=date(2027, 1, 14), instead="gpt-6-luna")
_DEEPSEEK = Retirement(on=date(2026, 7, 24), instead="deepseek-flash")
_BILLED_AS = "calls are answered by, and billed as, {}"

RETIREMENTS: Mapping[str, Retirement] = {
    "deepseek-chat": _DEEPSEEK,
    "deepseek-reasoner": _DEEPSEEK,
    "deepseek-v4-pro": Retirement(
        on=date(2026, 9, 14), instead="deepseek-flash", then=_BILLED_AS.format("deepseek-flash")
    ),
    "gemini-2.5-flash": Retirement(
        on=date(2026, 12, 1),
        instead="gemini-3.5-flash-lite",
        then=_BILLED_AS.format("gemini-3.5-flash-lite"),
    ),
    "gemini-2.5-pro": Retirement(
        on=date(2026, 12, 1), instead="gemini-3.8-flash", then=_BILLED_AS.format("gemini-3.8-flash")
    ),
    "gpt-4.1": _GPT_4,
    "gpt-4.1-mini": _GPT_4,
    "gpt-4o": _GPT_4,
    "gpt-4o-mini": _GPT_4,
    "gpt-5": Retirement(on=date(2026, 12, 11), instead="gpt-6.1-terra"),
    "gpt-5-mini": Retirement(on=date(2026, 12, 11), instead="gpt-6-luna"),
    "gpt-5-nano": Retirement(on=date(2026, 12, 11), instead="gpt-6-luna"),
}

_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8})$")


def retirement(model: str, today: date) -> str | None:
    """A sentence that says when `model` (its name, dated or not) ends and what to set instead; None if it stays."""
    known = RETIREMENTS.get(_DATE.sub("", model.removeprefix("models/")))
    if known is None:
        return None
    days = (known.on - today).days
    when = f"ends on {known.on} (in {days} days)" if days > 0 else f"ended on {known.on}"
    then = f"; {'then' if days > 0 else 'now'} {known.then}" if known.then else ""
    return f"{model} {when}{then}. Set {known.instead} instead."
