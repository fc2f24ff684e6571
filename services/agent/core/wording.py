"""The system's own words around a pending action. Model text is no part of them."""

import msgspec

from services.agent.core.pending import Button, Press
from shared.ids import ActionId
from shared.locales import Locale


def prompt(summary: str, locale: Locale) -> str:
    """The question: what would be done, and how to answer."""
    return f"{summary} {locale.notice('prompt_suffix_yes_no')}"


def last_step(summary: str, locale: Locale) -> str:
    """The question before what can't be undone, after which nothing more is asked."""
    return f"{summary} {locale.notice('prompt_last_step')} {locale.notice('prompt_suffix_yes_no')}"


def repeated(summary: str, locale: Locale, *, last: bool) -> str:
    """The question once more; `last`: of the step after which nothing more is asked."""
    final = f" {locale.notice('prompt_last_step')}" if last else ""
    return f"{locale.notice('prompt_repeated')} {summary}{final}"


def buttons_json(action: ActionId, step: int, locale: Locale) -> str:
    """Confirm and Cancel, which carry the action and the step they are for, as JSON: [{"id", "title"}, …]."""
    presses = ((Press.CONFIRM, "button_confirm"), (Press.CANCEL, "button_cancel"))
    made = [
        {"id": Button(action=action, step=step, press=press).encode(), "title": locale.notice(name)}
        for press, name in presses
    ]
    return msgspec.json.encode(made).decode()
