"""docs/adding-a-pack.md, followed to the letter: its files make a package that installs, is found, and books on a real Postgres."""

import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from shared.autonomy import Risk, Ruling, decide
from shared.database import Database, open_pool, queries_of
from shared.database.migrate import migrate
from shared.database.queries import Queries
from shared.ids import BusinessId, CustomerId, new_id
from shared.llm.port import AssistantCalls, Message, Request, ToolResult, UserText
from shared.packs import (
    Done,
    Established,
    Pack,
    Proposal,
    Refusal,
    Tool,
    ToolContext,
    load_packs,
    wrongly_declared,
)
from shared.secrets import new_key
from shared.settings import Timeouts
from tests.support.commands import environment

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent  # where the build backend's program is
PAGE = (ROOT / "docs/adding-a-pack.md").read_text(encoding="utf-8")
# A file of the page: its path in bold on a line of its own, then one block of code.
FILE = re.compile(r"^\*\*`(?P<path>[^`\n]+)`\*\*\n+```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {found["path"]: found["text"] for found in FILE.finditer(PAGE)}
NOW = datetime(2026, 12, 3, 7, 30, tzinfo=UTC)  # Thursday, 9:30 in Bucharest
ZONE = ZoneInfo("Europe/Bucharest")


@dataclass(frozen=True)
class Installed:
    """The page's package in a folder of its own, and where it was built from."""

    source: Path
    site: Path
    pack: Pack

    def run(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """A program in an environment that has the package."""
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.source,
            env=environment(PYTHONPATH=os.pathsep.join((str(self.site), str(ROOT)))) | settings,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    source, site = tmp_path_factory.mktemp("leeway-workshop"), tmp_path_factory.mktemp("site")
    for path, text in FILES.items():
        file = source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", str(site), str(source)],
        env=environment(PATH=f"{BIN}{os.pathsep}{os.defpath}"), capture_output=True, text=True, check=False, timeout=80,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    try:
        yield Installed(source, site, load_packs()["workshop"])
    finally:
        sys.path.remove(str(site))
        importlib.invalidate_caches()
        for name in [one for one in sys.modules if one.partition(".")[0] == "leeway_workshop"]:
            del sys.modules[name]


# The page


def test_every_file_that_the_page_shows_has_its_path() -> None:
    blocks = re.findall(r"^```(\w+)\n", PAGE, flags=re.MULTILINE)
    assert len(FILES) == len(blocks) > 8


def test_the_page_leads_through_every_file_of_the_expenses_pack() -> None:
    named = {one for one in re.findall(r"`(packs/expenses/[^`]+)`", PAGE) if "." in one}
    there = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "packs/expenses").rglob("*")
        if path.is_file() and not {"__pycache__", "scripts"} & set(path.parts)
    }
    assert named == there


def test_the_page_names_nothing_that_is_not_there() -> None:
    named = re.findall(r"`((?:shared|tests|docs|packs|services)/[^`*]+)`", PAGE)
    assert named
    assert not [path for path in named if path not in FILES and not (ROOT / path).exists()]


def test_the_page_tells_the_gate_s_table_as_it_is() -> None:
    said = {Ruling.ALLOW: "runs", Ruling.ASK: "asked", Ruling.DENY: "denied"}
    for risk in Risk:
        assert f"| {risk} | {' | '.join(said[decide(level, risk)] for level in range(5))} |" in PAGE


def test_the_page_s_code_passes_our_own_checks(installed: Installed) -> None:
    for words in (("check",), ("format", "--check", "--diff")):
        done = installed.run(
            "-m", "ruff", *words, "--no-cache", "--config", str(ROOT / "pyproject.toml"), "leeway_workshop"
        )
        assert done.returncode == 0, done.stdout


def test_the_page_s_own_tests_pass(installed: Installed) -> None:
    done = installed.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout


def test_the_pack_is_found_by_its_entry_point_and_declared_rightly(installed: Installed) -> None:
    assert {"clinic", "expenses", "workshop"} <= set(load_packs())
    assert wrongly_declared(installed.pack.tools) == []
    assert installed.pack.migrations.is_relative_to(installed.site)


