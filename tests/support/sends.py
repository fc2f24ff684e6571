"""Sends as channels get them, and accounts as they look them up, without the dull fields."""

import json
from typing import Any

from pydantic import SecretStr

from services.dispatch.ports import Address, Claimed
from shared.channels.accounts import Secrets, Settings
from shared.errors import Unavailable
from shared.ids import AccountId, AttemptId, BusinessId, ConversationId, OutboundId, new_id

ACCOUNT = AccountId(1)


def claimed(*parts: str, buttons: list[dict[str, str]] | None = None, **fields: Any) -> Claimed:
    """A send of one part, if no more are given."""
    plain: dict[str, Any] = {
        "attempt": AttemptId(new_id()),
        "outbound": OutboundId(new_id()),
        "conversation": ConversationId(new_id()),
        "account": ACCOUNT,
        "channel": "generic",
        "user_id": "710000012",
        "parts": parts or ("Hello",),
        "part": 1,
        "round": 1,
        "buttons": json.dumps(buttons) if buttons else None,
        "thread": None,
        "in_reply_to": None,
    }
    return Claimed(**(plain | fields))


def address(
    channel: str,
    *,
    inbound: tuple[str, ...] = (),
    outbound: str | None = None,
    callback_url: str | None = None,
    settings: Settings | None = None,
) -> Address:
    secrets = Secrets(
        inbound=tuple(SecretStr(one) for one in inbound), outbound=SecretStr(outbound) if outbound else None
    )
    return Address(
        business=BusinessId(1),
        channel=channel,
        name="clinic",
        callback_url=callback_url,
        secrets=secrets,
        settings=settings or Settings(),
    )


class Known:
    """services.dispatch.ports.Addresses of one account; None: there is none. Away, when told so."""

    def __init__(self, found: Address | None) -> None:
        self.found = found
        self.away = False

    async def address(self, account: AccountId) -> Address | None:
        if self.away:
            raise Unavailable("Postgres is away")
        return self.found if account == ACCOUNT else None
