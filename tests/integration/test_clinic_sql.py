"""The clinic's tables and queries on a real Postgres: nobody is booked twice, nobody sees another's."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from packs.clinic import PACK
from packs.clinic.arguments import BookAppointment, FindSlots, Nothing
from packs.clinic.booking import check_booking, execute_booking
from packs.clinic.operations import find_slots, get_clinic_info, list_my_appointments
from packs.clinic.prompt import prompt_facts
from shared.errors import ConstraintRefused
from shared.ids import CustomerId, new_id
from shared.packs import Done, Established, Proposal, Refusal, Row, Sql
from shared.work.retry import retried
from tests.integration.clinic_world import NOW, QUERIES, World, open_world

pytestmark = pytest.mark.postgres


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with open_world(database_url) as made:
        yield made


async def test_every_query_can_be_prepared(world: World) -> None:
    for text in QUERIES.values():
        await world.owner.prepare(text)


async def test_seeding_again_changes_nothing(world: World) -> None:
    async def counts() -> list[int]:
        tables = ("practice", "service", "dentist", "offer", "opening", "holiday", "time_off")
        return [await world.owner.fetchval(f"select count(*) from clinic.{table}") for table in tables]

    before = await counts()
    async with world.sql() as sql:
        await PACK.seed(sql, world.ours, now=NOW)

    assert await counts() == before == [2, 8, 6, 16, 20, 66, 2]


async def test_a_booking_from_check_to_the_customers_list(world: World) -> None:
    done = await world.book(world.ana, "2026-12-04T10:00", key="k1")

    assert isinstance(done, Done)
    assert done.result["dentist"] == "Dr. Ionescu"
    assert done.result["start"] == "2026-12-04T10:00+02:00"
    async with world.sql() as sql:
        mine = await list_my_appointments(world.context(sql, world.ana), Nothing())
        others = await list_my_appointments(world.context(sql, world.bogdan), Nothing())
    assert [one["when"] for one in mine.data["appointments"]] == ["Friday 4 December, 10:00"]
    assert others.data["appointments"] == []


async def test_what_was_proposed_passes_the_check_again_unchanged(world: World) -> None:
    first = await world.proposal(world.ana, "2026-12-04T10:00")
    assert isinstance(first, Proposal)

    async with world.sql() as sql:
        again = await check_booking(
            world.context(sql, world.ana), BookAppointment.model_validate(dict(first.arguments))
        )

    assert again == first


async def test_one_key_books_once(world: World) -> None:
    proposal = await world.proposal(world.ana, "2026-12-04T10:00")
    assert isinstance(proposal, Proposal)

    results = []
    for _ in range(2):
        async with world.sql() as sql:
            results.append(await execute_booking(world.context(sql, world.ana), proposal, "k1"))

    assert results[0] == results[1]
    assert isinstance(results[0], Done)
    assert await world.booked() == 1


@pytest.mark.parametrize(
    ("start_min", "minutes"),
    [(0, 45), (15, 15), (-30, 45), (-30, 120), (44, 45)],
    ids=["the same time", "inside it", "into its beginning", "around it", "into its end"],
)
async def test_a_dentist_is_never_booked_twice(world: World, start_min: int, minutes: int) -> None:
    dentist, other = (await world.dentists())[:2]
    at = datetime(2026, 12, 4, 8, 0, tzinfo=UTC)
    await world.insert(world.ana, dentist, at, 45)

    with pytest.raises(asyncpg.ExclusionViolationError, match="appointment_dentist_free"):
        await world.insert(world.bogdan, dentist, at + timedelta(minutes=start_min), minutes)

    await world.insert(world.bogdan, other, at + timedelta(minutes=start_min), minutes)


@pytest.mark.parametrize(
    ("start_min", "minutes"),
    [(0, 45), (15, 15), (-30, 45), (-30, 120), (44, 45)],
    ids=["the same time", "inside it", "into its beginning", "around it", "into its end"],
)
async def test_a_customer_is_never_booked_twice(world: World, start_min: int, minutes: int) -> None:
    dentist, other = (await world.dentists())[:2]
    at = datetime(2026, 12, 4, 8, 0, tzinfo=UTC)
    await world.insert(world.ana, dentist, at, 45)

    with pytest.raises(asyncpg.ExclusionViolationError, match="appointment_customer_free"):
        await world.insert(world.ana, other, at + timedelta(minutes=start_min), minutes)


async def test_next_to_each_other_and_cancelled_is_no_overlap(world: World) -> None:
    dentist = (await world.dentists())[0]
    at = datetime(2026, 12, 4, 8, 0, tzinfo=UTC)
    await world.insert(world.ana, dentist, at, 45)

    await world.insert(world.ana, dentist, at + timedelta(minutes=45), 45)
    await world.insert(world.bogdan, dentist, at - timedelta(minutes=45), 45)
    await world.insert(world.bogdan, dentist, at, 45, state="cancelled")

    assert await world.booked() == 3


@pytest.mark.parametrize("attempt", range(5))
async def test_of_two_at_the_same_moment_one_is_told_the_alternatives(world: World, attempt: int) -> None:
    """Both pass the check before either has written."""
    start = "2026-12-04T10:00"
    proposals = [await world.proposal(who, start, dentist="Ionescu") for who in (world.ana, world.bogdan)]
    begun = asyncio.Barrier(2)

    async def run(customer: CustomerId, proposal: Proposal | Refusal) -> Done | Refusal:
        assert isinstance(proposal, Proposal)
        async with world.sql() as sql:
            await begun.wait()
            return await execute_booking(world.context(sql, customer), proposal, f"{attempt}-{customer}")

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(run(who, proposal))
            for who, proposal in zip((world.ana, world.bogdan), proposals, strict=True)
        ]
    outcomes = [task.result() for task in tasks]

    assert await world.booked() == 1
    refused = next(outcome for outcome in outcomes if isinstance(outcome, Refusal))
    assert refused.code == "slot_taken"
    assert [one["start"] for one in refused.detail["alternatives"]] == [
        "2026-12-04T09:15+02:00",
        "2026-12-04T10:00+02:00",  # with the other dentist
        "2026-12-04T10:45+02:00",
    ]


async def test_a_customer_who_books_twice_at_one_moment_is_booked_once(world: World) -> None:
    """With two dentists. They may meet inside the constraint, and a conflict is tried again."""
    begun = asyncio.Barrier(2)

    async def run(dentist: str) -> Done | Refusal:
        proposal = await world.proposal(world.ana, "2026-12-04T10:00", dentist=dentist)
        assert isinstance(proposal, Proposal)
        await begun.wait()

        async def once() -> Done | Refusal:
            async with world.sql() as sql:
                return await execute_booking(world.context(sql, world.ana), proposal, dentist)

        return await retried(once)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(dentist)) for dentist in ("Ionescu", "Marin")]
    refused = [task.result() for task in tasks if isinstance(task.result(), Refusal)]

    assert await world.booked() == 1
    assert [one.code for one in refused if isinstance(one, Refusal)] == ["overlaps_own"]


async def test_a_savepoint_keeps_the_transaction_when_the_constraint_refuses(world: World) -> None:
    await world.book(world.bogdan, "2026-12-04T10:00", key="k1", dentist="Ionescu")
    async with world.sql() as sql:
        with pytest.raises(ConstraintRefused, match="appointment_dentist_free"):
            async with sql.savepoint():
                await sql.fetch(
                    "clinic.book", world.ours, world.ana, new_id(), "k2", "cleaning", "Dr. Ionescu",
                    datetime(2026, 12, 4, 8, 30, tzinfo=UTC),
                )  # fmt: skip
        assert await sql.fetch("clinic.booked", world.ours, world.bogdan, "k1")


async def test_own_overlap_is_told_apart_from_a_taken_slot(world: World) -> None:
    await world.book(world.ana, "2026-12-04T10:00", key="k1", dentist="Ionescu")

    mine = await world.book(world.ana, "2026-12-04T10:30", key="k2", dentist="Marin")
    others = await world.book(world.bogdan, "2026-12-04T10:30", key="k3", dentist="Ionescu")

    assert isinstance(mine, Refusal)
    assert (mine.code, mine.detail["own"]) == ("overlaps_own", "2026-12-04T10:00+02:00")
    assert isinstance(others, Refusal)
    assert others.code == "slot_taken"


async def test_another_business_sees_and_reaches_nothing(world: World) -> None:
    await world.book(world.ana, "2026-12-04T10:00", key="k1")

    async with world.sql(world.theirs) as sql:
        as_ours = world.context(sql, world.ana)  # a turn that named the wrong business
        assert (await list_my_appointments(as_ours, Nothing())).data["appointments"] == []
        assert (await get_clinic_info(as_ours, Nothing())).data["services"] == []
        assert await sql.fetch("clinic.booked", world.ours, world.ana, "k1") == []
    async with world.database.transaction() as transaction, transaction.tenant(world.theirs, QUERIES):
        for table in (
            "practice", "service", "dentist", "offer", "opening", "appointment",
            "holiday", "time_off", "hold", "patient", "change",
        ):  # fmt: skip
            rows = await transaction.fetch(f"select distinct business from clinic.{table}")
            assert {row["business"] for row in rows} <= {world.theirs}


async def test_another_business_can_write_nothing_of_ours(world: World) -> None:
    dentist = (await world.dentists())[0]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with world.database.transaction() as transaction, transaction.tenant(world.theirs, QUERIES):
            await transaction.fetch(
                "insert into clinic.appointment"
                " (id, business, customer, dentist_no, service, starts_at, ends_at, idempotency_key)"
                " values ($1, $2, $3, $4, 'cleaning', now(), now() + interval '45 min', 'k')",
                new_id(), world.ours, world.ana, dentist,
            )  # fmt: skip


async def test_without_a_business_nothing_is_seen(world: World) -> None:
    connection = world.owner
    async with connection.transaction():
        await connection.execute("set local role leeway_tenant")
        assert await connection.fetchval("select count(*) from clinic.service") == 0


async def test_row_security_is_forced_on_every_table(world: World) -> None:
    open_tables = await world.owner.fetch(
        "select relname from pg_class where relnamespace = 'clinic'::regnamespace and relkind = 'r'"
        " and not (relrowsecurity and relforcerowsecurity)"
    )
    assert open_tables == []


async def test_slots_leave_out_what_is_taken(world: World) -> None:
    for key, dentist in enumerate(("Ionescu", "Marin")):
        who = (world.ana, world.bogdan)[key]
        await world.book(who, "2026-12-04T09:00", key=str(key), dentist=dentist)
    asked = FindSlots(
        service="cleaning", first_day="2026-12-04", last_day="2026-12-04", part_of_day="morning"
    )

    async with world.sql() as sql:
        found = await find_slots(world.context(sql, CustomerId(new_id())), asked)

    assert isinstance(found, Established)
    assert len(found.data["slots"]) == 8
    assert min(one["start"] for one in found.data["slots"]) == "2026-12-04T09:45+02:00"


async def test_a_closed_day_answers_with_the_nearest_slots(world: World) -> None:
    asked = FindSlots(service="cleaning", first_day="2026-12-06", last_day="2026-12-06")

    async with world.sql() as sql:
        found = await find_slots(world.context(sql, world.ana), asked)

    assert isinstance(found, Established)
    assert found.data["slots"] == []
    assert [one["start"] for one in found.data["nearest"]] == [
        "2026-12-07T09:00+02:00",
        "2026-12-07T09:45+02:00",
        "2026-12-07T10:30+02:00",
    ]


async def test_the_prompt_takes_one_query(world: World) -> None:
    class Counting:
        def __init__(self, sql: Sql) -> None:
            self.queries: list[str] = []
            self._sql = sql

        async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
            self.queries.append(query)
            return await self._sql.fetch(query, *arguments)

        def savepoint(self) -> AbstractAsyncContextManager[None]:
            return self._sql.savepoint()

    async with world.sql() as sql:
        counting = Counting(sql)
        text = await prompt_facts(world.context(counting, world.ana))
        await check_booking(
            world.context(counting, world.ana),
            BookAppointment(service="cleaning", start="2026-12-04T10:00"),
        )

    assert counting.queries == ["clinic.diary", "clinic.diary"]
    assert "2026-12-04 Friday 09:00-13:00, 14:00-17:00" in text


@pytest.mark.parametrize("server_zone", ["UTC", "Europe/Bucharest"])
async def test_the_servers_own_zone_changes_nothing(world: World, server_zone: str) -> None:
    name = await world.owner.fetchval("select current_database()")
    await world.owner.execute(f"alter database \"{name}\" set timezone = '{server_zone}'")

    done = await world.book(world.ana, "2027-03-29T09:00", key="k1")

    assert isinstance(done, Done)
    assert done.result["start"] == "2027-03-29T09:00+03:00"
    stored = await world.owner.fetchval("select starts_at from clinic.appointment")
    assert stored == datetime(2027, 3, 29, 6, 0, tzinfo=UTC)
