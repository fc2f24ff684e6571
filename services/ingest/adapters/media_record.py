"""Which media this process fetches, in Postgres: a claim on the part's row, which another process takes over when it runs out."""

from datetime import timedelta
from pathlib import Path

import structlog

from services.ingest.ports import Wanted
from shared.channels.accounts import Secrets, Settings, read_settings
from shared.database import Database, load_queries
from shared.errors import Misconfigured
from shared.messages import PartKind
from shared.secrets import Vault

QUERIES = load_queries(Path(__file__).with_name("media.sql"))
CLAIM = timedelta(seconds=90)  # a fetch is broken off before that
TRIES_MAX = 5

log = structlog.get_logger(__name__)


class PostgresMedia:
    """services.ingest.ports.Media."""

    def __init__(self, database: Database, vault: Vault, *, claim: timedelta = CLAIM) -> None:
        self._database = database
        self._vault = vault
        self._claim = claim

    async def claim(self, *, most: int) -> list[Wanted]:
        await self._database.fetch(QUERIES["give_up"], TRIES_MAX)
        rows = await self._database.fetch(QUERIES["claim"], most, TRIES_MAX, self._claim)
        return [
            Wanted(
                message=row["message"],
                n=row["n"],
                business=row["business"],
                kind=PartKind(row["kind"]),
                mime=row["mime"],
                reference=row["reference"] or "",
                tries=row["tries"],
                until=row["due_at"],
                channel=row["channel"],
                settings=_settings(row["channel"], row["settings"]),
                secrets=self._secrets(row["secrets"]),
            )
            for row in rows
        ]

    def _secrets(self, sealed: bytes | None) -> Secrets:
        """None where they can't be opened: the part then fails by itself, and holds up no other."""
        try:
            return Secrets.model_validate(self._vault.open(sealed))
        except (Misconfigured, ValueError):  # pydantic's are of these
            log.error("an account's secrets can't be opened; its media are not fetched")
            return Secrets()

    async def store(self, wanted: Wanted, content: bytes) -> None:
        await self._database.fetch(QUERIES["store"], *_key(wanted), content)

    async def end(self, wanted: Wanted, *, state: str, reason: str) -> None:
        await self._database.fetch(QUERIES["end"], *_key(wanted), state, reason)

    async def later(self, wanted: Wanted, *, reason: str, pause: timedelta) -> None:
        await self._database.fetch(QUERIES["later"], *_key(wanted), reason, pause)


def _key(wanted: Wanted) -> tuple[object, ...]:
    return wanted.message, wanted.n, wanted.business, wanted.until


def _settings(channel: str, stored: str) -> Settings:
    try:
        return read_settings(channel, stored)
    except Misconfigured:
        return Settings()
