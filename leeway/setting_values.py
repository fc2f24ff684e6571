"""What a person types for a setting, read: spans of time, dollars, hours of the day. And how a change is told."""

import re
from collections.abc import Sequence
from datetime import time
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import typer

from leeway.business_settings import Change
from leeway.terminal import console, shown

NONE: Final = "none"
CAP_USD_MAX: Final = Decimal(100_000)
SPAN_S_MAX: Final = 30 * 24 * 3600
_SPAN: Final = re.compile(r"([1-9][0-9]{0,6})([smh]?)")
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_CAP: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_HOURS: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")


def seconds(text: str | None) -> int | None:
    """ "90s", "30m", "1h" or plain seconds. Raises BadParameter."""
    if text is None:
        return None
    read = _SPAN.fullmatch(text.strip().lower())
    found = int(read[1]) * _UNITS[read[2]] if read else 0
    if not 0 < found <= SPAN_S_MAX:
        raise typer.BadParameter(f"{text!r} is no span of time like 90s, 30m or 1h (at most 720h)")
    return found


def dollars(text: str) -> str | None:
    """An amount with up to six decimals, as text; None for "none". Raises BadParameter."""
    if text.strip().lower() == NONE:
        return None
    try:
        found = Decimal(text.strip()) if _CAP.fullmatch(text.strip()) else None
    except InvalidOperation:
        found = None
    if found is None or found > CAP_USD_MAX:
        raise typer.BadParameter(f"{text!r} is no amount of dollars like 2.50, nor none")
    return str(found)


def quiet_hours(text: str | None) -> dict[str, str]:
    """ "21:00-08:00", or "none": from midnight to midnight, which is no time. Raises BadParameter."""
    if text is None:
        return {}
    if text.strip().lower() == NONE:
        return {"quiet_from": "00:00:00", "quiet_to": "00:00:00"}
    read = _HOURS.fullmatch(text.strip())
    if read is None:
        raise typer.BadParameter(f"{text!r} are no hours like 21:00-08:00, nor none")
    begins, ends = time(int(read[1]), int(read[2])), time(int(read[3]), int(read[4]))
    return {"quiet_from": begins.isoformat(), "quiet_to": ends.isoformat()}


def tell_changes(what: str, changes: Sequence[Change]) -> None:
    """Each change on a line, as it was and as it is."""
    if not changes:
        console.print(f"{what} was so already; nothing is changed.", markup=False)
    for one in changes:
        told = f"{what}: {one.name} {_value(one.before)} → {_value(one.after)}"
        console.print(shown(told), markup=False, soft_wrap=True)


def _value(value: Any) -> str:
    return "not set" if value is None else str(value)
