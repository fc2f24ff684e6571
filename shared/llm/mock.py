"""The mock model in process: the packs' own rules behind the port, without network, keys or cost."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import msgspec

from shared.llm.calls import unique_calls
from shared.llm.port import (
    Answer,
    AssistantCalls,
    FailureKind,
    Finish,
    ModelFailure,
    Request,
    ToolResult,
    Usage,
    UserMedia,
)
from shared.packs import Pack

PROVIDER = "mock"
MODEL = "mock-rules"
MARKER = b"mock-words:"  # in a recording or a picture: the mock takes what follows for its words
CHARS_PER_TOKEN = 4  # the usual estimate; the same text always counts the same


class MockModel:
    """Answers by the rules of the pack whose tools the request carries. Deterministic, and free."""

    def __init__(self, packs: Mapping[str, Pack], *, latency_s: float = 0.0) -> None:
        self._packs = dict(packs)
        self._latency_s = latency_s
        self._owners: dict[str, list[str]] = {}
        for name in sorted(packs):
            for tool in packs[name].tools:
                self._owners.setdefault(tool.name, []).append(name)

    @property
    def provider(self) -> str:
        return PROVIDER

    @property
    def name(self) -> str:
        return MODEL

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        """One answer by rule, after `latency_s`. Raises ModelFailure if no pack fits, or the time is up."""
        if self._latency_s > 0:
            await asyncio.sleep(min(self._latency_s, timeout_s))
            if self._latency_s > timeout_s:
                raise ModelFailure(FailureKind.TIMEOUT, f"no answer within {timeout_s:g} s", model=MODEL)
        last = request.messages[-1] if request.messages else None
        if isinstance(last, UserMedia):
            answer = Answer(text=words_in(last.content))
        else:
            answer = self._pack_of(request).mock_answer(request)
        calls = unique_calls(answer.calls, request.messages)
        return replace(
            answer,
            calls=calls,
            finish=Finish.TOOLS if calls else answer.finish,
            usage=count(request, answer),
            model=MODEL,
        )

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return Decimal(0)

    async def close(self) -> None:
        """Nothing is held."""

    def _pack_of(self, request: Request) -> Pack:
        """The pack with the most of the request's tools; the only one there is when none has any."""
        owned: Counter[str] = Counter()
        for tool in request.tools:
            owned.update(self._owners.get(tool.name, ()))
        if owned:
            return self._packs[min(owned, key=lambda name: (-owned[name], name))]
        if len(self._packs) == 1:
            return next(iter(self._packs.values()))
        raise ModelFailure(FailureKind.REFUSED, "no installed pack has the request's tools", model=MODEL)


def words_in(content: bytes) -> str:
    """What the mock hears or sees: the text behind the marker; nothing without one."""
    return content.partition(MARKER)[2].decode(errors="replace")


def count(request: Request, answer: Answer) -> Usage:
    """Tokens of a call by the rule of four characters, rounded up. Counts what a provider would be sent."""
    read = len(request.system)
    for message in request.messages:
        if isinstance(message, ToolResult):
            read += len(message.content)
            continue
        read += len(message.text or "")
        if isinstance(message, AssistantCalls):
            read += sum(len(call.name) + len(call.arguments) for call in message.calls)
    for tool in request.tools:
        schema = msgspec.json.encode(tool.parameters, enc_hook=dict)
        read += len(tool.name) + len(tool.description) + len(schema)
    written = len(answer.text or "") + sum(len(call.name) + len(call.arguments) for call in answer.calls)
    return Usage(input=-(-read // CHARS_PER_TOKEN), output=max(1, -(-written // CHARS_PER_TOKEN)))
