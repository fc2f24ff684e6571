"""A dental clinic: what it does, who does it, when it is open, and appointments that can't collide.

`tools` declares, `operations` carries out, `rules` decides over `facts` (pure), `diary` and `queries.sql`
fetch, `wording` says it. `dates` reads days in a customer's words; `mock_rules` plays the model where there
is none.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from packs.clinic import mock_rules, prompt
from packs.clinic.seed import seed
from packs.clinic.tools import TOOLS
from shared.ids import BusinessId
from shared.llm.port import Answer, Request
from shared.packs import Pack, Sql, Tool, ToolContext

_HERE = Path(__file__).parent


class Clinic:
    """The pack as the pipeline sees it; fits shared.packs.Pack."""

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


PACK: Pack = Clinic()
