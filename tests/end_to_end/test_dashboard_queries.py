"""Every query of every panel and rule, asked of a real Prometheus that scraped the real services while everything happened that
dashboards and alerts are about. What brings nothing back stands here with its reason, and must bring nothing."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

import httpx2
import pytest

from shared.clock import SystemClock
from tests.support.desk import Desk
from tests.support.eventually import eventually
from tests.support.happenings import Happenings
from tests.support.nodes import ServersUnavailableError
from tests.support.process import Process, free_port, make_directory, remove_directory
from tests.support.prometheus import Programs, find_postgres_exporter
from tests.support.queries import Asked, panel_queries, rule_queries, selectors
from tests.support.scraping import Prometheus, scraping
from tests.support.series import DECLARED, Series, series_of, strays
from tests.support.servers import Postgres, RabbitMQ
from tests.support.stack import Running, Stack, stack_on

DIRECTED = "tests.support.stack_directed"
RATES_OVER = "10s"  # ten scrapes, where Grafana takes four of its longer ones

pytestmark = [
    pytest.mark.stack,
    pytest.mark.postgres,
    pytest.mark.rabbitmq,
    pytest.mark.xdist_group("dashboards"),
]

# By the panel.
EMPTY: Mapping[str, str] = {
    "Leeway: Operations / Handoffs that nobody claimed in time / A": "a handoff waits for fifteen minutes before anybody is reminded",
    "Leeway: Operations / Reminders / A": "appointments are weeks ahead, reminders a day",
}
# Metrics with labels of which nothing was counted: what takes time, and what the sim channel has not got.
UNSEEN = {
    "leeway_handoffs_waiting_total",
    "leeway_reminders_total",
    "leeway_courtesies_total",
    "leeway_webhook_parts_passed_over_total",
}
# Scraped only where the exporter is at hand: their names are held against a list in tests/unit/test_dashboards.py.
BY_RABBITMQ, BY_POSTGRES = "rabbitmq_", "pg_"


class Scraped:
    """What was scraped, until the tests of this module are over."""

    def __init__(self, prometheus: Prometheus, stack: Stack, began: float, absent: set[str]) -> None:
        self.prometheus = prometheus
        self.stack = stack
        self._began = began
        self._absent = absent

    def lacks(self, query: str) -> bool:
        """Of an exporter that this environment has not got."""
        return any(
            selector.metric.startswith(tuple(self._absent)) for selector in selectors(query) if self._absent
        )

    async def finds(self, query: Asked, **values: str) -> bool:
        seconds = SystemClock().now().timestamp() - self._began
        expr = query.filled(rates_over=RATES_OVER, whole=f"{seconds:.0f}s", **values)
        if query.at_once:
            return bool(await self.prometheus.now(expr))
        return bool(await self.prometheus.over(expr, seconds=seconds))


@pytest.fixture(scope="module")
async def scraped(
    postgres: Postgres, rabbitmq: RabbitMQ, prometheus: Programs, desk: Desk
) -> AsyncIterator[Scraped]:
    database_url, amqp_url = await postgres.create_database(), await rabbitmq.create_vhost()
    directory = make_directory("dashboards")
    exporter = started_exporter(database_url, desk)
    began = SystemClock().now().timestamp()
    died = str(directory / "died")
    try:
        async with stack_on(database_url, amqp_url, LEEWAY_TEST_DIED=died) as stack:
            for name in ("ingest", "guard", "agent", "agent", "dispatch"):
                stack.make(name, module=DIRECTED if name == "agent" else None)
            targets = {name: [place(one) for one in running] for name, running in stack.running.items()}
            if rabbitmq.metrics_url:
                where = urlsplit(rabbitmq.metrics_url).netloc
                targets |= {"rabbitmq": [where], "rabbitmq-queues": [where]}
            if exporter is not None:
                targets |= {"postgres": [f"127.0.0.1:{exporter[1]}"]}
            async with scraping(prometheus, targets) as asked:
                await stack.start(agents=2)
                expected = {job: len(found) for job, found in targets.items()}
                await eventually(lambda: all_up(asked, expected), within_s=30)
                happenings = await Happenings.begin(stack)
                await happenings.all()
                await happenings.seen(asked.shows)
                await asyncio.sleep(2)  # and all of it is scraped once more
                absent = {
                    prefix
                    for prefix, job in ((BY_RABBITMQ, "rabbitmq"), (BY_POSTGRES, "postgres"))
                    if job not in targets
                }
                desk.note(
                    f"dashboards: scraped {', '.join(f'{n} × {job}' for job, n in sorted(expected.items()))}"
                )
                yield Scraped(asked, stack, began, absent)
    finally:
        if exporter is not None:
            exporter[0].kill()
        await postgres.drop_database(database_url)
        await rabbitmq.delete_vhost(amqp_url)
        remove_directory(directory)


def place(one: Running) -> str:
    return f"127.0.0.1:{one.port}"


async def all_up(prometheus: Prometheus, expected: Mapping[str, int]) -> bool:
    return await prometheus.targets_up() == expected


def started_exporter(database_url: str, desk: Desk) -> tuple[Process, int] | None:
    """Postgres' exporter and its port; without one the rest is tested all the same, and it is said."""
    try:
        program = find_postgres_exporter()
    except ServersUnavailableError as error:
        desk.note(f"dashboards: without Postgres' exporter ({error})")
        return None
    port = free_port()
    log = make_directory("postgres-exporter") / "log"
    process = Process(
        [program, f"--web.listen-address=127.0.0.1:{port}"],
        log=log,
        environment={"DATA_SOURCE_NAME": f"{database_url}?sslmode=disable"},
    )
    return process, port


