"""A model that answers from a script, for replay fixtures and tests. Deterministic, and free.

Answers in their simplest form, one dictionary each:

    {"text": "Good morning!"}
    {"calls": [{"name": "find_slots", "arguments": {"service": "cleaning"}}]}   arguments may be raw text, too
    {"finish": "length"}          with or without a text: length, filter, refusal
    {"failure": "rate"}           any FailureKind
    {"usage": {"input": 100, "output": 20}} or {"usage": null} beside any of them; null: the provider told none
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec

from shared.llm.calls import unique_calls
from shared.llm.port import UNTOLD, Answer, FailureKind, Finish, ModelFailure, Request, ToolCall, Usage

PROVIDER = "scripted"
MODEL = "scripted"

Answering = Callable[[Request], Answer | ModelFailure]

_KEYS = frozenset({"text", "calls", "finish", "failure", "usage", "model"})


class ScriptedModel:
    """A model that answers what `answering` gives for a request: an answer, or a failure to raise."""

    def __init__(self, answering: Answering, *, name: str = MODEL) -> None:
        self._answering = answering
        self._name = name

    @property
    def provider(self) -> str:
        return PROVIDER

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        answer = self._answering(request)
        if isinstance(answer, ModelFailure):
            raise answer
        calls = unique_calls(answer.calls, request.messages)
        return replace(answer, calls=calls, model=answer.model or self._name)

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return Decimal(0) if usage.told else None

    async def close(self) -> None:
        """Nothing is held."""


def in_order(script: Iterable[Mapping[str, Any]]) -> Answering:
    """The script's answers one after the other, whoever asks. Raises ValueError for one that is in no known form.

    A request beyond the end is refused, so that a test sees one call too many.
    """
    left = iter([read(item) for item in script])
    return lambda _: next(left, None) or _at_its_end()


def by_conversation(
    scripts: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    key: Callable[[Request], str] = lambda request: request.customer,
) -> Answering:
    """A script for each conversation, told apart by `key`: each goes on where it was, however they interleave."""
    each = {name: in_order(script) for name, script in scripts.items()}
    none: Answering = in_order(())
    return lambda request: each.get(key(request), none)(request)


def read(item: Mapping[str, Any]) -> Answer | ModelFailure:
    """An answer or a failure from its simplest form. Raises ValueError for anything else."""
    if not item or not _KEYS.issuperset(item):
        raise ValueError(f"no scripted answer: {sorted(map(str, item))}; known are {sorted(_KEYS)}")
    usage = _usage(item["usage"]) if "usage" in item else Usage()
    if "failure" in item:
        kind = FailureKind(item["failure"])
        return ModelFailure(kind, "scripted", usage=usage if "usage" in item else None)
    calls = tuple(_call(call) for call in item.get("calls", ()))
    finish = Finish(item["finish"]) if "finish" in item else Finish.TOOLS if calls else Finish.END
    if finish is not Finish.TOOLS and calls:
        raise ValueError(f"an answer that ends by {finish} has no calls")
    return Answer(
        text=item.get("text"), calls=calls, finish=finish, usage=usage, model=str(item.get("model", ""))
    )


def _call(call: Mapping[str, Any]) -> ToolCall:
    arguments = call.get("arguments", {})
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return ToolCall(id=str(call.get("id", "")), name=call["name"], arguments=text)


def _usage(told: Mapping[str, int] | None) -> Usage:
    return UNTOLD if told is None else msgspec.convert(told, Usage)


def _at_its_end() -> ModelFailure:
    return ModelFailure(FailureKind.REFUSED, "the script has no more answers")
