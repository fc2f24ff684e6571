"""The agent as the bench runs it: the product's wiring with a model that costs nothing and takes as long as it is told.

`python -m tests.bench.bench_agent`; LEEWAY_BENCH_MODEL_S is the time of an answer in seconds.
"""

import asyncio
from decimal import Decimal

from pydantic_settings import BaseSettings, SettingsConfigDict
from starlette.types import ASGIApp

from services.agent.wiring import wire
from shared.llm.port import Answer, Request, Usage
from shared.packs import load_packs
from shared.work.process import main
from shared.work.service import Parts, Service


class BenchSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="LEEWAY_BENCH_")

    model_s: float = 0.0


class FixedModel:
    """Says one sentence, by itself, after `latency_s`."""

    provider = "mock"
    name = "fixed"

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        usage = Usage(input=len(request.system) // 4, output=20)
        return Answer(text="Thank you for your message, we have noted it.", usage=usage, model=self.name)

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return Decimal(0)

    async def close(self) -> None:
        return None


async def wired(parts: Parts) -> tuple[Service, ASGIApp | None]:
    model = FixedModel(BenchSettings().model_s)
    return await wire(parts, model=model, packs=load_packs()), None


if __name__ == "__main__":
    main("agent", wired)
