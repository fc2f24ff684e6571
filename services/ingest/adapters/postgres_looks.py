"""Which Twilio accounts this process asks for missed messages, in Postgres: a claim on the account's row, and how far it got."""

from datetime import timedelta
from pathlib import Path

from pydantic import SecretStr

from services.ingest.ports import Look
from shared.channels.accounts import Secrets
from shared.database import Database, load_queries
from shared.ids import AccountId
from shared.secrets import Vault

QUERIES = load_queries(Path(__file__).with_name("looks.sql"))
CLAIM = timedelta(minutes=4)  # a look takes seconds, and is broken off before that


class PostgresLooks:
    """services.ingest.ports.Looks."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault

    async def claim(self, *, older_than: timedelta) -> list[Look]:
        rows = await self._database.fetch(QUERIES["claim"], older_than, CLAIM)
        return [
            Look(
                account=AccountId(row["id"]),
                address=row["address"],
                key=Secrets.model_validate(self._vault.open(row["secrets"])).outbound or SecretStr(""),
                since=row["looked_at"],
                at=row["at"],
                until=row["looking_until"],
            )
            for row in rows
        ]

    async def done(self, look: Look) -> None:
        await self._database.fetch(QUERIES["done"], look.account, look.until, look.at)

    async def give_back(self, look: Look) -> None:
        await self._database.fetch(QUERIES["give_back"], look.account, look.until)
