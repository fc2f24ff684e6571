"""A customer's expenses: the smallest pack, and the one to copy (docs/adding-a-pack.md).

`tools` declares, `operations` carries out with `queries.sql`, `rules` decides over `amounts` (both pure), `wording`
says it. `prompt` briefs the model; `mock_rules` plays the model where there is none.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from packs.expenses import mock_rules, prompt
from packs.expenses.seed import seed
from packs.expenses.tools import TOOLS
from shared.ids import BusinessId
from shared.llm.port import Answer, Request
from shared.packs import Pack, Sql, Tool, ToolContext

_HERE = Path(__file__).parent


class Expenses:
    """The pack as the pipeline sees it; fits shared.packs.Pack."""

    name = "expenses"
    tools: Sequence[Tool] = TOOLS
    queries: Sequence[Path] = (_HERE / "queries.sql",)
    migrations = _HERE / "migrations"

    async def prompt_facts(self, context: ToolContext) -> str:
        return await prompt.prompt_facts(context)

    def mock_answer(self, request: Request) -> Answer:
        return mock_rules.answer(request)

    async def seed(self, sql: Sql, business: BusinessId, *, now: datetime) -> None:
        await seed(sql, business, now=now)


PACK: Pack = Expenses()