# On a real Postgres


@dataclass(frozen=True)
class World:
    database: Database
    queries: Queries
    pack: Pack
    ours: BusinessId
    theirs: BusinessId
    ana: CustomerId
    bogdan: CustomerId

    @asynccontextmanager
    async def context(
        self, customer: CustomerId, *, business: BusinessId | None = None
    ) -> AsyncIterator[ToolContext]:
        business = business or self.ours
        async with self.database.tenant(business, self.queries) as sql:
            yield ToolContext(sql=sql, business=business, customer=customer, now=NOW, zone=ZONE, locale="en")

    def tool(self, name: str) -> Tool:
        return next(tool for tool in self.pack.tools if tool.name == name)

    async def free(self, customer: CustomerId, *, business: BusinessId | None = None) -> list[Any]:
        tool = self.tool("free_slots")
        assert tool.read
        async with self.context(customer, business=business) as context:
            read = await tool.read(context, tool.arguments())
        assert isinstance(read, Established)
        return list(read.data["free"])

    async def checked(self, customer: CustomerId, **arguments: Any) -> Proposal | Refusal:
        tool = self.tool("book_repair")
        assert tool.check
        async with self.context(customer) as context:
            return await tool.check(context, tool.arguments.model_validate(arguments))

    async def executed(self, customer: CustomerId, proposal: Proposal | Refusal, key: str) -> Done | Refusal:
        tool = self.tool("book_repair")
        assert tool.execute
        assert isinstance(proposal, Proposal)
        async with self.context(customer) as context:
            return await tool.execute(context, proposal, key)


@pytest.fixture
async def world(database_url: str, installed: Installed) -> AsyncIterator[World]:
    pack = installed.pack
    await migrate(database_url, packs={pack.name: pack.migrations})
    queries = queries_of(pack)
    owner = await asyncpg.connect(database_url)
    businesses = [
        BusinessId(
            await owner.fetchval(
                "insert into leeway.business (slug, name, pack, locales, time_zone)"
                " values ($1, $1, 'workshop', '{en,ro}', 'Europe/Bucharest') returning id",
                slug,
            )
        )
        for slug in ("ours", "theirs")
    ]
    people = [CustomerId(new_id()), CustomerId(new_id())]
    for customer in people:
        await owner.execute("insert into leeway.customer values ($1, $2)", customer, businesses[0])
    await owner.close()
    database = await open_pool(database_url, size=4, timeouts=Timeouts())
    async with database.tenant(businesses[0], queries) as sql:
        for _ in range(2):  # again changes nothing
            await pack.seed(sql, businesses[0], now=NOW)
    yield World(database, queries, pack, businesses[0], businesses[1], people[0], people[1])
    await database.close()


