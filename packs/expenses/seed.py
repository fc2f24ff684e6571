"""The demo business's own data: a ledger. Expenses belong to customers, and there are none yet."""

from datetime import datetime
from typing import Final

from shared.ids import BusinessId
from shared.packs import Sql

CURRENCY: Final = "RON"


async def seed(sql: Sql, business: BusinessId, *, now: datetime) -> None:
    """One statement; for a business that has a ledger already it changes nothing."""
    await sql.fetch("expenses.seed", business, CURRENCY)
