"""Makes, changes and lists channel accounts: the work of an owner's connection, each change with its entry in the audit log."""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from services.console.adapters.postgres_audit import append
from services.dispatch.ports import Address
from shared.audit import Note
from shared.channels.accounts import INBOUND_MAX, Secrets, Telegram, read_settings
from shared.channels.traits import ChannelName
from shared.database import Database, Transaction, load_queries, open_pool
from shared.database.pool import OWNER
from shared.digest import canonical
from shared.errors import Misconfigured
from shared.ids import AccountId, BusinessId
from shared.secrets import Vault, vault_of
from shared.settings import Settings

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
ADDRESS: Final = re.compile(r"[A-Za-z0-9+][A-Za-z0-9._+-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccount:
    """A channel account to make. `settings` is JSON as shared/channels/accounts.py has it for the channel."""

    channel: str
    address: str
    inbound: Sequence[str]
    outbound: str | None = None
    verify_token: str | None = None
    callback_url: str | None = None
    verifies_phones: bool = False
    carrier_takes_cancel: bool = False
    provider_address: str | None = None
    own_number: str | None = None
    settings: str = "{}"

    def secrets(self) -> dict[str, Any]:
        """What the vault keeps."""
        return _kept(self.inbound, self.outbound, self.verify_token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An account that is there."""

    id: AccountId
    business: BusinessId
    channel: str
    address: str

    def __str__(self) -> str:
        return f"{self.channel} {self.address}"


class Accounts:
    """Over a connection as the schema's owner, which only commands have. Also services.dispatch.ports.Addresses."""

    def __init__(self, owner: Database, settings: Settings) -> None:
        self._owner = owner
        self._settings = settings

    @cached_property
    def _vault(self) -> Vault:
        """Only what touches secrets needs the key. Raises Misconfigured without one."""
        return vault_of(self._settings)

    async def add(self, slug: str, account: NewAccount, *, by: str) -> AccountId:
        """Raises Misconfigured for an unknown business, or an address out of form or taken, ours or the provider's."""
        if not ADDRESS.fullmatch(account.address):
            raise Misconfigured(
                f"{account.address!r} can't stand in a URL: up to 64 letters, digits, . _ + and -."
            )
        _refuse_empty(account.secrets())
        async with self._owner.transaction() as transaction:
            found = await transaction.fetch(QUERIES["business_of"], slug)
            if not found:
                raise Misconfigured(f"There is no business {slug}.")
            business = BusinessId(found[0]["id"])
            rows = await transaction.fetch(
                QUERIES["create_new_account"],
                business,
                account.channel,
                account.address,
                self._vault.seal(account.secrets()),
                account.callback_url,
                account.verifies_phones,
                account.carrier_takes_cancel,
                account.provider_address,
                account.own_number,
                account.settings,
            )
            if not rows:
                raise Misconfigured(await _taken(transaction, account))
            # no URL: one may carry a secret
            detail = {
                "verifies_phones": account.verifies_phones,
                "carrier_takes_cancel": account.carrier_takes_cancel,
            }
            subject = f"{account.channel} {account.address}"
            await append(transaction, business, _note(by, "channel.add", subject, detail))
        return AccountId(rows[0]["id"])

    async def renew(self, business: BusinessId, account: NewAccount) -> None:
        """An account for a provider's twin, with fresh secrets. Raises Misconfigured if the address is another business's."""
        rows = await self._owner.fetch(
            QUERIES["renew_account"],
            business,
            account.channel,
            account.address,
            self._vault.seal(account.secrets()),
            account.provider_address,
            account.own_number,
            account.settings,
        )
        if not rows:
            raise Misconfigured(f"The {account.channel} account {account.address} is another business's.")

    async def named(self, address: str, channel: str | None) -> Named:
        """By address, or channel/address. Raises Misconfigured where there is none, or where several channels have one."""
        before, slash, after = address.partition("/")
        name, kind = (after, before) if slash else (address, channel)
        if slash and channel not in (None, before):
            raise Misconfigured(f"{address} is not of the channel {channel}.")
        rows = await self._owner.fetch(QUERIES["named"], name, kind)
        if not rows:
            raise Misconfigured(f"There is no {f'{kind} ' if kind else ''}account {name}.")
        if len(rows) > 1:
            channels = ", ".join(row["channel"] for row in rows)
            raise Misconfigured(f"There are accounts {name} on {channels}; say which with --channel.")
        row = rows[0]
        return Named(
            id=AccountId(row["id"]),
            business=BusinessId(row["business"]),
            channel=row["channel"],
            address=row["address"],
        )

    async def address(self, account: AccountId) -> Address | None:
        """services.dispatch.ports.Addresses, uncached. Raises Misconfigured when the key does not open the secrets."""
        rows = await self._owner.fetch(QUERIES["address"], account)
        if not rows:
            return None
        row = rows[0]
        return Address(
            business=BusinessId(row["business"]),
            channel=row["channel"],
            name=row["address"],
            callback_url=row["callback_url"],
            secrets=Secrets.model_validate(self._vault.open(row["secrets"])),
            settings=read_settings(row["channel"], row["settings"]),
        )

    async def rotate_inbound(self, account: Named, fresh: str, *, by: str) -> None:
        """The fresh secret in front, the one before still valid. Raises Misconfigured while a rotation is unfinished."""

        def changed(secrets: dict[str, Any]) -> dict[str, Any]:
            if len(secrets["inbound"]) >= INBOUND_MAX:
                raise Misconfigured(
                    f"{account} has two valid secrets already; drop the old one first: leeway channel rotate --finish"
                )
            if fresh in secrets["inbound"]:
                raise Misconfigured(f"{account} has that secret already.")
            return secrets | {"inbound": [fresh, *secrets["inbound"]]}

        await self._rotate(account, changed, step="inbound", by=by)

    async def finish_rotation(self, account: Named, *, by: str) -> None:
        """Only the current secret stays. Raises Misconfigured when there is no other."""

        def changed(secrets: dict[str, Any]) -> dict[str, Any]:
            if len(secrets["inbound"]) < INBOUND_MAX:
                raise Misconfigured(f"{account} has one inbound secret; there is no old one to drop.")
            return secrets | {"inbound": secrets["inbound"][:1]}

        await self._rotate(account, changed, step="finish", by=by)

    async def rotate_outbound(self, account: Named, fresh: str, *, by: str) -> None:
        """What we authenticate with to the provider. Raises Misconfigured for a token of another bot."""
        address = await self.address(account.id)
        bot = address.settings.bot_id if address and isinstance(address.settings, Telegram) else None
        if bot is not None and fresh.partition(":")[0] != bot:
            raise Misconfigured(f"That token is of another bot than {account}; add that as its own.")

        def changed(secrets: dict[str, Any]) -> dict[str, Any]:
            if fresh == secrets["outbound"]:
                raise Misconfigured(f"{account} has that secret already.")
            return secrets | {"outbound": fresh}

        await self._rotate(account, changed, step="outbound", by=by)

    async def _rotate(
        self,
        account: Named,
        changed: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        step: str,
        by: str,
    ) -> None:
        async with self._owner.transaction() as transaction:
            rows = await transaction.fetch(QUERIES["lock_secrets"], account.id)
            after = changed(_revealed(Secrets.model_validate(self._vault.open(rows[0]["secrets"]))))
            _refuse_empty(after)
            await transaction.fetch(
                QUERIES["set_secrets"], account.id, account.business, self._vault.seal(after)
            )
            note = _note(by, "channel.rotate", str(account), {"secret": step})
            await append(transaction, account.business, note)

    async def disable(self, account: Named, why: str, *, by: str) -> None:
        """What arrives is stored, replies wait. Raises Misconfigured if it is off."""
        async with self._owner.transaction() as transaction:
            if not await transaction.fetch(QUERIES["disable_account"], account.id, account.business, why):
                raise Misconfigured(f"The {account} is off already.")
            note = _note(by, "channel.disable", str(account), {"why": why})
            await append(transaction, account.business, note)

    async def enable(self, account: Named, *, by: str) -> tuple[int, int]:
        """How many replies go out now, and how many, being too old, became drafts. Raises Misconfigured if it is on."""
        async with self._owner.transaction() as transaction:
            rows = await transaction.fetch(QUERIES["enable_account"], account.channel, account.address)
            if not rows:
                raise Misconfigured(f"The {account.channel} account {account.address} is on.")
            going, late = rows[0]["going"], rows[0]["late"]
            note = _note(by, "channel.enable", str(account), {"going": going, "late": late})
            await append(transaction, account.business, note)
        return going, late

    async def overview(self, slug: str | None) -> Sequence[Mapping[str, Any]]:
        """Every account, of one business or of all, without secrets. Raises Misconfigured for an unknown business."""
        if slug is not None and not await self._owner.fetch(QUERIES["business_of"], slug):
            raise Misconfigured(f"There is no business {slug}.")
        return await self._owner.fetch(QUERIES["overview"], slug)


async def _taken(transaction: Transaction, account: NewAccount) -> str:
    rows = await transaction.fetch(
        QUERIES["taken_by"], account.channel, account.address, account.provider_address
    )
    if not rows or rows[0]["by_address"]:
        return f"There is a {account.channel} account {account.address} already; choose another --address."
    return (
        f"{account.provider_address} on {account.channel} belongs to an account already, of this or another business; "
        "look with: leeway channel list"
    )


def missing_secrets(channel: str, secrets: Secrets, *, polling: bool = False) -> list[str]:
    """What an account of the channel can't work without, and has not got."""
    wanted = {
        "what checks incoming requests": bool(secrets.inbound) or polling,
        "what it sends with": secrets.outbound is not None or channel == ChannelName.SIM,
        "the verify token": secrets.verify_token is not None or channel != ChannelName.WHATSAPP,
    }
    return [name for name, there in wanted.items() if not there]


def _kept(inbound: Sequence[str], outbound: str | None, verify_token: str | None) -> dict[str, Any]:
    kept: dict[str, Any] = {"inbound": list(inbound), "outbound": outbound}
    return kept | ({"verify_token": verify_token} if verify_token is not None else {})


def _revealed(secrets: Secrets) -> dict[str, Any]:
    verify = secrets.verify_token
    return _kept(
        [one.get_secret_value() for one in secrets.inbound],
        secrets.outbound.get_secret_value() if secrets.outbound else None,
        verify.get_secret_value() if verify else None,
    )


def _refuse_empty(secrets: Mapping[str, Any]) -> None:
    """With an empty secret anybody could sign."""
    for one in (*secrets["inbound"], secrets["outbound"], secrets.get("verify_token")):
        if one is not None and not one.strip():
            raise Misconfigured("A secret is empty; nothing was stored.")


def _note(by: str, action: str, subject: str, detail: Mapping[str, Any]) -> Note:
    return Note(actor=by, action=action, subject=subject, detail=canonical(detail))


@asynccontextmanager
async def accounts_of(settings: Settings) -> AsyncIterator[Accounts]:
    """Over a connection of the database URL's own user."""
    url = settings.database_url.get_secret_value()
    owner = await open_pool(url, size=1, timeouts=settings.timeouts, role=OWNER)
    try:
        yield Accounts(owner, settings)
    finally:
        await owner.close()
