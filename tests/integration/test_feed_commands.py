"""`leeway feeds list` names addresses that `leeway run console` answers."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from shared.secrets import new_key
from tests.integration.clinic_world import open_world
from tests.support.commands import environment, leeway, started
from tests.support.eventually import eventually
from tests.support.process import free_port

pytestmark = pytest.mark.postgres

KEY = new_key()


@pytest.fixture
async def env(database_url: str) -> AsyncIterator[dict[str, str]]:
    async with open_world(database_url):
        yield environment(LEEWAY_DATABASE_URL=database_url, LEEWAY_SECRET_KEY=KEY, LEEWAY_PORT="8123")


async def test_each_feed_is_named_with_its_address_and_that_it_is_a_secret(
    env: dict[str, str], tmp_path: Path
) -> None:
    ended = await leeway("feeds", "list", "ours", cwd=tmp_path, env=env)
    assert (ended.code, ended.err) == (0, "")
    first, address, *_, last = ended.out.splitlines()
    assert first.startswith("Dr. Ionescu (dentist-")
    assert address.strip().startswith("http://127.0.0.1:8123/feeds/ours/dentist-")
    assert "treat them like passwords" in last


async def test_they_are_named_as_the_outside_reaches_them_and_for_programs(
    env: dict[str, str], tmp_path: Path
) -> None:
    words = ("feeds", "list", "ours", "--json", "--base-url", "https://chat.example/leeway/")
    ended = await leeway(*words, cwd=tmp_path, env=env)
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert [one["what"] for one in found] == ["Dr. Ionescu", "Dr. Popescu", "Dr. Marin"]
    assert len({one["url"] for one in found}) == 3
    for one in found:
        assert one["url"].startswith(f"https://chat.example/leeway/feeds/ours/{one['name']}?token=")


@pytest.mark.parametrize(
    ("words", "without", "code", "says"),
    [
        (["nobody"], None, 1, "There is no business nobody."),
        (["ours"], "LEEWAY_SECRET_KEY", 1, "LEEWAY_SECRET_KEY is not set"),
        (["ours", "--base-url", "chat.example"], None, 2, "--base-url takes an address"),
        (["ours", "--base-url", "https://chat.example/?x=1"], None, 2, "--base-url takes an address"),
    ],
)
async def test_what_can_not_be_is_said(
    env: dict[str, str], tmp_path: Path, words: list[str], without: str | None, code: int, says: str
) -> None:
    env = {name: value for name, value in env.items() if name != without}
    ended = await leeway("feeds", "list", *words, cwd=tmp_path, env=env)
    assert (ended.code, ended.out) == (code, "")
    assert says in " ".join(ended.err.replace("│", " ").split())


@pytest.mark.rabbitmq
async def test_the_console_s_process_answers_at_that_address(
    env: dict[str, str], amqp_url: str, tmp_path: Path
) -> None:
    env = env | {"LEEWAY_AMQP_URL": amqp_url, "LEEWAY_PORT": str(free_port())}
    ended = await leeway("feeds", "list", "ours", "--json", cwd=tmp_path, env=env)
    url = json.loads(ended.out)[0]["url"]
    async with (
        started("run", "console", cwd=tmp_path, env=env, says="running") as process,
        httpx2.AsyncClient(
            base_url="{0.scheme}://{0.netloc}".format(urlsplit(url)), trust_env=False
        ) as client,
    ):

        async def ready() -> bool:
            return (await client.get("/readyz")).status_code == 200

        await eventually(ready)
        response = await client.get(url)
        assert (response.status_code, response.text[:15]) == (200, "BEGIN:VCALENDAR")
        assert (await client.get(url[:-1])).status_code == 404
        assert "token=" not in process.log.read_text()
        process.send(signal.SIGTERM)
