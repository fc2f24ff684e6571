"""The inbox in Postgres: group commits over arrays, identities cached."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from services.ingest.core.entrance import Account
from services.ingest.core.events import STATUSES, Inbound, Status
from services.ingest.ports import NewMessages, Request
from shared.channels.accounts import Secrets, read_settings
from shared.channels.traits import ChannelName
from shared.channels.troubles import Trouble
from shared.clock import Clock
from shared.database import Database, load_queries
from shared.errors import ConstraintRefused, Misconfigured, Unavailable
from shared.ids import AccountId, BusinessId, ConversationId, new_id
from shared.phones import phone_key
from shared.secrets import Vault
from shared.signing import decode_secret
from shared.text import storable

QUERIES = load_queries(Path(__file__).with_name("inbox.sql"))
ACCOUNT_CACHED_S = 10.0
IDENTITIES_CACHED = 100_000
RESOLVE_TRIES = 5
MESSAGES_AT_ONCE = 1000  # of one statement, which must end within its time-out whoever they are of

Identity = tuple[AccountId, str]


class PostgresInbox:
    def __init__(self, database: Database, vault: Vault, clock: Clock) -> None:
        self._database = database
        self._vault = vault
        self._clock = clock
        self._accounts: dict[tuple[str, str], tuple[float, Account | None]] = {}
        self._conversations: OrderedDict[Identity, tuple[ConversationId, str | None]] = OrderedDict()

    async def account(self, channel: str, address: str) -> Account | None:
        if storable(address) != address:
            return None  # no row can have it
        known = self._accounts.get((channel, address))
        if known and known[0] > self._clock.monotonic():
            return known[1]
        rows = await self._database.fetch(QUERIES["accounts"], channel, address)
        account = None
        if rows:
            account = self._read(rows[0])
        if account is not None or len(self._accounts) < IDENTITIES_CACHED:
            self._accounts[channel, address] = (self._clock.monotonic() + ACCOUNT_CACHED_S, account)
        return account

    def _read(self, row: Mapping[str, Any]) -> Account:
        try:
            return _account(row, Secrets.model_validate(self._vault.open(row["secrets"])))
        except ValueError as error:  # pydantic's, and that of a secret which is none
            raise Misconfigured(f"The secrets of {row['channel']} {row['address']} can't be read.") from error

    async def store(self, requests: Sequence[Request]) -> Sequence[NewMessages]:
        stored: list[NewMessages] = []
        for portion in _portions(requests):
            stored += await self._store_or_again(portion)
        return stored

    async def _store_or_again(self, requests: Sequence[Request]) -> Sequence[NewMessages]:
        try:
            return await self._store(requests)
        except ConstraintRefused:  # a conversation we remembered is gone: forget, and look again
            self._conversations.clear()
            return await self._store(requests)

    async def _store(self, requests: Sequence[Request]) -> Sequence[NewMessages]:
        await self._resolve(requests)
        pairs = [(request.account, message) for request in requests for message in request.messages]
        at = self._conversations
        ids = [new_id() for _ in pairs]
        full = any(m.parts or m.renamed_to for _, m in pairs)
        rows = await self._database.fetch(
            QUERIES["store_full" if full else "store"],
            ids,
            [account.business for account, _ in pairs],
            [at[account.id, m.sender][0] for account, m in pairs],
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
            [m.forwarded for _, m in pairs],
            *(_more(ids, [m for _, m in pairs]) if full else ()),
        )
        await self._prove([(at[account.id, m.sender][0], m) for account, m in pairs if m.proves_phone])
        accounts = {at[account.id, m.sender][0]: account for account, m in pairs}
        return [
            NewMessages(
                conversation=row["conversation"],
                account=accounts[row["conversation"]],
                messages=tuple(row["messages"]),
            )
            for row in rows
        ]

    async def _prove(self, proofs: Sequence[tuple[ConversationId, Inbound]]) -> None:
        """Numbers that people proved to be theirs. Of two who prove the same at once the second finds the first's customer."""
        known = [(conversation, one, one.phone) for conversation, one in proofs if one.phone]
        if not known:
            return
        arguments = (
            [conversation for conversation, _, _ in known],
            [phone for *_, phone in known],
            [phone_key(phone) for *_, phone in known],
            [one.external_id for _, one, _ in known],
        )
        try:
            await self._database.fetch(QUERIES["prove"], *arguments)
        except ConstraintRefused:
            await self._database.fetch(QUERIES["prove"], *arguments)

    async def _resolve(self, requests: Sequence[Request]) -> None:
        """Know the conversation of every sender, making those of strangers."""
        for _ in range(RESOLVE_TRIES):
            unknown: dict[Identity, tuple[Account, Inbound]] = {}
            for request in requests:
                for message in request.messages:
                    identity = (request.account.id, message.sender)
                    known = self._conversations.get(identity)
                    if known and message.reply_to in (None, known[1]):
                        self._conversations.move_to_end(identity)
                    elif identity not in unknown or message.phone:
                        unknown[identity] = (request.account, message)
            if not unknown:
                return
            await self._make(_by_id_first(unknown))
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
            [message.also_known_as for _, message in people],
            [message.reply_to for _, message in people],
        )
        for row in rows:
            identity = (row["account"], row["user_id"])
            self._conversations[identity] = (row["conversation"], unknown[identity][1].reply_to)
        while len(self._conversations) > IDENTITIES_CACHED + len(people):
            self._conversations.popitem(last=False)

    async def settle_statuses(self, requests: Sequence[Request]) -> int:
        items = [
            (request.account, status)
            for request in requests
            for status in request.statuses
            if status.status in STATUSES
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
                [status.trouble for _, status in unmet],
                [status.at for _, status in unmet],
                [status.billing for _, status in unmet],
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
                        trouble=Trouble(row["trouble"]) if row["trouble"] else None,
                        at=row["at"],
                        billing=row["billing"],
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
            [STATUSES[status.status] for _, status in items],
            [status.reason for _, status in items],
            [status.trouble for _, status in items],
            [status.at for _, status in items],
            [status.billing for _, status in items],
        )
        return {row["position"] for row in rows}


