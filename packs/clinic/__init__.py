"""A dental clinic: what it does, who does it, when it is open, and appointments that can't collide.

`tools` declares; `operations`, `booking`, `changes` and `naming` carry out; `rules` decides over `facts` (pure); `diary`
and `queries.sql` fetch; `wording` says it. `dates` reads days in a customer's words. `reminders` and `feeds` are for
the day before and for staff's calendars. `mock_rules` plays the model where there is none.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from packs.clinic import feeds, mock_rules, prompt, reminders, rules
from packs.clinic.diary import read_diary
from packs.clinic.seed import seed
from packs.clinic.tools import TOOLS
from shared.ids import BusinessId
from shared.llm.port import Answer, Request
from shared.packs import Feed, Pack, Reminder, Sql, Tool, ToolContext

_HERE = Path(__file__).parent


class Clinic:
    """The pack as the pipeline sees it; fits shared.packs.Pack, KeepsHours, Reminds and Feeds."""

    name = "clinic"
    tools: Sequence[Tool] = TOOLS
    queries: Sequence[Path] = (_HERE / "queries.sql",)
    migrations = _HERE / "migrations"

    async def prompt_facts(self, context: ToolContext) -> str:
        return await prompt.prompt_facts(context)

    def mock_answer(self, request: Request) -> Answer:
        return mock_rules.answer(request)

    async def seed(self, sql: Sql, business: BusinessId, *, now: datetime) -> None:
        await seed(sql, business, now=now)

    async def open_spans(
        self, context: ToolContext, begins: datetime, ends: datetime
    ) -> Sequence[tuple[datetime, datetime]]:
        return rules.open_between(await read_diary(context, begins, ends), begins, ends)

    async def reminders(self, context: ToolContext, *, ahead: timedelta) -> Sequence[Reminder]:
        return await reminders.reminders(context, ahead=ahead)

    async def feed_names(self, context: ToolContext) -> Mapping[str, str]:
        return await feeds.feed_names(context)

    async def feed(self, context: ToolContext, name: str) -> Feed | None:
        return await feeds.feed(context, name)


PACK: Pack = Clinic()
