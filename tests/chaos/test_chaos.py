"""A slice of the chaos suite: the rest is `make chaos-short` and `make chaos`."""

import pytest

from tests.chaos.suite import Plan, chaos
from tests.support.desk import Desk
from tests.support.servers import Servers

pytestmark = [
    pytest.mark.stack,
    pytest.mark.postgres,
    pytest.mark.rabbitmq,
    pytest.mark.xdist_group("own-servers"),
]


async def test_everything_breaks_and_every_message_is_answered_once(own_servers: Servers, desk: Desk) -> None:
    plan = Plan(seed=20_261_203, messages=240, conversations=80, seconds=30, pause_s=2.0, settle_s=60)
    report = await chaos(plan, own_servers)
    desk.note(str(report))
    assert not report.problems, str(report)
