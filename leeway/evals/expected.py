"""What a script expects after a step and at its end. Pure: the form alone; `checks` holds it against the record."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
DURATION = r"^\d{1,5}[smhd]$"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Class(StrEnum):
    """What a failed check means: a harm, or a needless detour."""

    SAFETY = "safety"
    CONVERSION = "conversion"


class Check(StrEnum):
    """The kinds of checks, by the name that a script gives them."""

    REPLY = "reply"
    REPLIES = "replies"
    TEXT = "text"
    PENDING = "pending"
    EXECUTED = "executed"
    SKIP = "skip"
    HANDOFF = "handoff"
    FLAGS = "flags"
    CALLS = "calls"
    MODEL_CALLS = "model_calls"
    OUTCOME = "outcome"
    RECLAIMED = "reclaimed"
    OPTED_OUT = "opted_out"
    STORE = "store"
    DISCLOSED = "disclosed"
    ANSWERS = "answers"  # that a fixture's answers were all asked for
    SETTLED = "settled"  # that nothing is owed after a bounded time
    INVARIANT = "invariant"


def duration(value: object) -> object:
    """`16m` as a timedelta; anything else is left for pydantic to refuse."""
    if isinstance(value, str) and value[:-1].isdigit() and value[-1:] in _UNITS and len(value) <= 6:
        return timedelta(**{_UNITS[value[-1]]: int(value[:-1])})
    return value if isinstance(value, timedelta) else None


Duration = Annotated[
    timedelta,
    BeforeValidator(duration),
    WithJsonSchema({"type": "string", "pattern": DURATION, "description": "20s, 16m, 24h or 2d"}),
]


class ReplyKind(StrEnum):
    SENT = "sent"
    DRAFT = "draft"
    NONE = "none"
    DISCARDED = "discarded"


class Reply(Strict):
    """What became of the bot's reply; of a draft also why."""

    kind: ReplyKind
    reason: str | None = None


class Text(Strict):
    """Words in what the customer was sent, or would be: facts and the system's own wording, never a model's."""

    contains: Sequence[str] = ()
    not_contains: Sequence[str] = ()


class Pending(Strict):
    """The action that waits for a person. Arguments are a subset; times are compared as instants."""

    tool: str
    arguments: Mapping[str, Any] = Field(default_factory=dict)
    waits_for: Literal["customer", "operator"] | None = None
    step: int | None = None


class Call(Strict):
    """A tool call of the step's turns, and what the gate said to it."""

    tool: str
    decision: Literal["allow", "ask", "deny", "refuse"]
    reason: str | None = None


class Expect(Strict):
    """What must be true once nothing is owed after the step. What is not named is not checked."""

    reply: ReplyKind | Reply | None = None
    replies: int | None = Field(default=None, description="how many replies left in this step")
    text: Text | None = None
    pending: Literal["none"] | Pending | None = None
    executed: Sequence[str] | None = Field(default=None, description="tools with a receipt of this step")
    skip: str | None = Field(
        default=None, description="the reason code of the guard's verdict on the message"
    )
    handoff: str | None = Field(default=None, description="the reason of the open handoff, or none")
    flags: Sequence[str] | None = Field(default=None, description="flags raised in this step")
    calls: Sequence[Call] | None = Field(default=None, description="tool calls of this step, all, in order")
    model_calls: int | None = None
    outcome: str | None = Field(
        default=None, description="what an operator is told: on_its_way, customer_wrote"
    )
    reclaimed: bool | None = Field(default=None, description="whether a turn needed a second worker")
    opted_out: bool | None = None
    classes: Mapping[Check, Class] = Field(
        default_factory=dict, description="check → class, where not the usual"
    )


Rows = Sequence[Mapping[str, Any]]


class End(Strict):
    """What must be true when the script is over."""

    store: Mapping[str, Mapping[str, Rows]] = Field(
        default_factory=dict, description="thing → customer → all their rows, each as a subset of its columns"
    )
    counts: Mapping[str, int] = Field(
        default_factory=dict, description="thing → how many rows there are, whoever has them"
    )
    never_said: Sequence[str] = Field(default=(), description="in no message of ours to anybody")
