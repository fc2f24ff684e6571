"""Fixtures that bring real servers. Nothing is started for a session that selects no test needing them."""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any

import pytest
from _pytest.nodeid import NodeId

from tests.support import log_scan
from tests.support.choice import Bringer, Choice
from tests.support.desk import Desk, DeskServer, OwnDesk, RemoteDesk, shared_postgres, shared_rabbitmq
from tests.support.lending import Lending
from tests.support.nodes import ServersUnavailableError
from tests.support.servers import Postgres, RabbitMQ, Servers

TEST_SECONDS = 90
CONTAINERS = "tests/containers/"
DESK: pytest.StashKey[Desk] = pytest.StashKey()
DESK_SERVER: pytest.StashKey[DeskServer] = pytest.StashKey()
LINES: pytest.StashKey[log_scan.Lines] = pytest.StashKey()
LEAKS: pytest.StashKey[list[log_scan.Leak]] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"time_limit(seconds): of an async test, instead of {TEST_SECONDS}")
    config.stash[LINES] = log_scan.begin()
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        config.stash[DESK] = RemoteDesk(worker["leeway_desk_place"], bytes.fromhex(worker["leeway_desk_key"]))
        return
    config.stash[DESK] = OwnDesk(Bringer(Choice.from_environment()))


@pytest.hookimpl(trylast=True)  # after pytest-xdist
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """An async test that waits for ever fails where it waits, instead of holding up the run. Tests of a group share a worker."""
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            marker = item.get_closest_marker("time_limit")
            item.obj = limited(item.obj, marker.args[0] if marker else TEST_SECONDS)
        group = item.get_closest_marker("xdist_group")
        if group and config.getoption("loadgroup", False) and "@" not in item.nodeid:
            # pytest-xdist 3.8 writes the group into `_nodeid`, which pytest 9.2 no longer reads.
            item._id = NodeId.parse(f"{item.nodeid}@{group.args[0]}")


def limited(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def limited_test(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(seconds):
            await test(*args, **kwargs)

    return limited_test


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Of pytest-xdist, in the controller, for each worker."""
    stash = node.config.stash
    if DESK_SERVER not in stash:
        stash[DESK_SERVER] = DeskServer(stash[DESK])
    node.workerinput["leeway_desk_place"] = stash[DESK_SERVER].place
    node.workerinput["leeway_desk_key"] = stash[DESK_SERVER].key.hex()


def pytest_report_header(config: pytest.Config) -> str:
    return Choice.from_environment().describe()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """What the run's logs hold is part of its outcome. The controller comes last, when its workers have ended."""
    session.config.stash[LEAKS] = leaks = session.config.stash[LINES].end()
    if leaks and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if leaks := config.stash.get(LEAKS, []):
        terminalreporter.section("people in the logs", red=True)
        for line in log_scan.report(leaks):
            terminalreporter.write_line(line)
    desk = config.stash.get(DESK, None)
    if isinstance(desk, OwnDesk):
        for note in desk.bringer.notes:
            terminalreporter.write_line(f"server: {note}")
    if why := left_out(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(f"NOT RUN: the tests of the stack in containers, as {why}", red=True)


def left_out(skipped: Iterable[pytest.TestReport]) -> str | None:
    """Why this machine could not run the tests in containers; None when it ran them, or none was asked for."""
    reasons = [
        str(one.longrepr[2])
        for one in skipped
        if CONTAINERS in one.nodeid and isinstance(one.longrepr, tuple)
    ]
    return reasons[0].removeprefix("Skipped: ") if reasons else None


def pytest_unconfigure(config: pytest.Config) -> None:
    desk = config.stash.get(DESK, None)
    if isinstance(desk, OwnDesk):
        desk.close()
    if DESK_SERVER in config.stash:
        config.stash[DESK_SERVER].close()


@pytest.fixture(scope="session")
def desk(request: pytest.FixtureRequest) -> Desk:
    return request.config.stash[DESK]


@pytest.fixture(scope="session")
def postgres(desk: Desk) -> Postgres:
    """The run's Postgres. All tests share it, so none may stop it."""
    with one_clear_error():
        return shared_postgres(desk)


@pytest.fixture(scope="session")
def rabbitmq(desk: Desk) -> RabbitMQ:
    """The run's RabbitMQ. All tests share it, so none may stop it or set its alarms."""
    with one_clear_error():
        return shared_rabbitmq(desk)


@pytest.fixture(scope="session")
async def lending(postgres: Postgres) -> AsyncIterator[Lending]:
    """The databases that this worker's tests use one after another."""
    lending = Lending(postgres)
    yield lending
    await lending.close()


@pytest.fixture
async def database_url(lending: Lending) -> AsyncIterator[str]:
    """A database of the test's own, all migrations applied, without rows."""
    url, fingerprint = await lending.lend()
    yield url
    await lending.give_back(url, fingerprint)


@pytest.fixture
async def empty_database_url(postgres: Postgres) -> AsyncIterator[str]:
    """A database of the test's own, with nothing in it."""
    url = await postgres.create_database(migrated=False)
    yield url
    await postgres.drop_database(url)


@pytest.fixture
async def amqp_url(rabbitmq: RabbitMQ) -> AsyncIterator[str]:
    """A virtual host of the test's own."""
    url = await rabbitmq.create_vhost()
    yield url
    await rabbitmq.delete_vhost(url)


@pytest.fixture(scope="session")
def private_postgres(desk: Desk) -> Iterator[Postgres]:
    """Behind own_postgres: started once per worker, handed to one test after the other."""
    bringer = Bringer()
    with one_clear_error():
        server = Postgres(bringer.postgres(private=True))
    desk.note("; ".join(bringer.notes))
    yield server
    server.close()


@pytest.fixture(scope="session")
def private_rabbitmq(desk: Desk) -> Iterator[RabbitMQ]:
    """Behind own_rabbitmq: started once per worker, handed to one test after the other."""
    bringer = Bringer()
    with one_clear_error():
        server = RabbitMQ(bringer.rabbitmq(private=True))
    desk.note("; ".join(bringer.notes))
    yield server
    server.close()


@pytest.fixture
async def own_postgres(private_postgres: Postgres) -> Postgres:
    """A Postgres that only this test uses: to restart, stop, kill."""
    await private_postgres.restore()
    return private_postgres


@pytest.fixture
async def own_rabbitmq(private_rabbitmq: RabbitMQ) -> RabbitMQ:
    """A RabbitMQ that only this test uses: to restart, stop, kill, wipe, alarm."""
    await private_rabbitmq.restore()
    return private_rabbitmq


@pytest.fixture
def own_servers(own_postgres: Postgres, own_rabbitmq: RabbitMQ) -> Servers:
    """The pair of them."""
    return Servers(own_postgres, own_rabbitmq)


@contextlib.contextmanager
def one_clear_error() -> Iterator[None]:
    try:
        yield
    except ServersUnavailableError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
