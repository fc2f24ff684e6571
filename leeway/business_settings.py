"""What a business's people set: its dials and limits, each change in one transaction with its entry in the audit log."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from services.console.adapters.postgres_audit import append
from shared.audit import Note
from shared.autonomy import Asked, Mode
from shared.database import Database, Transaction, load_queries, open_pool
from shared.database.pool import OWNER
from shared.digest import canonical
from shared.errors import Misconfigured
from shared.ids import BusinessId, ConversationId
from shared.packs import HAND_OVER, Pack
from shared.settings import Settings
from shared.work.retry import retried

QUERIES = load_queries(Path(__file__).with_name("businesses.sql"))
NO_BUSINESS: Final = "There is no business {}."

Row = Mapping[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting, as it was and as it is."""

    name: str
    before: Any
    after: Any


class BusinessSettings:
    """Over a connection as the schema's owner, which only commands have. `by`: who changes it."""

    def __init__(self, owner: Database) -> None:
        self._owner = owner

    async def change(self, slug: str, wanted: Mapping[str, Any], *, by: str) -> Sequence[Change]:
        """Set what is named; what really changed. Raises Misconfigured for an unknown slug."""

        async def once(transaction: Transaction) -> Sequence[Change]:
            business, before = await _business(transaction, slug)
            rows = await transaction.fetch(QUERIES["change"], business, json.dumps(dict(wanted)))
            after = json.loads(rows[0]["settings"])
            changes = [
                Change(name=name, before=before[name], after=after[name])
                for name in wanted
                if before[name] != after[name]
            ]
            if changes:
                await append(transaction, business, _note(by, "business.set", slug, changes))
            return changes

        return await self._whole(once)

    async def channel_mode(
        self, channel: str, address: str, mode: Mode | None, *, by: str
    ) -> Sequence[Change]:
        """None: as the business's. Raises Misconfigured for an unknown account."""

        async def once(transaction: Transaction) -> Sequence[Change]:
            rows = await transaction.fetch(QUERIES["lock_account"], channel, address)
            if not rows:
                raise Misconfigured(f"There is no {channel} account {address}.")
            account = rows[0]
            changes = _changed("mode", account["mode"], mode.value if mode else None)
            if changes:
                business = BusinessId(account["business"])
                await transaction.fetch(QUERIES["set_account_mode"], account["id"], business, mode)
                note = _note(by, "channel.mode", f"{channel} {address}", changes)
                await append(transaction, business, note)
            return changes

        return await self._whole(once)

    async def conversation_mode(
        self, conversation: ConversationId, mode: Mode | None, *, by: str
    ) -> Sequence[Change]:
        """None: as its account's and business's. Raises Misconfigured for an unknown conversation."""

        async def once(transaction: Transaction) -> Sequence[Change]:
            rows = await transaction.fetch(QUERIES["lock_conversation"], conversation)
            if not rows:
                raise Misconfigured(f"There is no conversation {conversation}.")
            changes = _changed("mode", rows[0]["mode"], mode.value if mode else None)
            if changes:
                await transaction.fetch(QUERIES["set_conversation_mode"], conversation, mode)
                note = _note(by, "conversation.mode", str(conversation), changes)
                await append(transaction, BusinessId(rows[0]["business"]), note)
            return changes

        return await self._whole(once)

    async def set_level(
        self, slug: str, tool: str, level: int, asked: Asked | None, *, packs: Mapping[str, Pack], by: str
    ) -> Sequence[Change]:
        """`asked` None: who is asked stays as it was. Raises Misconfigured for an unknown business or tool."""

        async def once(transaction: Transaction) -> Sequence[Change]:
            business, settings = await _business(transaction, slug)
            _refuse_unknown(packs, settings["pack"], tool)
            (before,) = await transaction.fetch(QUERIES["lock_level"], business, tool) or (_UNSET,)
            kept = asked.value if asked else before["asked"]
            changes = _changed("level", before["level"], level) + _changed("asked", before["asked"], kept)
            if changes:
                await transaction.fetch(QUERIES["set_level"], business, tool, level, kept, by)
                await append(transaction, business, _note(by, "tool.level", tool, changes))
            return changes

        return await self._whole(once)

    async def reset_level(self, slug: str, tool: str, *, by: str) -> Sequence[Change]:
        """Back to the pack's own. Raises Misconfigured for an unknown business."""

        async def once(transaction: Transaction) -> Sequence[Change]:
            business, _ = await _business(transaction, slug)
            rows = await transaction.fetch(QUERIES["lock_level"], business, tool)
            if not rows:
                return []
            changes = _changed("level", rows[0]["level"], None) + _changed("asked", rows[0]["asked"], None)
            await transaction.fetch(QUERIES["reset_level"], business, tool)
            await append(transaction, business, _note(by, "tool.level", tool, changes))
            return changes

        return await self._whole(once)

    async def policy(self, slug: str) -> tuple[Row, Sequence[Row]]:
        """The business's row and what it set for its tools. Raises Misconfigured for an unknown slug."""
        rows = await self._owner.fetch(QUERIES["by_slug"], slug)
        if not rows:
            raise Misconfigured(NO_BUSINESS.format(slug))
        return rows[0], await self._owner.fetch(QUERIES["levels"], rows[0]["id"])

    async def _whole(self, once: Callable[[Transaction], Awaitable[Result]]) -> Result:
        async def tried() -> Result:
            async with self._owner.transaction() as transaction:
                return await once(transaction)

        return await retried(tried)


@asynccontextmanager
async def business_settings(settings: Settings) -> AsyncIterator[BusinessSettings]:
    """Over a connection of the database URL's own user."""
    url = settings.database_url.get_secret_value()
    owner = await open_pool(url, size=1, timeouts=settings.timeouts, role=OWNER)
    try:
        yield BusinessSettings(owner)
    finally:
        await owner.close()


_UNSET: Final[Row] = {"level": None, "asked": None}


async def _business(transaction: Transaction, slug: str) -> tuple[BusinessId, dict[str, Any]]:
    rows = await transaction.fetch(QUERIES["lock_business"], slug)
    if not rows:
        raise Misconfigured(NO_BUSINESS.format(slug))
    return BusinessId(rows[0]["id"]), json.loads(rows[0]["settings"])


def _refuse_unknown(packs: Mapping[str, Pack], pack: str, name: str) -> None:
    if name == HAND_OVER:
        raise Misconfigured(f"{HAND_OVER} is always allowed; it has no level.")
    tools = [tool.name for tool in packs[pack].tools] if pack in packs else []
    if name not in tools:
        raise Misconfigured(f"Pack {pack} has no tool {name!r}; it has: {', '.join(sorted(tools))}.")


def _changed(name: str, before: Any, after: Any) -> list[Change]:
    return [Change(name=name, before=before, after=after)] if before != after else []


def _note(by: str, action: str, subject: str, changes: Sequence[Change]) -> Note:
    """Old → new, of each setting that changed."""
    detail = {one.name: {"from": one.before, "to": one.after} for one in changes}
    return Note(actor=by, action=action, subject=subject, detail=canonical(detail))
