"""The agent as a process for tests: the real wiring, with a model that a customer's words direct.

`model: {…}` is its answer, in the forms of shared/llm/scripted.py; `raise` raises; `die once` kills the first process that
hears it (LEEWAY_TEST_DIED is the file that says so); anything else is answered by the packs' rules. Every token costs.
"""

import os
import signal
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import msgspec
from starlette.types import ASGIApp

from services.agent.wiring import wire
from shared.llm.mock import MockModel
from shared.llm.port import Answer, Request, Usage, UserText
from shared.llm.scripted import ScriptedModel, in_order
from shared.packs import load_packs
from shared.work.process import main
from shared.work.service import Parts, Service

PREFIX = "model: "
USAGE = Usage(input=100, cached=40, output=30, reasoning=10)


class DirectedModel:
    provider = "test"
    name = "directed"

    def __init__(self, usual: MockModel) -> None:
        self._usual = usual

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        said = _directed_by(request)
        if said.startswith("raise"):
            raise RuntimeError("told to")
        if said.startswith("die once"):
            self._die_once()
        if said.startswith(PREFIX):
            directed = ScriptedModel(in_order([msgspec.json.decode(said.removeprefix(PREFIX))]))
            answer = await directed.complete(request, timeout_s=timeout_s)
        else:
            answer = await self._usual.complete(request, timeout_s=timeout_s)
        return replace(answer, usage=USAGE, model=self.name)

    def _die_once(self) -> None:
        try:
            Path(os.environ["LEEWAY_TEST_DIED"]).touch(exist_ok=False)  # noqa: TID251  of the test alone
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return Decimal(usage.input + usage.output) / 1_000_000 if usage.told else None

    async def close(self) -> None:
        """Nothing is held."""


def _directed_by(request: Request) -> str:
    """The customer's newest words that direct; a result of a tool is answered by the rules."""
    if not isinstance(request.messages[-1], UserText):
        return ""
    said = [message.text for message in request.messages if isinstance(message, UserText)]
    return next((text for text in reversed(said) if text.startswith((PREFIX, "raise", "die once"))), "")


async def wired(parts: Parts) -> tuple[Service, ASGIApp | None]:
    packs = load_packs()
    return await wire(parts, model=DirectedModel(MockModel(packs)), packs=packs), None


if __name__ == "__main__":
    main("agent", wired)
