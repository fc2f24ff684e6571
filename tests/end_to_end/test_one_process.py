"""Everything in one process on the embedded Postgres: the demo, `leeway up` and what it survives."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from leeway.dead import _retry
from leeway.embedded import embedded_postgres
from leeway.evidence import Evidence
from leeway.installation import running_in
from leeway.one_process import DEMO, OneProcess, one_process, running
from leeway.telephone import Telephone
from shared.database import open_pool
from shared.ids import new_id
from shared.settings import Timeouts, load_settings
from shared.tickets import Stage
from tests.support.commands import environment, leeway, started
from tests.support.eventually import eventually
from tests.support.process import free_port, make_directory, remove_directory

pytestmark = [pytest.mark.postgres, pytest.mark.stack]

QUICK = replace(DEMO, window_ms=100)
RUNNING = "Stop with Ctrl-C."
ANA = "+40700000001"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Not pytest's own: as root each new session of it shuts the way to those of all others, Postgres's too."""
    directory = make_directory("one-process")
    yield directory
    remove_directory(directory)


@asynccontextmanager
async def installed(directory: Path) -> AsyncIterator[OneProcess]:
    settings = load_settings(llm="mock")
    async with one_process(settings, directory, demo=QUICK, keeps=False) as installation:
        yield installation


async def demo(directory: Path, *options: str) -> list[str]:
    """What it prints, for a reader at 80 columns."""
    env = environment(LLM="openai:none", TMPDIR=str(directory))
    ended = await leeway("demo", *options, cwd=directory, env=env)
    assert ended.code == 0, ended.out + ended.err
    assert ended.err == ""
    assert "✗" not in ended.out
    assert "\x1b" not in ended.out
    lines = ended.out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert not any(line.endswith(" ") for line in lines)
    assert not any(directory.iterdir())  # noqa: ASYNC240  nothing else runs
    return lines


async def test_the_demo_comes_out_as_its_script_says(tmp_path: Path) -> None:
    lines = await demo(tmp_path)
    assert len(lines) <= 160  # some 150; a long month wraps a few lines more
    told = " ".join(" ".join(lines).split())
    for said in (
        "Reply YES to confirm or NO to leave it. [Confirm] [Cancel]",
        "To be sure, please answer YES or NO: Book: cleaning",
        "Booked: cleaning",
        "YES (the channel delivers it a second time) ✓ nothing was added",
        "Moved: cleaning",
        "This is the last step, after that it is final.",
        "Cancelled: cleaning",
        "(Maria, of the clinic, reads the draft and sends it)",
        "(draft) I've booked you in for noon",
        "number can't be reached",
        "Mallory is asked like anybody else",
        "the third time the bot is silent",
        "Maria Hello Ana, this is Maria.",
        "denied: at level 1",
        "tokens in",
        "each sealed to the one before it",
        "All 26 checks held.",
    ):
        assert said in told


async def test_the_demo_of_expenses_shows_four_levels_side_by_side(tmp_path: Path) -> None:
    lines = await demo(tmp_path, "--pack", "expenses")
    rows = [line.split() for line in lines]
    assert ["level", "1", "level", "2", "level", "3", "level", "4"] in rows
    assert any(line.split("  ")[0] == "adding" and line.count("done at once") == 2 for line in lines)
    assert any("level 3: added at once; deleted only after a YES" in line for line in lines)
    assert "All 4 checks held." in lines


@pytest.fixture
def up(tmp_path: Path) -> Any:
    """Starts `leeway up` on the test's directory, again on the same port when it is called again."""
    port = free_port()

    def start() -> Any:
        return started("up", "--port", str(port), cwd=tmp_path, says=RUNNING)

    return start


async def test_a_customer_is_answered_and_a_second_up_is_refused(up: Any, tmp_path: Path) -> None:
    async with up() as process:
        said = await leeway("say", "How much is a filling?", cwd=tmp_path)
        assert (said.code, said.err) == (0, "")
        assert "filling (60 min" in said.out

        second = await leeway("up", "--port", str(free_port()), cwd=tmp_path)
        assert second.code == 1
        assert second.err == "leeway: Another leeway is running on .leeway; stop it first, or name another with --data.\n"  # fmt: skip

        note = running_in(tmp_path / ".leeway")
        assert note is not None
        async with httpx2.AsyncClient(base_url=note.url, trust_env=False) as client:
            for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
                assert (await client.get(path)).status_code == 200

        healthy = await leeway("doctor", cwd=tmp_path)
        assert healthy.code == 0, healthy.out
        assert "FIX" not in healthy.out

        assert await asyncio.to_thread(process.stop, number=signal.SIGTERM) == 0
        assert "Stopped. The data stay in .leeway." in process.log.read_text()
    assert running_in(tmp_path / ".leeway") is None
    assert not (tmp_path / ".leeway/postgres/postmaster.pid").exists()


async def test_ctrl_c_ends_it_in_order(up: Any) -> None:
    async with up() as process:
        assert await asyncio.to_thread(process.stop, number=signal.SIGINT) == 0


async def test_a_taken_port_is_said_in_one_line(up: Any, tmp_path: Path) -> None:
    async with up():
        note = running_in(tmp_path / ".leeway")
        assert note is not None
        port = note.url.rpartition(":")[2]
        ended = await leeway("up", "--port", port, "--data", "other", cwd=tmp_path)
        assert ended.code == 1
        assert ended.err == (
            f"leeway: 127.0.0.1:{port} can't be listened on (Address already in use); choose another with --port.\n"
        )


