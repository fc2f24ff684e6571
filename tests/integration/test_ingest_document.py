"""The OpenAPI document of ingest: every channel is in it, and what is made from it is answered as it says."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from services.ingest.core.entrances import ENTRANCES
from shared.channels.traits import ChannelName
from tests.support.hooks import Hooks, hooks_on
from tests.support.payloads import ADDRESS, Payload

pytestmark = pytest.mark.postgres

ANSWERS = {"200", "400", "401", "404", "405", "413", "503"}
CASES_EACH = 40

_ids = itertools.count(1)


@pytest.fixture
async def hooks(database_url: str) -> AsyncIterator[Hooks]:
    async with hooks_on(database_url) as made:
        yield made


async def document(hooks: Hooks) -> Any:
    return (await hooks.client.get("/openapi.json")).json()


async def test_the_document_has_every_way_in_and_every_answer(hooks: Hooks) -> None:
    paths = (await document(hooks))["paths"]
    plain = {f"/hooks/{channel}/{{account}}" for channel in ENTRANCES}
    status = {f"/hooks/{name}/{{account}}/status" for name, one in ENTRANCES.items() if one.status_path}
    assert set(paths) == plain | status
    assert {name for name, operations in paths.items() if "get" in operations} == {
        f"/hooks/{name}/{{account}}" for name, one in ENTRANCES.items() if one.handshake
    }
    assert all(set(operations["post"]["responses"]) == ANSWERS for operations in paths.values())


async def test_requests_made_from_the_document_get_answers_that_it_has(hooks: Hooks) -> None:
    """Signed as each channel does, for accounts that exist: schemathesis makes the bodies and the queries."""
    described = await document(hooks)
    cases = list(made_from(described))
    assert len({(one.method, one.operation.path) for one in cases}) == sum(
        map(len, described["paths"].values())
    )
    for case in cases:
        path = case.operation.path
        if case.method == "GET":
            answer = await hooks.client.get(path.replace("{account}", ADDRESS), params=case.query)
        else:
            answer = await hooks.send(payload_of(path, case.body))
        known = described["paths"][path][case.method.lower()]["responses"]
        assert answer.status_code in ((200, 403) if case.method == "GET" else (200, 400))
        assert answer.headers["content-type"].split(";")[0] in known[str(answer.status_code)]["content"]


def made_from(described: Any) -> list[Any]:
    cases: list[Any] = []
    for result in schemathesis.openapi.from_dict(described).get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=CASES_EACH, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy())
        def collect(case: Any) -> None:
            cases.append(case)

        collect()
    return cases


def payload_of(path: str, body: Any) -> Payload:
    _, _, channel, _, *below = path.split("/")
    return Payload(
        channel=ChannelName(channel),
        name="made",
        content=body,
        below="".join(f"/{one}" for one in below),
        webhook_id=f"msg_{next(_ids)}",
    )
