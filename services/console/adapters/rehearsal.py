"""The dry run of what a prompt asks: the pack's own check with the stored arguments, as the tenant, nothing written."""

from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from services.console.core.drafts import Draft, DryRun, Fails, Passes
from shared.database import Database, load_queries, queries_of
from shared.digest import canonical, digest
from shared.packs import Pack, Proposal, Refusal, Tool, ToolContext, tool_of

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
_GONE = Fails(why="The tool it would use is not there any more.")
_CHANGED = Fails(why="What it shows is no longer so; discard it, and the customer can ask again.")


class PackRehearsal:
    """services.console.ports.Rehearsal over the installed packs."""

    def __init__(self, database: Database, packs: Mapping[str, Pack]) -> None:
        self._database = database
        self._packs = packs
        self._queries = {name: queries_of(pack) for name, pack in packs.items()}

    async def __call__(self, draft: Draft) -> DryRun:
        request = draft.request
        assert request is not None, "only a prompt is rehearsed"
        (business,) = await self._database.fetch(QUERIES["business_of_draft"], draft.id)
        pack = self._packs.get(business["pack"])
        tool = tool_of(pack, request.tool)
        if pack is None or tool is None or tool.check is None:
            return _GONE
        try:
            arguments = tool.arguments.model_validate_json(request.arguments)
        except ValidationError:
            return _GONE
        async with self._database.tenant(draft.business, self._queries[pack.name]) as sql:
            context = ToolContext(
                sql=sql,
                business=draft.business,
                customer=request.customer,
                now=draft.now,
                zone=ZoneInfo(business["time_zone"]),
                locale=business["locales"][0],
            )
            found = await tool.check(context, arguments)
        return _verdict(tool, found, request.digest, locale=business["locales"][0])


def _verdict(tool: Tool, found: Proposal | Refusal, seen: bytes, *, locale: str) -> DryRun:
    match found:
        case Refusal():
            said = tool.word_refusal(found, locale) if tool.word_refusal else found.code
            return Fails(why=said)
        case Proposal(arguments=arguments, shown=shown):
            same = digest(tool.name, canonical(arguments), canonical(shown)) == seen
            return Passes() if same else _CHANGED