async def test_a_killed_process_loses_nothing_and_answers_once(up: Any, tmp_path: Path) -> None:
    async with up() as process:
        saying = asyncio.create_task(leeway("say", "What are your opening hours?", cwd=tmp_path))
        record = await opened(tmp_path)
        try:
            await eventually(lambda: stored(record, "inbound_message"), within_s=20)
        finally:
            await record.close()
        process.send(signal.SIGKILL)  # its window of two seconds is still open: nobody has answered
        await saying
    async with up():
        record = await opened(tmp_path)
        try:
            await eventually(lambda: stored(record, "sim_delivery"), within_s=20)
            await asyncio.sleep(1)
            for table in ("inbound_message", "turn", "outbound", "sim_delivery"):
                assert await stored(record, table) == 1, table
        finally:
            await record.close()


async def opened(directory: Path) -> Any:
    note = running_in(directory / ".leeway")
    assert note is not None
    return await open_pool(note.database_url, size=1, timeouts=Timeouts())


async def stored(record: Any, table: str) -> int:
    (row,) = await record.fetch(f"select count(*)::int as n from {table}")
    return row["n"]


async def test_a_turn_among_the_dead_is_answered_once_after_a_retry(tmp_path: Path) -> None:
    async with installed(tmp_path) as installation:
        database = installation.parts.database
        telephone = Telephone(installation, ANA)
        without_agent = [one for one in installation.services if one.name != Stage.AGENT.value]
        async with running(replace(installation, services=without_agent)):
            await telephone.write("What are your opening hours?")
            await eventually(lambda: stored_due(database), within_s=10)
        (message,) = await database.fetch("select id, business, conversation, seq from inbound_message")
        await database.fetch(
            "insert into turn (id, business, conversation, cause, seq_from, seq_to, engine, model, fruitless) "
            "values ($1, $2, $3, $4, $5, $5, 'tool_loop', 'mock', 5)",
            new_id(),
            message["business"],
            message["conversation"],
            message["id"],
            message["seq"],
        )
    async with installed(tmp_path) as installation, running(installation):
        database = installation.parts.database
        telephone = Telephone(installation, ANA)
        (apology,) = await telephone.wait()
        assert apology.text.startswith("Something went wrong on our side.")
        (dead,) = await database.fetch("select id from dead where settled_at is null")

        assert await _retry(database, dead["id"]) is None
        (answer,) = await telephone.wait()
        assert answer.text.startswith("We are open: Monday")
        assert "settled already" in str(await _retry(database, dead["id"]))
        await asyncio.sleep(1)
        assert await telephone.arrived() == []
        await telephone.close()


async def stored_due(database: Any) -> bool:
    rows = await database.fetch("select due_at is not null and unguarded = 0 as owed from conversation_state")
    return bool(rows) and rows[0]["owed"]


async def test_a_server_left_by_a_killed_process_is_replaced(tmp_path: Path) -> None:
    data = tmp_path / "postgres"
    with embedded_postgres(data, keeps=False) as url:
        pool = await open_pool(url, size=1, timeouts=Timeouts(), role="none")
        await pool.fetch("create table public.kept (id int)")
        await pool.close()
        first = (data / "postmaster.pid").read_text()
        with embedded_postgres(data, keeps=False) as again:  # as if the first had lost its process
            assert (data / "postmaster.pid").read_text() != first
            successor = await open_pool(again, size=1, timeouts=Timeouts(), role="none")
            assert await successor.fetch("select * from public.kept") == []
            await successor.close()


async def test_a_directory_with_a_long_name_is_no_trouble(tmp_path: Path) -> None:
    data = tmp_path / ("a long name " * 12).strip() / "postgres"
    data.parent.mkdir()
    with embedded_postgres(data, keeps=False) as url:
        pool = await open_pool(url, size=1, timeouts=Timeouts(), role="none")
        assert (await pool.fetch("select 1 as one"))[0]["one"] == 1
        await pool.close()


async def test_evidence_tells_a_message_kept_from_one_answered(tmp_path: Path) -> None:
    async with installed(tmp_path) as installation, running(installation):
        evidence = Evidence(
            installation.parts.database,
            clock=installation.parts.clock,
            sim_address=installation.sim_address,
            business=installation.business,
        )
        telephone = Telephone(installation, ANA)
        asked = await evidence.handled(await telephone.write("operator"))
        assert (asked.verdict, asked.reason, asked.reply_state) == ("handoff", "handoff_requested", "sent")
        kept = await evidence.handled(await telephone.write("Hello?"))
        assert (kept.verdict, kept.reason, kept.reply) == ("stored", "handoff_active", None)
        await telephone.close()


async def test_the_secret_key_stays_and_is_its_owners_alone(tmp_path: Path) -> None:
    async with installed(tmp_path) as first:
        secret = first.sim_secret
    async with installed(tmp_path) as second:
        assert second.sim_secret == secret
    assert (tmp_path / "secret.key").stat().st_mode & 0o077 == 0
    assert json.dumps(secret) not in (tmp_path / "postgres.log").read_text()
