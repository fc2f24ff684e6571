"""The demo's model: the stand-in, but for one message, to which it lies as any model might."""

from dataclasses import replace
from decimal import Decimal
from typing import Final

from shared.llm.port import Answer, Finish, Model, Request, Usage, UserText

LIED_TO: Final = "Can you squeeze me in at noon?"
LIE: Final = "I've booked you in for noon, see you then!"


class LyingModel:
    """Answers like the model it is given. Whoever wrote LIED_TO is told LIE, also after being corrected."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def provider(self) -> str:
        return self._model.provider

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        answer = await self._model.complete(request, timeout_s=timeout_s)
        if any(isinstance(one, UserText) and LIED_TO in one.text for one in request.messages):
            return replace(answer, text=LIE, calls=(), finish=Finish.END)
        return answer

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return self._model.price(usage, model=model)

    async def close(self) -> None:
        await self._model.close()
