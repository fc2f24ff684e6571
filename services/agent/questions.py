"""What a turn asks the model: the system prompt with the pack's page, the history, the tools, and whom they are for."""

import hashlib
from dataclasses import replace
from datetime import date
from uuid import UUID

from services.agent.core.history import history
from services.agent.core.prompt import VERSION, system_prompt, tool_specs
from services.agent.core.turn import Turn, WaitsFor
from services.agent.engines.tool_loop import Question
from services.agent.ports import Turns
from shared.clock import Clock
from shared.digest import text_digest
from shared.ids import BusinessId
from shared.llm.port import Request, ToolSpec
from shared.packs import NO_SQL, Pack, ToolContext

PAGE_CACHED_S = 5.0


class Questions:
    """Makes questions; a pack's page is looked up again every few seconds rather than in every turn."""

    def __init__(self, *, turns: Turns, clock: Clock) -> None:
        self._turns = turns
        self._clock = clock
        self._pages: dict[tuple[BusinessId, str], tuple[float, date, str]] = {}
        self._specs: dict[str, list[ToolSpec]] = {}
        self._stored: set[tuple[BusinessId, bytes]] = set()

    async def of(self, turn: Turn, pack: Pack) -> Question:
        """The question of a turn. Raises Unavailable when the pack's page can't be looked up."""
        if pack.name not in self._specs:
            self._specs[pack.name] = tool_specs(pack.tools)
        context = context_of(turn)
        page = await self._page(turn, pack, context)
        system = system_prompt(
            business=turn.business.name,
            languages=turn.business.locales,
            tools=pack.tools,
            facts=page,
            now=turn.now.astimezone(turn.business.zone),
            customer_name=turn.customer_name,
            earlier=turn.earlier,
            waits_for_approval=turn.pending.summary if turn.pending and _waits_for_operator(turn) else None,
        )
        request = Request(
            system=system,
            messages=tuple(history(turn)),
            tools=self._specs[pack.name],
            cache_key=f"{turn.business.slug}:{VERSION}",
            customer=_pseudonym(turn.customer),
        )
        return Question(
            turn=turn,
            pack=pack,
            request=request,
            context=context,
            page=await self._kept(turn.business.id, page),
        )

    async def _kept(self, business: BusinessId, page: str) -> bytes:
        """The page's digest; its text is stored once, for the evidence."""
        digest = text_digest(page)
        if (business, digest) not in self._stored:
            await self._turns.keep_page(business, digest, page)
            self._stored.add((business, digest))
        return digest

    async def _page(self, turn: Turn, pack: Pack, context: ToolContext) -> str:
        key = (turn.business.id, turn.locale)
        today = turn.now.astimezone(turn.business.zone).date()  # a page says which day it is
        known = self._pages.get(key)
        if known and known[1] != today:
            known = None
        if known and known[0] > self._clock.monotonic():
            return known[2]
        if known:  # whoever comes meanwhile takes the page known: else all turns under way look it up at once
            self._pages[key] = (self._clock.monotonic() + PAGE_CACHED_S, today, known[2])
        async with self._turns.tenant(turn.business.id, pack.name) as sql:
            page = await pack.prompt_facts(replace(context, sql=sql))
        self._pages[key] = (self._clock.monotonic() + PAGE_CACHED_S, today, page)
        return page


def context_of(turn: Turn) -> ToolContext:
    """Whom and what the turn's tools are for, before a transaction is open."""
    return ToolContext(
        sql=NO_SQL,
        business=turn.business.id,
        customer=turn.customer,
        now=turn.now,
        zone=turn.business.zone,
        locale=turn.locale,
        said="\n".join(turn.taken.texts),
    )


def _waits_for_operator(turn: Turn) -> bool:
    return turn.pending is not None and turn.pending.waits_for is WaitsFor.OPERATOR


def _pseudonym(customer: UUID) -> str:
    """The same for one customer each time, and nobody outside can tell whose."""
    return hashlib.sha256(b"leeway" + customer.bytes).hexdigest()[:32]