def _portions(requests: Sequence[Request]) -> Iterator[Sequence[Request]]:
    """The requests' messages in their order, at most MESSAGES_AT_ONCE in each portion."""
    if sum(len(request.messages) for request in requests) <= MESSAGES_AT_ONCE:
        yield requests
        return
    portion: list[Request] = []
    room = MESSAGES_AT_ONCE
    for request in requests:
        at = 0
        while at < len(request.messages):
            some = request.messages[at : at + room]
            portion.append(Request(account=request.account, messages=some, statuses=()))
            at, room = at + len(some), room - len(some)
            if room == 0:
                yield portion
                portion, room = [], MESSAGES_AT_ONCE
    if portion:
        yield portion


def _by_id_first(
    unknown: Mapping[Identity, tuple[Account, Inbound]],
) -> dict[Identity, tuple[Account, Inbound]]:
    """Without those who are somebody else's number in the same batch: once the id is made, the number finds it."""
    numbers = {(account.id, message.also_known_as) for account, message in unknown.values()}
    return {identity: one for identity, one in unknown.items() if identity not in numbers}


def _account(row: Mapping[str, Any], secrets: Secrets) -> Account:
    channel = row["channel"]
    keys = (one.get_secret_value() for one in secrets.inbound)
    token = secrets.verify_token.get_secret_value() if secrets.verify_token else ""
    return Account(
        id=AccountId(row["id"]),
        business=BusinessId(row["business"]),
        business_slug=row["slug"],
        channel=channel,
        address=row["address"],
        keys=tuple(_key(channel, key) for key in keys if key),  # an empty one would sign what anybody wrote
        verifies_phones=row["verifies_phones"],
        verify_token=token.encode() or None,
        settings=read_settings(channel, row["settings"]),
        own_number=row["own_number"],
        homes={address: AccountId(account) for address, account in row["homes"] or ()},
    )


def _key(channel: str, secret: str) -> bytes:
    standard = channel in (ChannelName.SIM, ChannelName.GENERIC)
    return decode_secret(secret) if standard else secret.encode()


def _more(ids: Sequence[UUID], messages: Sequence[Inbound]) -> tuple[list[Any], ...]:
    """What `store_full` takes beside: parts, and announced changes of id."""
    parts = [
        (message, n, part)
        for message, one in zip(ids, messages, strict=True)
        for n, part in enumerate(one.parts, start=1)
    ]
    changes = [
        (message, one.sender, one.renamed_to)
        for message, one in zip(ids, messages, strict=True)
        if one.renamed_to
    ]
    return (
        [message for message, _, _ in parts],
        [n for _, n, _ in parts],
        [part.kind.value for *_, part in parts],
        [part.mime for *_, part in parts],
        [part.name for *_, part in parts],
        [part.reference for *_, part in parts],
        [part.fetched for *_, part in parts],
        [part.words for *_, part in parts],
        [new_id() for _ in changes],
        [message for message, _, _ in changes],
        [old for _, old, _ in changes],
        [new for *_, new in changes],
    )


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None
