"""Who answers for the model while scripts are played: a real model or the mock, a fixture, a step, or nobody in time."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from shared.llm.calls import unique_calls
from shared.llm.port import Answer, FailureKind, Model, ModelFailure, Request, Usage
from shared.llm.scripted import read

REPLAY: Final = "replay"


class NoModel:
    """Stands where no model may be asked: its answer is that there is none."""

    provider = REPLAY
    name = REPLAY

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        raise ModelFailure(FailureKind.REFUSED, "the fixture has no answer for this")

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return Decimal(0)

    async def close(self) -> None:
        """Nothing is held."""


class PlayedModel:
    """A model whose next answers a script may give instead. It outlives the workers that ask it: `close` is the owner's."""

    def __init__(self, source: Model) -> None:
        self._source = source
        self._answers: deque[Mapping[str, Any]] | None = None
        self._hangs: asyncio.Event | None = None
        self._needless = 0

    @property
    def provider(self) -> str:
        return self._source.provider

    @property
    def name(self) -> str:
        return self._source.name

    def give(self, answers: Sequence[Mapping[str, Any]] | None) -> None:
        """The answers of the next step; None: the source's own."""
        self._answers = None if answers is None else deque(answers)
        self._needless = 0

    def told(self) -> str | None:
        """What is wrong with how the given answers were used, if anything is."""
        if self._needless:
            return f"the model was asked {self._needless} times more than there are answers"
        left = len(self._answers or ())
        return f"{left} of the answers were not asked for" if left else None

    def hang(self) -> asyncio.Event:
        """The next call is answered never; the event is set when it is made."""
        self._hangs = asyncio.Event()
        return self._hangs

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        if self._hangs is not None:
            hung, self._hangs = self._hangs, None
            hung.set()
            await asyncio.get_running_loop().create_future()
        if self._answers is None:
            return await self._source.complete(request, timeout_s=timeout_s)
        if not self._answers:
            self._needless += 1
            raise ModelFailure(FailureKind.REFUSED, "the script has no more answers")
        answer = read(self._answers.popleft())
        if isinstance(answer, ModelFailure):
            raise answer
        calls = unique_calls(answer.calls, request.messages)
        return Answer(
            text=answer.text,
            calls=calls,
            finish=answer.finish,
            usage=answer.usage,
            model=answer.model or self.name,
        )

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return self._source.price(usage, model=model)

    async def close(self) -> None:
        """The source goes on: another worker asks it."""
