"""The expenses pack's tables and queries on a real Postgres: a customer has their own list, and nobody sees another's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from packs.expenses import PACK
from packs.expenses.arguments import AddExpense, DeleteExpense, Nothing
from packs.expenses.operations import (
    check_addition,
    check_deletion,
    execute_addition,
    execute_deletion,
    get_total,
    list_expenses,
)
from shared.database import Database, open_pool, queries_of
from shared.database.migrate import migrate
from shared.ids import BusinessId, CustomerId, new_id
from shared.packs import Done, Proposal, Refusal, ToolContext
from shared.settings import Timeouts

pytestmark = pytest.mark.postgres

NOW = datetime(2026, 12, 3, 22, 30, tzinfo=UTC)  # half past midnight on Friday in Bucharest
ZONE = ZoneInfo("Europe/Bucharest")
QUERIES = queries_of(PACK)
TABLES = ("ledger", "numbering", "expense")


@dataclass(frozen=True)
class World:
    """Two businesses with a ledger, two customers of the first, one of the second."""

    database: Database
    owner: "asyncpg.Connection[asyncpg.Record]"
    ours: BusinessId
    theirs: BusinessId
    ana: CustomerId
    bogdan: CustomerId
    stranger: CustomerId

    @asynccontextmanager
    async def context(
        self, customer: CustomerId, *, business: BusinessId | None = None
    ) -> AsyncIterator[ToolContext]:
        """One transaction as the tenant role."""
        business = business or self.ours
        async with self.database.tenant(business, QUERIES) as sql:
            yield ToolContext(sql=sql, business=business, customer=customer, now=NOW, zone=ZONE, locale="en")

    async def add(
        self, customer: CustomerId, item: str, amount: str, *, key: str, business: BusinessId | None = None
    ) -> Done | Refusal:
        """Check and execution in one transaction, as the pipeline does it."""
        async with self.context(customer, business=business) as context:
            checked = await check_addition(context, AddExpense(item=item, amount=amount))
            return checked if isinstance(checked, Refusal) else await execute_addition(context, checked, key)

    async def delete(self, customer: CustomerId, no: int, *, key: str) -> Done | Refusal:
        async with self.context(customer) as context:
            checked = await check_deletion(context, DeleteExpense(id=no))
            return checked if isinstance(checked, Refusal) else await execute_deletion(context, checked, key)

    async def items(
        self, customer: CustomerId, *, business: BusinessId | None = None
    ) -> list[tuple[int, str]]:
        async with self.context(customer, business=business) as context:
            listed = (await list_expenses(context, Nothing())).data["expenses"]
        return [(one["id"], one["item"]) for one in listed]

    async def totals(self, customer: CustomerId) -> dict[str, str]:
        async with self.context(customer) as context:
            return {
                one["currency"]: one["total"] for one in (await get_total(context, Nothing())).data["totals"]
            }


async def _business(owner: "asyncpg.Connection[asyncpg.Record]", slug: str) -> BusinessId:
    made: int = await owner.fetchval(
        "insert into leeway.business (slug, name, pack, locales, time_zone)"
        " values ($1, 'Demo expenses', 'expenses', '{en,ro}', 'Europe/Bucharest') returning id",
        slug,
    )
    return BusinessId(made)


async def _customer(owner: "asyncpg.Connection[asyncpg.Record]", business: BusinessId) -> CustomerId:
    customer = CustomerId(new_id())
    await owner.execute("insert into leeway.customer (id, business) values ($1, $2)", customer, business)
    return customer


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    await migrate(database_url, packs={PACK.name: PACK.migrations})
    owner = await asyncpg.connect(database_url)
    database = await open_pool(database_url, size=4, timeouts=Timeouts())
    ours, theirs = await _business(owner, "ours"), await _business(owner, "theirs")
    people = [await _customer(owner, business) for business in (ours, ours, theirs)]
    for business in (ours, theirs):
        async with database.tenant(business, QUERIES) as sql:
            await PACK.seed(sql, business, now=NOW)
    yield World(database, owner, ours, theirs, *people)
    await database.close()
    await owner.close()


def done_id(outcome: Done | Refusal) -> int:
    assert isinstance(outcome, Done), outcome
    number: int = outcome.result["id"]
    return number


async def test_every_query_can_be_prepared(world: World) -> None:
    for text in QUERIES.values():
        await world.owner.prepare(text)


async def test_seeding_again_changes_nothing(world: World) -> None:
    await world.owner.execute("update expenses.ledger set currency = 'EUR' where business = $1", world.ours)
    async with world.context(world.ana) as context:
        await PACK.seed(context.sql, world.ours, now=NOW)

    rows = await world.owner.fetch("select business, currency from expenses.ledger order by business")
    assert [tuple(row) for row in rows] == [(world.ours, "EUR"), (world.theirs, "RON")]


async def test_additions_are_numbered_and_totalled_by_currency(world: World) -> None:
    await world.add(world.ana, "chirie", "1.355,90", key="k1")
    await world.add(world.ana, "pâine", "3,40 €", key="k2")
    await world.add(world.ana, "prânz", "12,5 lei", key="k3")

    assert await world.items(world.ana) == [(1, "chirie"), (2, "pâine"), (3, "prânz")]
    assert await world.totals(world.ana) == {"EUR": "3.40", "RON": "1368.40"}


async def test_an_expense_s_day_is_the_business_s(world: World) -> None:
    await world.add(world.ana, "rent", "900", key="k1")
    async with world.context(world.ana) as context:
        listed = await list_expenses(context, Nothing())

    assert [one["added"] for one in listed.data["expenses"]] == ["2026-12-04"]


async def test_what_was_proposed_passes_the_check_again_unchanged(world: World) -> None:
    async with world.context(world.ana) as context:
        first = await check_addition(context, AddExpense(item="rent", amount="1.355,90 lei"))
        assert isinstance(first, Proposal)
        again = await check_addition(context, AddExpense.model_validate(dict(first.arguments)))

    assert again == first


async def test_what_is_done_is_what_was_shown(world: World) -> None:
    async with world.context(world.ana) as context:
        asked = await check_addition(context, AddExpense(item="rent", amount="1 250,00"))
        assert isinstance(asked, Proposal)
        added = await execute_addition(context, asked, "k1")
        going = await check_deletion(context, DeleteExpense(id=1))
        assert isinstance(going, Proposal)
        deleted = await execute_deletion(context, going, "k2")

    assert added == Done(result={"id": 1, **asked.shown})
    assert deleted == Done(result=going.shown) == added


async def test_one_key_adds_once(world: World) -> None:
    async with world.context(world.ana) as context:
        asked = await check_addition(context, AddExpense(item="rent", amount="900"))
        assert isinstance(asked, Proposal)

    results = []
    for _ in range(3):
        async with world.context(world.ana) as context:
            results.append(await execute_addition(context, asked, "k1"))

    assert results[0] == results[1] == results[2]
    assert await world.totals(world.ana) == {"RON": "900.00"}
    assert done_id(await world.add(world.ana, "milk", "5", key="k2")) == 2


async def test_one_key_deletes_once(world: World) -> None:
    for key in ("k1", "k2"):
        await world.add(world.ana, "rent", "900", key=key)
    async with world.context(world.ana) as context:
        going = await check_deletion(context, DeleteExpense(id=1))
        assert isinstance(going, Proposal)

    results = []
    for _ in range(2):
        async with world.context(world.ana) as context:
            results.append(await execute_deletion(context, going, "k3"))

    assert results[0] == results[1] == Done(result=going.shown)
    assert await world.items(world.ana) == [(2, "rent")]


async def test_of_two_deletions_of_one_expense_the_second_is_told_it_is_gone(world: World) -> None:
    """Both pass the check before either has written."""
    await world.add(world.ana, "rent", "900", key="k1")
    async with world.context(world.ana) as context:
        going = await check_deletion(context, DeleteExpense(id=1))
    assert isinstance(going, Proposal)
    begun = asyncio.Barrier(2)

    async def run(key: str) -> Done | Refusal:
        async with world.context(world.ana) as context:
            await begun.wait()
            return await execute_deletion(context, going, key)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(key)) for key in ("k2", "k3")]
    outcomes = [task.result() for task in tasks]

    assert [one for one in outcomes if isinstance(one, Refusal)] == [
        Refusal(code="no_such_expense", detail={"id": 1})
    ]


async def test_additions_at_the_same_moment_get_numbers_of_their_own(world: World) -> None:
    begun = asyncio.Barrier(4)

    async def run(key: str) -> Done | Refusal:
        async with world.context(world.ana) as context:
            asked = await check_addition(context, AddExpense(item=key, amount="1"))
            assert isinstance(asked, Proposal)
            await begun.wait()
            return await execute_addition(context, asked, key)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(f"k{number}")) for number in range(4)]

    assert sorted(done_id(task.result()) for task in tasks) == [1, 2, 3, 4]


async def test_a_deleted_expense_is_kept_as_deleted_and_its_number_is_not_given_again(world: World) -> None:
    await world.add(world.ana, "rent", "900", key="k1")
    await world.delete(world.ana, 1, key="k2")

    assert await world.items(world.ana) == []
    assert await world.totals(world.ana) == {}
    assert done_id(await world.add(world.ana, "milk", "5", key="k3")) == 2
    row = await world.owner.fetchrow(
        "select item, amount, state, deleted_at from expenses.expense where no = 1"
    )
    assert row is not None
    assert tuple(row) == ("rent", Decimal("900.00"), "deleted", NOW)


@pytest.mark.parametrize("no", [1, 2, 7, 99_999])
async def test_another_s_expense_answers_as_one_that_does_not_exist(world: World, no: int) -> None:
    """Bogdan has 1 and 2, Ana has none: each number is refused alike."""
    for key in ("k1", "k2"):
        await world.add(world.bogdan, "rent", "900", key=key)

    refused = Refusal(code="no_such_expense", detail={"id": no})
    async with world.context(world.ana) as context:  # nor does a prompt show what it is
        assert await check_deletion(context, DeleteExpense(id=no)) == refused
        going = Proposal(arguments={"id": no}, shown={})
        assert await execute_deletion(context, going, "k3") == refused
    assert await world.items(world.ana) == []
    assert await world.totals(world.ana) == {}
    assert await world.items(world.bogdan) == [(1, "rent"), (2, "rent")]


async def test_each_customer_counts_from_one(world: World) -> None:
    await world.add(world.bogdan, "rent", "900", key="k1")

    assert done_id(await world.add(world.ana, "milk", "5", key="k2")) == 1
    assert done_id(await world.add(world.stranger, "bread", "4", key="k2", business=world.theirs)) == 1
    assert await world.items(world.stranger, business=world.theirs) == [(1, "bread")]


async def test_another_business_sees_and_reaches_nothing(world: World) -> None:
    await world.add(world.ana, "rent", "900", key="k1")

    async with world.context(
        world.ana, business=world.theirs
    ) as context:  # a turn that named the wrong business
        assert (await list_expenses(context, Nothing())).data["expenses"] == []
        assert await context.sql.fetch("expenses.list", world.ours, world.ana, 20) == []
        assert await context.sql.fetch("expenses.added", world.ours, world.ana, "k1") == []
        await context.sql.fetch("expenses.delete", world.ours, world.ana, 1, "k2", NOW)
    assert await world.items(world.ana) == [(1, "rent")]


async def test_another_business_can_write_nothing_of_ours(world: World) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        async with world.context(world.ana, business=world.theirs) as context:
            await context.sql.fetch(
                "expenses.add", world.ours, world.ana, "k1", "rent", Decimal(900), "RON", NOW
            )


async def test_without_a_business_nothing_is_seen(world: World) -> None:
    await world.add(world.ana, "rent", "900", key="k1")
    async with world.owner.transaction():
        await world.owner.execute("set local role leeway_tenant")
        for table in TABLES:
            assert await world.owner.fetchval(f"select count(*) from expenses.{table}") == 0


async def test_row_security_is_forced_on_every_table(world: World) -> None:
    rows = await world.owner.fetch(
        "select relname, relrowsecurity and relforcerowsecurity as forced from pg_class"
        " where relnamespace = 'expenses'::regnamespace and relkind = 'r'"
    )
    assert {row["relname"]: row["forced"] for row in rows} == dict.fromkeys(TABLES, True)


@pytest.mark.parametrize(
    "statement",
    [
        "delete from expenses.expense",
        "update expenses.expense set amount = 1",
        "update expenses.expense set item = 'x'",
        "update expenses.expense set customer = customer",
        "update expenses.ledger set currency = 'EUR'",
        "delete from expenses.numbering",
        "truncate expenses.expense",
    ],
)
async def test_the_pack_s_role_can_change_nothing_that_a_receipt_tells(world: World, statement: str) -> None:
    async with world.owner.transaction():
        await world.owner.execute("set local role leeway_tenant")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with world.owner.transaction():
                await world.owner.execute(statement)


async def test_a_list_that_is_full_says_so_and_the_transaction_goes_on(world: World) -> None:
    await world.add(world.ana, "rent", "900", key="k1")
    await world.owner.execute("update expenses.numbering set last_no = 99999")

    async with world.context(world.ana) as context:
        asked = await check_addition(context, AddExpense(item="milk", amount="5"))
        assert isinstance(asked, Proposal)
        assert await execute_addition(context, asked, "k2") == Refusal(code="list_full")
        assert (await list_expenses(context, Nothing())).data["of"] == 1


async def test_without_a_ledger_an_amount_needs_its_currency(world: World) -> None:
    await world.owner.execute("delete from expenses.ledger")

    refused = await world.add(world.ana, "rent", "900", key="k1")

    assert isinstance(refused, Refusal)
    assert refused.code == "which_currency"
    assert done_id(await world.add(world.ana, "rent", "900 lei", key="k1")) == 1


async def test_the_greatest_amount_fits(world: World) -> None:
    await world.add(world.ana, "house", "9.999.999,99", key="k1")

    assert await world.totals(world.ana) == {"RON": "9999999.99"}


async def test_an_item_is_data_whatever_it_says(world: World) -> None:
    item = "x'); drop table expenses.expense; --"
    await world.add(world.ana, item, "1", key="k1")

    assert await world.items(world.ana) == [(1, item)]
