"""Whose a message is: a valid signature proves the channel, not the tenant."""

from collections.abc import Sequence
from dataclasses import replace

from services.ingest.core.entrance import Account
from services.ingest.core.events import Inbound, Parsed, Status
from shared.ids import AccountId

Housed = tuple[Account, tuple[Inbound, ...], tuple[Status, ...]]


def at_home(parsed: Parsed, account: Account) -> tuple[Sequence[Housed], int]:
    """What was parsed, by the business's account it is for, the URL's own first; and how much is for none of them."""
    if not any(one.to for one in parsed.messages) and not any(one.to for one in parsed.statuses):
        return (
            [(account, parsed.messages, parsed.statuses)] if parsed.messages or parsed.statuses else []
        ), 0
    messages: dict[AccountId, list[Inbound]] = {}
    statuses: dict[AccountId, list[Status]] = {}
    strays = 0
    for message in parsed.messages:
        home = account.id if message.to is None else account.homes.get(message.to)
        if home is None:
            strays += 1
        else:
            messages.setdefault(home, []).append(message)
    for status in parsed.statuses:
        home = account.id if status.to is None else account.homes.get(status.to)
        if home is None:
            strays += 1
        else:
            statuses.setdefault(home, []).append(status)
    homes = sorted({*messages, *statuses}, key=lambda one: one != account.id)
    return [
        (replace(account, id=home), tuple(messages.get(home, ())), tuple(statuses.get(home, ())))
        for home in homes
    ], strays
