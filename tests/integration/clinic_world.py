"""Two demo clinics on a real Postgres, for the integration tests of the clinic pack."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import asyncpg

from packs.clinic import PACK
from packs.clinic.arguments import BookAppointment
from packs.clinic.booking import check_booking, execute_booking
from shared.database import Database, open_pool, queries_of
from shared.database.migrate import migrate
from shared.ids import BusinessId, CustomerId, new_id
from shared.packs import Done, Proposal, Refusal, Sql, Tool, ToolContext
from shared.settings import Timeouts

NOW = datetime(2026, 12, 3, 8, 0, tzinfo=UTC)  # Thursday, 10:00 in Bucharest
ZONE = ZoneInfo("Europe/Bucharest")
QUERIES = queries_of(PACK)
TOOLS: dict[str, Tool] = {tool.name: tool for tool in PACK.tools}


@dataclass(frozen=True)
class World:
    """Two clinics with the demo data, two customers in the first, one in the second."""

    database: Database
    owner: "asyncpg.Connection[asyncpg.Record]"
    ours: BusinessId
    theirs: BusinessId
    ana: CustomerId
    bogdan: CustomerId
    stranger: CustomerId

    @asynccontextmanager
    async def sql(self, business: BusinessId | None = None) -> AsyncIterator[Sql]:
        async with self.database.tenant(business or self.ours, QUERIES) as sql:
            yield sql

    def context(
        self,
        sql: Sql,
        customer: CustomerId,
        *,
        business: BusinessId | None = None,
        said: str = "",
        now: datetime = NOW,
        locale: str = "en",
    ) -> ToolContext:
        return ToolContext(
            sql=sql,
            business=business or self.ours,
            customer=customer,
            now=now,
            zone=ZONE,
            locale=locale,
            said=said,
        )

    async def proposal(self, customer: CustomerId, start: str, **more: str) -> Proposal | Refusal:
        async with self.sql() as sql:
            asked = BookAppointment(**{"service": "cleaning", "start": start, **more})
            return await check_booking(self.context(sql, customer), asked)

    async def book(self, customer: CustomerId, start: str, *, key: str, **more: str) -> Done | Refusal:
        """Check and execution in one transaction, as the pipeline does it."""
        async with self.sql() as sql:
            context = self.context(sql, customer)
            asked = BookAppointment(**{"service": "cleaning", "start": start, **more})
            checked = await check_booking(context, asked)
            if isinstance(checked, Refusal):
                return checked
            return await execute_booking(context, checked, key)

    async def check(
        self, tool: str, customer: CustomerId, *, now: datetime = NOW, said: str = "", **arguments: str
    ) -> Proposal | Refusal:
        """The dry run of a tool for a customer of ours."""
        check, model = TOOLS[tool].check, TOOLS[tool].arguments
        assert check
        async with self.sql() as sql:
            return await check(self.context(sql, customer, now=now, said=said), model(**arguments))

    async def execute(
        self, tool: str, customer: CustomerId, proposal: Proposal | Refusal, key: str
    ) -> Done | Refusal:
        """The execution of what was proposed."""
        execute = TOOLS[tool].execute
        assert execute
        assert isinstance(proposal, Proposal), proposal
        async with self.sql() as sql:
            return await execute(self.context(sql, customer), proposal, key)

    async def has(self, customer: CustomerId, start: str, *, dentist: str = "Ionescu", **more: str) -> str:
        """The id of an appointment that the customer has from now on."""
        done = await self.book(customer, start, key=f"has {customer} {start}", dentist=dentist, **more)
        assert isinstance(done, Done), done
        appointment: str = done.result["appointment"]
        return appointment

    async def row(self, appointment: str) -> dict[str, Any]:
        """The appointment as it is stored."""
        found = await self.owner.fetchrow("select * from clinic.appointment where id = $1", appointment)
        assert found
        return dict(found)

    async def insert(
        self, customer: UUID, dentist: int, start: datetime, minutes: int, state: str = "booked"
    ) -> None:
        """A row as anybody could write it who passes by the checks."""
        await self.owner.execute(
            "insert into clinic.appointment"
            " (id, business, customer, dentist_no, service, starts_at, ends_at, state, idempotency_key)"
            " values ($1, $2, $3, $4, 'cleaning', $5, $6, $7, $1::uuid::text)",
            new_id(), self.ours, customer, dentist, start, start + timedelta(minutes=minutes), state,
        )  # fmt: skip

    async def dentists(self) -> list[int]:
        rows = await self.owner.fetch(
            "select no from clinic.dentist where business = $1 order by no", self.ours
        )
        return [row["no"] for row in rows]

    async def booked(self) -> int:
        count: int = await self.owner.fetchval(
            "select count(*) from clinic.appointment where state = 'booked'"
        )
        return count


@asynccontextmanager
async def open_world(database_url: str) -> AsyncIterator[World]:
    await migrate(database_url, packs={PACK.name: PACK.migrations})
    owner = await asyncpg.connect(database_url)
    database = await open_pool(database_url, size=4, timeouts=Timeouts())
    businesses = [
        BusinessId(
            await owner.fetchval(
                "insert into leeway.business (slug, name, pack, locales, time_zone)"
                " values ($1, 'Demo Dental Clinic', 'clinic', '{en,ro}', 'Europe/Bucharest') returning id",
                slug,
            )
        )
        for slug in ("ours", "theirs")
    ]
    customers = []
    for business in (businesses[0], businesses[0], businesses[1]):
        customers.append(CustomerId(new_id()))
        await owner.execute(
            "insert into leeway.customer (id, business) values ($1, $2)", customers[-1], business
        )
    for business in businesses:
        async with database.tenant(business, QUERIES) as sql:
            await PACK.seed(sql, business, now=NOW)
    ours, theirs = businesses
    ana, bogdan, stranger = customers
    yield World(database, owner, ours, theirs, ana, bogdan, stranger)
    await database.close()
    await owner.close()