@pytest.mark.postgres
class TestOnPostgres:
    async def test_the_read_shows_what_is_free(self, world: World) -> None:
        free = await world.free(world.ana)

        assert [one["slot"] for one in free] == [1, 2, 3, 4, 5]
        assert free[0]["start"] == "2026-12-03T10:00+02:00"

    async def test_an_action_is_checked_executed_and_worded(self, world: World) -> None:
        tool = world.tool("book_repair")
        checked = await world.checked(world.ana, slot=2, bike="city\n bike")
        assert isinstance(checked, Proposal)
        assert tool.word_prompt
        assert tool.word_done

        assert tool.word_prompt(checked.shown, "en") == (
            "Book a repair: city bike, Thursday 3 December, 11:00."
        )
        done = await world.executed(world.ana, checked, "k1")

        assert isinstance(done, Done)
        assert done.result == checked.shown
        assert tool.word_done(done.result, "ro") == (
            "Programat: reparația pentru city bike, joi 3 decembrie, 11:00."
        )
        assert [one["slot"] for one in await world.free(world.ana)] == [1, 3, 4, 5, 6]

    async def test_what_was_proposed_passes_the_check_again_unchanged(self, world: World) -> None:
        first = await world.checked(world.ana, slot=2, bike="city bike")
        assert isinstance(first, Proposal)

        assert await world.checked(world.ana, **first.arguments) == first

    async def test_one_key_books_once(self, world: World) -> None:
        checked = await world.checked(world.ana, slot=2, bike="city bike")
        other = await world.checked(world.ana, slot=3, bike="city bike")

        results = [await world.executed(world.ana, one, "k1") for one in (checked, checked, other)]

        assert results[0] == results[1] == results[2]
        assert len(await world.free(world.ana)) == 5

    async def test_of_two_at_the_same_moment_one_is_told_what_else_is_free(self, world: World) -> None:
        """Both pass the check before either has written."""
        proposals = [await world.checked(who, slot=1, bike="bike") for who in (world.ana, world.bogdan)]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(world.executed(who, proposal, str(who)))
                for who, proposal in zip((world.ana, world.bogdan), proposals, strict=True)
            ]
        outcomes = [task.result() for task in tasks]
        refused = [one for one in outcomes if isinstance(one, Refusal)]
        word = world.tool("book_repair").word_refusal

        assert [one.code for one in refused] == ["slot_taken"]
        assert word
        assert word(refused[0], "en").startswith(
            "That slot is taken. Free instead: slot 2, Thursday 3 December"
        )

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            ({"slot": 99, "bike": "x"}, "no_such_slot"),
            ({"slot": 2, "bike": "\u200b"}, "no_bike"),
        ],
        ids=["no such slot", "nothing that can be seen"],
    )
    async def test_what_can_t_be_is_refused(self, world: World, arguments: dict[str, Any], code: str) -> None:
        refused = await world.checked(world.ana, **arguments)

        assert isinstance(refused, Refusal)
        assert refused.code == code

    async def test_another_business_sees_and_reaches_nothing(self, world: World) -> None:
        assert await world.free(world.ana, business=world.theirs) == []
        async with world.context(world.ana, business=world.theirs) as context:
            await context.sql.fetch("workshop.book", world.ours, world.ana, 1, "bike", "k1")
        assert len(await world.free(world.ana)) == 5

    async def test_the_mock_leads_a_conversation_over_what_the_tools_say(self, world: World) -> None:
        messages: list[Message] = [UserText(text="When is a repair slot free?")]
        asks = world.pack.mock_answer(Request(system="", messages=messages, tools=()))
        free = await world.free(world.ana)
        messages += [
            AssistantCalls(text=None, calls=asks.calls),
            ToolResult(call_id=asks.calls[0].id, name=asks.calls[0].name, content=json.dumps({"free": free})),
        ]
        told = world.pack.mock_answer(Request(system="", messages=messages, tools=()))

        assert asks.calls[0].name == "free_slots"
        assert told.text is not None
        assert told.text.startswith("Free: slot 1, Thursday 3 December, 10:00; slot 2,")

    async def test_the_prompt_page_names_nobody(self, world: World) -> None:
        async with world.context(world.ana) as context:
            page = await world.pack.prompt_facts(context)
        assert "Time zone: Europe/Bucharest" in page
        assert str(world.ana) not in page

    async def test_the_page_s_commands_install_it(self, installed: Installed, database_url: str) -> None:
        """As a person would type them, in an environment that has the package."""
        settings = {"LEEWAY_DATABASE_URL": database_url, "LEEWAY_SECRET_KEY": new_key()}
        commands = re.findall(r"^leeway (.+)$", PAGE, flags=re.MULTILINE)
        assert [one.split()[0] for one in commands] == ["migrate", "business", "doctor"]
        for command in commands[:2]:
            words = [one.strip('"') for one in re.findall(r'"[^"]*"|\S+', command)]
            done = await asyncio.to_thread(installed.run, "-m", "leeway", *words, **settings)
            assert done.returncode == 0, done.stdout + done.stderr
        owner = await asyncpg.connect(database_url)
        count = await owner.fetchval("select count(*) from workshop.slot")
        await owner.close()
        assert count == 8
