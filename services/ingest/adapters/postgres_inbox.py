"""The inbox in Postgres: group commits over arrays, identities cached."""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from services.ingest.core.events import Inbound, Status
from services.ingest.ports import Account, Request
from shared.clock import Clock
from shared.database import Database, load_queries
from shared.errors import ConstraintRefused, Unavailable
from shared.ids import AccountId, BusinessId, ConversationId, new_id
from shared.phones import phone_key
from shared.secrets import Vault
from shared.signing import decode_secret
from shared.text import storable

QUERIES = load_queries(Path(__file__).with_name("inbox.sql"))
ACCOUNT_CACHED_S = 10.0
IDENTITIES_CACHED = 100_000
RESOLVE_TRIES = 5

# What a status is called, and how far it is: a send only moves up, and a failure counts only below delivered.
RANKS = {"sent": 10, "failed": 15, "delivered": 20, "read": 30}

Identity = tuple[AccountId, str]


class PostgresInbox:
    def __init__(self, database: Database, vault: Vault, clock: Clock) -> None:
        self._database = database
        self._vault = vault
        self._clock = clock
        self._accounts: dict[tuple[str, str], tuple[float, Account | None]] = {}
        self._conversations: OrderedDict[Identity, ConversationId] = OrderedDict()

    async def account(self, channel: str, address: str) -> Account | None:
        if storable(address) != address:
            return None  # no row can have it
        known = self._accounts.get((channel, address))
        if known and known[0] > self._clock.monotonic():
            return known[1]
        rows = await self._database.fetch(QUERIES["accounts"], channel, address)
        account = None
        if rows:
            row = rows[0]
            secrets = self._vault.open(row["secrets"])
            inbound = secrets.get("inbound")
            account = Account(
                id=AccountId(row["id"]),
                business=BusinessId(row["business"]),
                business_slug=row["slug"],
                channel=row["channel"],
                address=row["address"],
                keys=tuple(decode_secret(str(key)) for key in inbound) if isinstance(inbound, list) else (),
                verifies_phones=row["verifies_phones"],
            )
        if account is not None or len(self._accounts) < IDENTITIES_CACHED:
            self._accounts[channel, address] = (self._clock.monotonic() + ACCOUNT_CACHED_S, account)
        return account

    async def store(self, requests: Sequence[Request]) -> Sequence[tuple[ConversationId, int]]:
        try:
            return await self._store(requests)
        except ConstraintRefused:  # a conversation we remembered is gone: forget, and look again
            self._conversations.clear()
            return await self._store(requests)

    async def _store(self, requests: Sequence[Request]) -> Sequence[tuple[ConversationId, int]]:
        await self._resolve(requests)
        pairs = [(request.account, message) for request in requests for message in request.messages]
        at = self._conversations
        rows = await self._database.fetch(
            QUERIES["store"],
            [new_id() for _ in pairs],
            [account.business for account, _ in pairs],
            [at[account.id, m.sender] for account, m in pairs],
            [account.id for account, _ in pairs],
            [m.external_id for _, m in pairs],
            [m.channel_message_id for _, m in pairs],
            [m.thread for _, m in pairs],
            [m.kind.value for _, m in pairs],
            [m.text for _, m in pairs],
            [m.button for _, m in pairs],
            [m.quoted for _, m in pairs],
            [m.locale for _, m in pairs],
            [m.auto_reply for _, m in pairs],
            [m.opt_word for _, m in pairs],
            [m.channel_at for _, m in pairs],
            [m.raw for _, m in pairs],
        )
        return [(row["conversation"], row["n"]) for row in rows]

    async def _resolve(self, requests: Sequence[Request]) -> None:
        """Know the conversation of every sender, making those of strangers."""
        for _ in range(RESOLVE_TRIES):
            unknown: dict[Identity, tuple[Account, Inbound]] = {}
            for request in requests:
                for message in request.messages:
                    identity = (request.account.id, message.sender)
                    if identity in self._conversations:
                        self._conversations.move_to_end(identity)
                    elif identity not in unknown or message.phone:
                        unknown[identity] = (request.account, message)
            if not unknown:
                return
            await self._make(unknown)
        raise Unavailable("identities made by another process could not be read back")

    async def _make(self, unknown: dict[Identity, tuple[Account, Inbound]]) -> None:
        people = list(unknown.values())
        rows = await self._database.fetch(
            QUERIES["resolve"],
            [account.id for account, _ in people],
            [account.business for account, _ in people],
            [message.sender for _, message in people],
            [new_id() for _ in people],
            [new_id() for _ in people],
            [message.name for _, message in people],
            [message.phone for _, message in people],
            [phone_key(message.phone) if message.phone else None for _, message in people],
        )
        for row in rows:
            self._conversations[row["account"], row["user_id"]] = row["conversation"]
        while len(self._conversations) > IDENTITIES_CACHED + len(people):
            self._conversations.popitem(last=False)

    async def settle_statuses(self, requests: Sequence[Request]) -> int:
        items = [
            (request.account, status)
            for request in requests
            for status in request.statuses
            if status.status in RANKS
        ]
        if not items:
            return 0
        met = await self._settle([(account.id, status) for account, status in items])
        unmet = [pair for position, pair in enumerate(items) if position not in met]
        if unmet:
            await self._database.fetch(
                QUERIES["hold_statuses"],
                [new_id() for _ in unmet],
                [account.business for account, _ in unmet],
                [account.id for account, _ in unmet],
                [status.correlation for _, status in unmet],
                [status.provider_id for _, status in unmet],
                [status.status for _, status in unmet],
                [status.reason for _, status in unmet],
            )
        return len(unmet)

    async def retry_held(self) -> int:
        rows = await self._database.fetch(QUERIES["held_due"])
        if not rows:
            return 0
        met = await self._settle(
            [
                (
                    AccountId(row["account"]),
                    Status(
                        status=row["status"],
                        correlation=row["correlation"],
                        provider_id=row["provider_id"],
                        reason=row["reason"],
                    ),
                )
                for row in rows
            ]
        )
        done = [row["id"] for position, row in enumerate(rows) if position in met]
        await self._database.fetch(QUERIES["held_done"], done)
        return len(done)

    async def _settle(self, items: Sequence[tuple[AccountId, Status]]) -> set[int]:
        rows = await self._database.fetch(
            QUERIES["statuses"],
            list(range(len(items))),
            [account for account, _ in items],
            [_uuid(status.correlation) for _, status in items],
            [status.provider_id for _, status in items],
            [status.status for _, status in items],
            [RANKS[status.status] for _, status in items],
            [status.reason for _, status in items],
        )
        return {row["position"] for row in rows}


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None
