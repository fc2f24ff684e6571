"""The demo clinic without a database, for the unit tests of the clinic pack."""

import json
import tomllib
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import packs.clinic
from packs.clinic.diary import read_diary
from packs.clinic.facts import Busy, Diary
from shared.ids import BusinessId, CustomerId, new_id
from shared.packs import Row, ToolContext

ZONE = ZoneInfo("Europe/Bucharest")
THURSDAY = datetime(2026, 12, 3, 8, 0, tzinfo=UTC)  # 10:00 in Bucharest
IONESCU, POPESCU, MARIN = 1, 2, 3

_SEED = tomllib.loads((Path(packs.clinic.__file__).parent / "seed.toml").read_text(encoding="utf-8"))


def local(text: str) -> datetime:
    """ "2026-12-03 10:00" on the clinic's clock, as an instant."""
    return datetime.fromisoformat(text).replace(tzinfo=ZONE).astimezone(UTC)


def busy(dentist: int, start: str, end: str, *, mine: bool = False) -> Busy:
    return Busy(dentist_no=dentist, starts_at=local(start), ends_at=local(end), mine=mine)


@dataclass
class FakeSql:
    """Answers the diary's query with the demo data and some appointments, and keeps what was asked."""

    busy: Sequence[Busy] = ()
    asked: list[str] = field(default_factory=list)

    async def fetch(self, query: str, *_: object) -> Sequence[Row]:
        self.asked.append(query)
        return [{"facts": json.dumps(self._facts())}]

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def _facts(self) -> dict[str, Any]:
        return {
            "name": "Demo Dental Clinic",
            "address": _SEED["address"],
            "phone": _SEED["phone"],
            "currency": _SEED["currency"],
            "horizon_days": 180,
            "services": [{**one, "price": f"{one['price']}.00"} for one in _SEED["services"]],
            "dentists": [{"no": no, **one} for no, one in enumerate(_SEED["dentists"], start=1)],
            "hours": _SEED["hours"],
            "busy": [
                {
                    "dentist_no": one.dentist_no,
                    "starts_at": one.starts_at.timestamp(),
                    "ends_at": one.ends_at.timestamp(),
                    "mine": one.mine,
                }
                for one in self.busy
            ],
        }


def context(
    *, now: datetime = THURSDAY, locale: str = "en", said: str = "", taken: Sequence[Busy] = ()
) -> ToolContext:
    return ToolContext(
        sql=FakeSql(busy=taken),
        business=BusinessId(1),
        customer=CustomerId(new_id()),
        now=now,
        zone=ZONE,
        locale=locale,
        said=said,
    )


async def diary(*taken: Busy) -> Diary:
    return await read_diary(context(taken=taken), THURSDAY, THURSDAY)
