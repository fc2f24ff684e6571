"""The demo clinic without a database, for the unit tests of the clinic pack."""

import json
import tomllib
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import packs.clinic
from packs.clinic.diary import read_diary
from packs.clinic.facts import Away, Busy, Diary
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


@dataclass(frozen=True, kw_only=True)
class Booked:
    """An appointment of the customer in `context`."""

    start: str  # on the clinic's clock
    service: str = "cleaning"
    dentist: int = IONESCU
    state: str = "booked"
    note: str | None = None
    id: UUID = field(default_factory=new_id)

    @property
    def starts_at(self) -> datetime:
        return local(self.start)

    @property
    def busy(self) -> Busy:
        minutes = next(one["minutes"] for one in _SEED["services"] if one["code"] == self.service)
        ends_at = self.starts_at + timedelta(minutes=minutes)
        return Busy(dentist_no=self.dentist, starts_at=self.starts_at, ends_at=ends_at, mine=True)

    @property
    def row(self) -> dict[str, Any]:
        service = next(one for one in _SEED["services"] if one["code"] == self.service)
        return {
            "id": self.id,
            "state": self.state,
            "service": self.service,
            "names": json.dumps(service["names"]),
            "dentist": _SEED["dentists"][self.dentist - 1]["name"],
            "starts_at": self.starts_at,
            "note": self.note,
        }


@dataclass
class FakeSql:
    """Answers the reading queries with the demo data, what is taken, and what the customer has; keeps what was asked."""

    busy: Sequence[Busy] = ()
    mine: Sequence[Booked] = ()
    away: Sequence[Away] = ()
    name: str | None = None
    asked: list[str] = field(default_factory=list)

    async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        self.asked.append(query)
        match query:
            case "clinic.diary":
                return [{"facts": json.dumps(self._facts(without=arguments[4]))}]
            case "clinic.my_appointments":
                return [one.row for one in self.mine if one.state == "booked"]
            case "clinic.own_appointment":
                return [one.row for one in self.mine if one.id == arguments[2]]
            case "clinic.my_name":
                return [{"name": self.name}] if self.name else []
            case _:
                raise AssertionError(f"{query} is for a real Postgres")

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def _facts(self, *, without: object) -> dict[str, Any]:
        mine = [one.busy for one in self.mine if one.state == "booked" and one.id != without]
        return {
            "name": "Demo Dental Clinic",
            "address": _SEED["address"],
            "phone": _SEED["phone"],
            "currency": _SEED["currency"],
            "horizon_days": 180,
            "holds": False,
            "services": [{**one, "price": f"{one['price']}.00"} for one in _SEED["services"]],
            "dentists": [{"no": no, **one} for no, one in enumerate(_SEED["dentists"], start=1)],
            "hours": _SEED["hours"],
            "holidays": _SEED["holidays"],
            "away": [{"dentist_no": one.dentist_no, **_stretch(one)} for one in self.away],
            "busy": [
                {"dentist_no": one.dentist_no, "mine": one.mine, **_stretch(one)}
                for one in (*self.busy, *mine)
            ],
        }


def _stretch(one: Busy | Away) -> dict[str, float]:
    return {"starts_at": one.starts_at.timestamp(), "ends_at": one.ends_at.timestamp()}


def context(
    *,
    now: datetime = THURSDAY,
    locale: str = "en",
    said: str = "",
    taken: Sequence[Busy] = (),
    mine: Sequence[Booked] = (),
    away: Sequence[Away] = (),
    name: str | None = None,
) -> ToolContext:
    return ToolContext(
        sql=FakeSql(busy=taken, mine=mine, away=away, name=name),
        business=BusinessId(1),
        customer=CustomerId(new_id()),
        now=now,
        zone=ZONE,
        locale=locale,
        said=said,
    )


def away(dentist: int, start: str, end: str) -> Away:
    return Away(dentist_no=dentist, starts_at=local(start), ends_at=local(end))


async def diary(*taken: Busy, off: Sequence[Away] = ()) -> Diary:
    return await read_diary(context(taken=taken, away=off), THURSDAY, THURSDAY)
