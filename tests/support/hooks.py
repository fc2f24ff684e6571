"""Ingest with an account on every channel, on a real Postgres, its clock where a test puts it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import httpx2
from pydantic import SecretStr

from services.ingest.wiring import WiredIngest, wire
from shared.broker.memory import MemoryBroker
from shared.channels.traits import ChannelName
from shared.database import open_pool
from shared.ids import AccountId, BusinessId
from shared.secrets import Vault, new_key
from shared.settings import Settings
from shared.telemetry.metrics import Metrics
from shared.work.service import Parts
from tests.support.factories import Ground, SetClock, ground
from tests.support.payloads import (
    ADDRESS,
    APP_SECRET,
    AUTH_TOKEN,
    BOT_ID,
    BOT_SECRET,
    CURRENT,
    NINE,
    OUR_NUMBER,
    PHONE_NUMBER_ID,
    PREVIOUS,
    PUBLIC_URL,
    TWILIO_SID,
    VERIFY_TOKEN,
    Payload,
    signed,
)

AFTER_ALL: Final = NINE + 600  # later than every time that the payloads state
NOBODY: Final[Any] = dict.fromkeys(
    ("whatsapp_url", "twilio_url", "telegram_url"), "http://127.0.0.1:1"
)  # is asked for anything
MESSAGES: Final = (
    "flag",
    "media_part",
    "identity_change",
    "held_status",
    "inbound_payload",
    "inbound_message",
)
STORED: Final = """
    select m.external_id as id, m.kind, i.user_id, i.reply_to, c.phone, m.body as text, m.button, m.quoted, m.forwarded, m.opt_word,
      m.channel_message_id, m.channel_at, m.business, m.account, m.conversation,
      (select array_agg(array[p.kind, p.mime, p.name, p.reference] order by p.n) from media_part p where p.message = m.id) as parts
    from inbound_message m join conversation v on v.id = m.conversation join customer c on c.id = v.customer
      join channel_identity i on i.conversation = v.id and i.account = m.account
    order by m.received_at, m.id"""

ACCOUNTS: Final[dict[ChannelName, dict[str, Any]]] = {
    ChannelName.WHATSAPP: {
        "secrets": {"inbound": [APP_SECRET], "verify_token": VERIFY_TOKEN},
        "settings": f'{{"phone_number_id": "{PHONE_NUMBER_ID}"}}',
        "provider_address": PHONE_NUMBER_ID,
        "own_number": OUR_NUMBER,
    },
    ChannelName.TWILIO: {
        "secrets": {"inbound": [AUTH_TOKEN]},
        "settings": f'{{"account_sid": "{TWILIO_SID}", "number": "{OUR_NUMBER}"}}',
        "provider_address": OUR_NUMBER,
        "own_number": OUR_NUMBER,
    },
    ChannelName.TELEGRAM: {
        "secrets": {"inbound": [BOT_SECRET]},
        "settings": f'{{"bot_id": "{BOT_ID}"}}',
        "provider_address": BOT_ID,
    },
    ChannelName.SIM: {"secrets": {"inbound": [CURRENT]}},
    ChannelName.GENERIC: {"secrets": {"inbound": [CURRENT, PREVIOUS]}, "verifies_phones": True},
}


@dataclass
class Hooks:
    """The app as the channels see it, and the rows behind it."""

    wired: WiredIngest
    place: Ground
    clock: SetClock
    vault: Vault
    business: BusinessId
    client: httpx2.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        transport = httpx2.ASGITransport(app=self.wired.app(), raise_app_exceptions=True)
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://ingest:8000")

    async def account(
        self, channel: ChannelName, *, business: BusinessId | None = None, **other: Any
    ) -> AccountId:
        """An account of the business's, or of another's; `other` columns are instead of the usual ones."""
        columns = ACCOUNTS[channel] | {"address": ADDRESS} | other
        sealed = self.vault.seal(columns.pop("secrets"))
        return await self.place.account(business or self.business, channel=channel, secrets=sealed, **columns)

    async def send(
        self,
        payload: Payload,
        *,
        address: str = ADDRESS,
        body: bytes | None = None,
        secret: str | None = None,
    ) -> httpx2.Response:
        """The request, signed; with another body in its place, that one is signed; or by another secret."""
        content = payload.body() if body is None else body
        at = int(self.clock.now().timestamp())
        headers = signed(payload, content, address=address, at=at, secret=secret)
        return await self.client.post(payload.path(address), content=content, headers=headers)

    async def stored(self) -> list[dict[str, Any]]:
        """All messages in their order, each with its sender's identity and customer."""
        return [dict(row) for row in await self.place.owner.fetch(STORED)]

    async def forget(self) -> None:
        """No messages any more; people, conversations and accounts stay. A truncate would lock out who looks for work."""
        deletes = "; ".join(f"delete from {table}" for table in MESSAGES)
        await self.place.owner.execute(
            f"begin; set local session_replication_role = 'replica'; {deletes}; commit"
        )

    def counted(self, name: str) -> float:
        """The sum of a counter over its labels."""
        counter = getattr(self.wired.parts.metrics, name)
        return sum(
            sample.value for one in counter.collect() for sample in one.samples if sample.name.endswith("_total")
        )  # fmt: skip


@asynccontextmanager
async def hooks_on(url: str, *, now_s: int = AFTER_ALL) -> AsyncIterator[Hooks]:
    """A business with one account on each channel."""
    key = new_key()
    async with ground(url) as place:
        database = await open_pool(url, size=4, timeouts=Settings().timeouts)
        clock = SetClock(datetime.fromtimestamp(now_s, UTC))
        parts = Parts(
            settings=Settings(secret_key=SecretStr(key), public_base_url=PUBLIC_URL, **NOBODY),
            clock=clock,
            broker=MemoryBroker(),
            database=database,
            metrics=Metrics(process=False),
        )
        wired = await wire(parts)
        async with asyncio.TaskGroup() as group:
            job = group.create_task(wired.service.run())
            hooks = Hooks(wired, place, clock, Vault(key), await place.business())
            for channel in ACCOUNTS:
                await hooks.account(channel)
            async with hooks.client:
                yield hooks
            job.cancel()
        await database.close()
