"""Makes tenants and their channel accounts: the work of an owner's connection, not of the pipeline's."""

import base64
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from services.console.adapters.postgres_audit import append
from shared.audit import Note
from shared.autonomy import Mode
from shared.clock import Clock
from shared.database import Database, load_queries, open_pool, queries_of
from shared.database.pool import OWNER
from shared.digest import canonical
from shared.errors import Misconfigured
from shared.ids import AccountId, BusinessId
from shared.packs import Pack
from shared.secrets import Vault
from shared.settings import Settings

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBusiness:
    slug: str
    name: str
    mode: Mode
    pack: str
    locales: tuple[str, ...]
    time_zone: str
    window_ms: int = 2000


class Businesses:
    """Over a connection as the schema's owner, which only commands have."""

    def __init__(self, owner: Database, vault: Vault) -> None:
        self._owner = owner
        self._vault = vault

    async def create(self, business: NewBusiness) -> BusinessId:
        rows = await self._owner.fetch(
            QUERIES["create_business"],
            business.slug,
            business.name,
            business.mode.value,
            business.pack,
            list(business.locales),
            business.time_zone,
            business.window_ms,
        )
        return BusinessId(rows[0]["id"])

    async def create_new(self, business: NewBusiness, *, by: str) -> BusinessId:
        """Written down as done by `by`. Raises Misconfigured when the slug is taken or out of form."""
        if not SLUG.fullmatch(business.slug):
            raise Misconfigured(
                f"{business.slug!r} is no short name: up to 63 of a-z, 0-9 and -, no - first."
            )
        async with self._owner.transaction() as transaction:
            rows = await transaction.fetch(
                QUERIES["create_new_business"],
                business.slug,
                business.name,
                business.mode.value,
                business.pack,
                list(business.locales),
                business.time_zone,
                business.window_ms,
            )
            if not rows:
                raise Misconfigured(
                    f"There is a business {business.slug} already; see: leeway business show."
                )
            made = BusinessId(rows[0]["id"])
            detail = {"mode": business.mode.value, "pack": business.pack}
            await append(transaction, made, _note(by, "business.create", business.slug, detail))
        return made

    async def show(self, slug: str) -> dict[str, Any]:
        """Its settings and channel accounts, no secrets. Raises Misconfigured for an unknown slug."""
        rows = await self._owner.fetch(QUERIES["by_slug"], slug)
        if not rows:
            raise Misconfigured(f"There is no business {slug}.")
        accounts = await self._owner.fetch(QUERIES["accounts_of"], rows[0]["id"])
        return dict(rows[0]) | {"accounts": [dict(one) for one in accounts]}

    async def add_account(
        self,
        business: BusinessId,
        *,
        channel: str,
        address: str,
        inbound: list[str],
        outbound: str | None = None,
        callback_url: str | None = None,
    ) -> AccountId:
        """A channel account with its secrets (`whsec_…`). Raises Misconfigured if it is another's."""
        sealed = self._vault.seal({"inbound": inbound, "outbound": outbound})
        rows = await self._owner.fetch(
            QUERIES["create_account"], business, channel, address, sealed, callback_url
        )
        if rows[0]["business"] != business:
            raise Misconfigured(f"The {channel} account {address} belongs to another business.")
        return AccountId(rows[0]["id"])

    async def set_mode(self, business: BusinessId, mode: Mode) -> None:
        await self._owner.fetch(QUERIES["set_mode"], business, mode.value)

    async def business_at(self, channel: str, address: str) -> BusinessId:
        """Whose account it is."""
        rows = await self._owner.fetch(QUERIES["sealed"], channel, address)
        return BusinessId(rows[0]["business"])

    async def inbound_secret(self, channel: str, address: str) -> str:
        """The account's first signing secret, for who plays its provider."""
        rows = await self._owner.fetch(QUERIES["sealed"], channel, address)
        inbound = self._vault.open(rows[0]["secrets"])["inbound"]
        assert isinstance(inbound, list), "inbound secrets are a list"
        return str(inbound[0])


def _note(by: str, action: str, subject: str, detail: Mapping[str, Any]) -> Note:
    return Note(actor=by, action=action, subject=subject, detail=canonical(detail))


@asynccontextmanager
async def as_owner(settings: Settings, vault: Vault) -> AsyncIterator[Businesses]:
    """The businesses, over a connection of the database URL's own user."""
    url = settings.database_url.get_secret_value()
    owner = await open_pool(url, size=1, timeouts=settings.timeouts, role=OWNER)
    try:
        yield Businesses(owner, vault)
    finally:
        await owner.close()


def new_secret() -> str:
    """A fresh signing secret: `whsec_` and 32 random bytes in base64."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


async def seed_pack(database: Database, pack: Pack, business: BusinessId, clock: Clock) -> None:
    """The pack's demo data for a business; again is a no-op."""
    queries = queries_of(pack)
    async with database.tenant(business, queries) as sql:
        await pack.seed(sql, business, now=clock.now())
