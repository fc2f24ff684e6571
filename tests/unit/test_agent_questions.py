"""What a turn's question is made of: a page that is looked up seldom, and never one of yesterday."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from services.agent.questions import Questions
from shared.ids import BusinessId
from tests.support.factories import NOON, SetClock, turn
from tests.support.kiosk import Diary, KioskPack


class Pages:
    """As much of the record of turns as a question needs."""

    @asynccontextmanager
    async def tenant(self, business: BusinessId, pack: str) -> AsyncIterator[Any]:
        yield None

    async def keep_page(self, business: BusinessId, digest: bytes, page: str) -> None:
        """Kept."""


async def test_a_new_day_has_a_new_page_at_once() -> None:
    pack, clock = KioskPack(Diary()), SetClock(NOON)
    questions = Questions(turns=Pages(), clock=clock)  # type: ignore[arg-type]  # two methods are enough
    await questions.of(turn(), pack)
    await questions.of(turn(now=NOON + timedelta(hours=1)), pack)
    assert pack.pages == 1
    await questions.of(turn(now=NOON + timedelta(days=1)), pack)
    assert pack.pages == 2
