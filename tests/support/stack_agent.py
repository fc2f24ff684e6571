"""The agent as a process for tests: the real wiring, with a model that repeats what it was told and can be told to fail.

`die …` kills the process, `raise …` raises, `slow N …` takes N seconds. LEEWAY_TEST_LATENCY_S is every answer's.
"""

import asyncio
import os
import re
import signal
from decimal import Decimal

from starlette.types import ASGIApp

from services.agent.wiring import wire
from shared.llm.port import Answer, AssistantText, Request, Usage, UserText
from shared.packs import load_packs
from shared.work.process import main
from shared.work.service import Parts, Service


class EchoModel:
    """Answers `heard: ` and the customer's texts since our last words, between bars."""

    provider = "test"
    name = "echo"

    def __init__(self, latency_s: float = 0.0) -> None:
        self._latency_s = latency_s

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        said: list[str] = []
        for message in request.messages:
            if isinstance(message, AssistantText):
                said = []
            elif isinstance(message, UserText):
                said.append(message.text)
        whole = " | ".join(said)
        await self._obey(whole)
        return Answer(text=f"heard: {whole}", usage=Usage(input=10, output=5), model=self.name)

    async def _obey(self, said: str) -> None:
        if said.startswith("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        if said.startswith("raise"):
            raise RuntimeError("told to")
        slow = re.search(r"slow (\d+(?:\.\d+)?)", said)
        await asyncio.sleep(float(slow[1]) if slow else self._latency_s)

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return Decimal(0)

    async def close(self) -> None:
        """Nothing is held."""


async def wired(parts: Parts) -> tuple[Service, ASGIApp | None]:
    latency_s = float(os.environ.get("LEEWAY_TEST_LATENCY_S", "0"))  # noqa: TID251  of the test alone
    return await wire(parts, model=EchoModel(latency_s), packs=load_packs()), None


if __name__ == "__main__":
    main("agent", wired)
