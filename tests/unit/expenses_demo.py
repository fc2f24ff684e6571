"""The expenses pack without a database: one customer's list, kept as the queries keep it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from shared.ids import BusinessId, CustomerId, new_id
from shared.packs import Row, ToolContext

THURSDAY = datetime(2026, 12, 3, 8, 0, tzinfo=UTC)


@dataclass
class FakeSql:
    """Answers the pack's queries for one customer."""

    ledger: str | None = "RON"
    rows: list[dict[str, Any]] = field(default_factory=list)

    async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        answer: Sequence[Row] = getattr(self, query.removeprefix("expenses.") + "_rows")(*arguments)
        return answer

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def has(self, item: str, amount: str, currency: str = "RON") -> None:
        self.add_rows(0, None, new_id(), item, Decimal(amount), currency, THURSDAY)

    def ledger_rows(self, *_: object) -> Sequence[Row]:
        return [{"currency": self.ledger}] if self.ledger else []

    def totals_rows(self, *_: object) -> Sequence[Row]:
        kept = self._kept()
        return [
            {
                "currency": currency,
                "total": str(sum(Decimal(row["amount"]) for row in kept if row["currency"] == currency)),
                "expenses": sum(row["currency"] == currency for row in kept),
            }
            for currency in sorted({row["currency"] for row in kept})
        ]

    def list_rows(self, _: object, __: object, most: int) -> Sequence[Row]:
        kept = self._kept()
        return [row | {"of": len(kept)} for row in reversed(kept)][:most]

    def find_rows(self, _: object, __: object, no: int) -> Sequence[Row]:
        return [row for row in self._kept() if row["no"] == no]

    def add_rows(
        self, _: object, __: object, key: object, item: str, amount: Decimal, *more: Any
    ) -> Sequence[Row]:
        currency, at = more
        if not self.added_rows(0, None, key):
            values = {"item": item, "amount": f"{amount:.2f}", "currency": currency, "added_at": at}
            self.rows.append({"no": len(self.rows) + 1, "added_key": key, "deleted_key": None, **values})
        return []

    def added_rows(self, _: object, __: object, key: object) -> Sequence[Row]:
        return [row for row in self.rows if row["added_key"] == key]

    def delete_rows(self, _: object, __: object, no: int, key: object, ___: object) -> Sequence[Row]:
        for row in self.find_rows(0, None, no):
            row["deleted_key"] = key  # type: ignore[index]
        return []

    def deleted_rows(self, _: object, __: object, key: object) -> Sequence[Row]:
        return [row for row in self.rows if row["deleted_key"] == key]

    def _kept(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["deleted_key"] is None]


def context(sql: FakeSql | None = None, *, locale: str = "en", said: str = "") -> ToolContext:
    return ToolContext(
        sql=sql or FakeSql(),
        business=BusinessId(1),
        customer=CustomerId(new_id()),
        now=THURSDAY,
        zone=ZoneInfo("Europe/Bucharest"),
        locale=locale,
        said=said,
    )
