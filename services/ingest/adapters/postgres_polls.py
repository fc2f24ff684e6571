"""Which bots' updates this process fetches, in Postgres: a lease on the account's row, and how far it got."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from services.ingest.ports import Polled
from shared.channels.accounts import Secrets
from shared.database import Database, load_queries
from shared.ids import AccountId
from shared.secrets import Vault

QUERIES = load_queries(Path(__file__).with_name("polls.sql"))
LEASE = timedelta(seconds=60)


class PostgresPolls:
    """services.ingest.ports.Polls."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault

    async def claim(self) -> list[Polled]:
        return [self._read(row) for row in await self._database.fetch(QUERIES["claim"], LEASE)]

    async def renew(self, polled: Polled, *, offset: int | None) -> Polled | None:
        rows = await self._database.fetch(QUERIES["renew"], polled.account, polled.leased_at, offset)
        return self._read(rows[0]) if rows else None

    async def release(self, polled: Polled) -> None:
        await self._database.fetch(QUERIES["release"], polled.account, polled.leased_at)

    def _read(self, row: Mapping[str, Any]) -> Polled:
        token = Secrets.model_validate(self._vault.open(row["secrets"])).outbound
        return Polled(
            account=AccountId(row["id"]),
            address=row["address"],
            token=token or SecretStr(""),
            offset=row["poll_offset"],
            leased_at=row["looked_at"],
        )