@pytest.mark.time_limit(150)
async def test_every_panel_s_query_brings_something_back_for_all(scraped: Scraped) -> None:
    wrong = []
    for query in panel_queries():
        if scraped.lacks(query.expr):
            continue
        found = await scraped.finds(query)
        if found is (query.where in EMPTY):
            wrong.append(
                f"{query.where}: {'something, which it should not' if found else 'nothing'}: {query.expr}"
            )
    assert not wrong, "\n".join(wrong)


async def test_every_panel_s_query_brings_something_back_for_one_value_of_each_variable(
    scraped: Scraped,
) -> None:
    prometheus = scraped.prometheus
    values = {
        "business": await prometheus.label_values("leeway_messages_judged_total", "business"),
        "model": await prometheus.label_values("leeway_llm_latency_seconds_count", "model"),
        "engine": await prometheus.label_values("leeway_turn_seconds_count", "engine"),
    }
    assert values["model"] == ["directed"]
    assert values["engine"] == ["tool_loop"]
    assert set(values["business"]) == {"acme", "shy", "poor", "asking", "gone"}
    for query in panel_queries():
        if scraped.lacks(query.expr) or query.where in EMPTY:
            continue
        for variable in query.variables:
            found = [await scraped.finds(query, **{variable: value}) for value in values[variable]]
            assert any(found), f"{query.where} for one {variable}: {query.expr}"
            assert not await scraped.finds(query, **{variable: "nobody"}) or "$" not in query.expr


async def test_every_rule_is_understood_and_what_it_asks_about_is_there(scraped: Scraped) -> None:
    await eventually(lambda: no_longer_unhealthy(scraped.prometheus), within_s=30)
    wrong = []
    for query in rule_queries():
        for selector in selectors(query.expr):
            if scraped.lacks(selector.text):
                continue
            if not await scraped.prometheus.over(selector.text, seconds=120):
                wrong.append(f"{query.where}: nothing for {selector.text}")
    assert not wrong, "\n".join(wrong)


async def no_longer_unhealthy(prometheus: Prometheus) -> bool:
    return not await prometheus.unhealthy_rules()


async def test_alerts_begin_for_what_happened_and_fire_for_nothing_else(scraped: Scraped) -> None:
    """Some fire at once, some wait for a minute to be over; shares of so little traffic may wait as well."""
    at_once = {"LeewayModelRefusesUs", "LeewayDayCapReached"}
    in_a_minute = {"LeewayDeadLetters", "LeewayAccountDisabled"}
    absent = {"LeewayRabbitMQDown"} if scraped.lacks("rabbitmq_x") else set()
    absent |= {"LeewayPostgresDown"} if scraped.lacks("pg_up") else set()
    firing, pending = await scraped.prometheus.alerts()
    assert at_once <= firing
    assert in_a_minute <= firing | pending
    assert firing <= at_once | in_a_minute | absent


async def test_all_that_services_show_is_as_the_catalogue_says(scraped: Scraped) -> None:
    """After all that: no label has a value that is not listed, or that looks like somebody's number, id or words."""
    slugs = await scraped.prometheus.label_values("leeway_messages_judged_total", "business")
    seen = set()
    async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        for one in scraped.stack.every():
            if not one.is_running:
                continue
            shown = series_of((await client.get(f"http://{place(one)}/metrics")).text)
            assert not strays(shown, slugs=slugs, models=["directed", "test"]), one.name
            seen |= {series.metric for series in shown if series.metric in DECLARED and _has_counted(series)}
    labelled = {name for name, metric in DECLARED.items() if metric.labels}
    assert labelled - seen <= UNSEEN


def _has_counted(series: Series) -> bool:
    """What begins at 0 is there before anything happened; a gauge may well say 0."""
    return bool(series.labels) and (series.value > 0 or DECLARED[series.metric].kind == "gauge")
