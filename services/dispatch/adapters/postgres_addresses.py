"""Channel accounts as dispatch reaches their providers: cached for some seconds, secrets opened."""

from pathlib import Path

from services.dispatch.ports import Address
from shared.channels.accounts import Secrets, read_settings
from shared.clock import Clock
from shared.database import Database, load_queries
from shared.ids import AccountId, BusinessId
from shared.secrets import Vault

QUERIES = load_queries(Path(__file__).with_name("addresses.sql"))
CACHED_S = 10.0


class PostgresAddresses:
    """services.dispatch.ports.Addresses."""

    def __init__(self, database: Database, vault: Vault, clock: Clock) -> None:
        self._database = database
        self._vault = vault
        self._clock = clock
        self._known: dict[AccountId, tuple[float, Address | None]] = {}

    async def address(self, account: AccountId) -> Address | None:
        known = self._known.get(account)
        if known and known[0] > self._clock.monotonic():
            return known[1]
        rows = await self._database.fetch(QUERIES["accounts"], account)
        address = None
        if rows:
            row = rows[0]
            address = Address(
                business=BusinessId(row["business"]),
                channel=row["channel"],
                name=row["address"],
                callback_url=row["callback_url"],
                secrets=Secrets.model_validate(self._vault.open(row["secrets"])),
                settings=read_settings(row["channel"], row["settings"]),
                sealed=row["secrets"],
            )
        self._known[account] = (self._clock.monotonic() + CACHED_S, address)
        return address

    def forget(self, account: AccountId) -> None:
        """Look it up anew next time."""
        self._known.pop(account, None)
