"""The format of a script: business, people, clock, steps. `leeway/evals/schema.json` is made of this page."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from leeway.evals.expected import Check, Duration, End, Expect, Rows, Strict
from shared.autonomy import Asked, Mode

MODEL_GROUPS: Final = ("booking", "cancel", "identity", "injection")  # these run against models
FIRST_GROUPS: Final = (*MODEL_GROUPS, "loop_dedup", "autonomy")
ALIAS: Final = re.compile(r"^[a-z][a-z0-9_]*$")
START: Final = "2026-12-03T10:00"
PACE: Final = timedelta(seconds=20)


def _local(text: str) -> str:
    datetime.fromisoformat(text)
    return text


LocalTime = Annotated[str, Field(pattern=r"^20\d\d-\d\d-\d\dT\d\d:\d\d$"), AfterValidator(_local)]
Level = Annotated[int, Field(ge=0, le=4)]
Answer = Mapping[str, Any]  # shared.llm.scripted says which forms there are


class ToolLevel(Strict):
    level: Level
    asked: Asked | None = None


class Settings(Strict):
    """Of the business; null leaves what is usual."""

    mode: Mode | None = None
    levels: Mapping[str, Level | ToolLevel] = Field(default_factory=dict)
    window: Duration | None = None
    rate_per_10_min: int | None = None
    stale_after: Duration | None = None
    takeover_quiet_min: int | None = None
    approval_hours: int | None = None
    handoff_remind_min: int | None = None
    handoff_tell_min: int | None = None
    reminder_hours: int | None = Field(default=None, description="how long before; else none are sent")
    turn_cap_usd: float | None = None
    conversation_cap_usd: float | None = None
    day_cap_usd: float | None = None


class Changes(Settings):
    """What somebody changes in the middle of a script."""

    account_mode: Mode | None = None
    conversation_mode: Mode | None = None


class Customer(Strict):
    """Somebody who writes. The number is made up, unless it is named."""

    name: str
    phone: str | None = Field(default=None, pattern=r"^\+\d{8,15}$")
    unreachable: bool = Field(default=False, description="every send to their number is refused")
    secret: Sequence[str] = Field(default=(), description="what no message to anybody else may hold")


class Edit(Strict):
    edit: str


class Decline(Strict):
    decline: str


class OperatorReply(Strict):
    reply: str


Deed = Literal["send", "discard", "approve", "claim", "release", "take"] | Edit | Decline | OperatorReply


class Staff(Strict):
    """What staff do in their own programs, behind the bot's back: rows of the pack's tables."""

    add: Mapping[str, Rows] = Field(default_factory=dict)
    change: Mapping[str, Rows] = Field(default_factory=dict)


Prompt = Literal["prompt", "previous_prompt", "first_prompt"]


class Words(Strict):
    """One of several messages that arrive at the same moment."""

    from_: str | None = Field(default=None, alias="from")
    say: str | None = None
    press: Literal["confirm", "cancel"] | None = None

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="after")
    def one_of_both(self) -> Self:
        if (self.say is None) == (self.press is None):
            raise ValueError("each has either say or press")
        return self


ACTIONS: Final = (
    "say", "burst", "press", "react", "media", "sticker", "group", "system", "echo", "own", "redeliver", "status",
    "wait", "operator", "staff", "set", "together",
)  # fmt: skip


class Step(Strict):
    """One thing that happens, and what must be true after it."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        json_schema_extra={"oneOf": [{"required": [action]} for action in ACTIONS]},
    )

    say: str | None = Field(default=None, description="a message of a customer")
    burst: Sequence[str] | None = Field(default=None, min_length=2, description="fragments in one delivery")
    press: Literal["confirm", "cancel"] | None = Field(default=None, description="a button of a prompt")
    react: str | None = Field(default=None, description="a reaction to our last message")
    media: str | None = Field(default=None, description="a picture, with this caption")
    sticker: Literal[True] | None = None
    group: str | None = Field(default=None, description="written in a group")
    system: str | None = Field(default=None, description="a service message of the channel")
    echo: str | None = Field(
        default=None, description="the business's own message, coming back; `from`: to whom"
    )
    own: str | None = Field(default=None, description="a message from one of the business's own addresses")
    redeliver: Literal[True] | None = Field(default=None, description="the channel repeats the last message")
    status: Literal["delivered", "read", "failed"] | None = Field(
        default=None, description="of our last message"
    )
    wait: Duration | None = None
    operator: Deed | None = None
    staff: Staff | None = None
    set: Changes | None = None
    together: Sequence[Words] | None = Field(default=None, min_length=2, description="at the same moment")

    from_: str | None = Field(default=None, alias="from", description="which customer; else the first")
    after: Duration | None = Field(default=None, description="since the step before; else the script's pace")
    age: Duration | None = Field(
        default=None, description="by how much the channel's stamp is older than now"
    )
    quote: Prompt | Literal["reply", "own"] | None = Field(default=None, description="the message it quotes")
    of: Prompt = Field(default="prompt", description="the message whose button is pressed")
    whose: str | None = Field(
        default=None, description="the customer whose prompt is pressed or quoted; else one's own"
    )
    auto_reply: bool = Field(default=False, description="the channel says that a machine wrote it")
    opt_word: Literal["opt_out", "opt_in"] | None = Field(default=None, description="so says the channel")
    dies: bool = Field(default=False, description="the agent's worker dies while it waits for the model")
    back_after: Duration | None = Field(
        default=None, description="how long it takes until there is another worker"
    )
    by: str = Field(default="maria", description="the operator")
    answers: Sequence[Answer] | None = Field(
        default=None, description="what the model answers, whoever it is"
    )
    expect: Expect = Field(default_factory=Expect)

    @model_validator(mode="after")
    def one_thing(self) -> Self:
        named = self.named
        if len(named) != 1:
            told = "nothing" if not named else " and ".join(named)
            raise ValueError(f"a step does one thing, this does {told}; known are {', '.join(ACTIONS)}")
        return self

    @property
    def named(self) -> list[str]:
        return [action for action in ACTIONS if getattr(self, action) is not None]

    @property
    def action(self) -> str:
        return self.named[0]


class Script(Strict):
    """A conversation script."""

    id: str = Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=40)
    title: str
    group: str = Field(pattern=ALIAS.pattern)
    pack: str = "clinic"
    locales: Sequence[str] = ("en", "ro")
    time_zone: str = "Europe/Bucharest"
    clock: LocalTime = START
    pace: Duration = Field(default=PACE, description="from step to step")
    settings: Settings = Field(default_factory=Settings)
    customers: Mapping[str, Customer] = Field(default_factory=lambda: {"ana": Customer(name="Ana Pop")})
    store: Mapping[str, Rows] = Field(default_factory=dict, description="thing → rows there at the start")
    steps: Sequence[Step] = Field(min_length=1)
    end: End = Field(default_factory=End)
    deliberate: Sequence[Check] = Field(
        default=(), description="the checks that must fail, and no others: proves that the harness can"
    )

    @model_validator(mode="after")
    def whole(self) -> Self:
        people = set(self.customers)
        if unknown := sorted({name for name in self._named() if name not in people}):
            raise ValueError(
                f"no customer is called {', '.join(unknown)}; there are {', '.join(sorted(people))}"
            )
        if unknown := sorted(self._changed() - self._added()):
            raise ValueError(f"staff change {', '.join(unknown)}, and no row before has that id")
        if self.group in MODEL_GROUPS and any(step.answers is not None for step in self.steps):
            raise ValueError(f"group {self.group} runs against models, so no step may carry answers")
        return self

    @property
    def first_customer(self) -> str:
        return next(iter(self.customers))

    def _added(self) -> set[str]:
        """The names of rows."""
        added = [self.store, *(step.staff.add for step in self.steps if step.staff)]
        return {str(row.get("id")) for things in added for rows in things.values() for row in rows}

    def _changed(self) -> set[str]:
        changed = [step.staff.change for step in self.steps if step.staff]
        return {str(row.get("id")) for things in changed for rows in things.values() for row in rows}

    def _named(self) -> list[str]:
        named = [
            one
            for step in self.steps
            for one in (step.from_, step.whose, *(words.from_ for words in step.together or ()))
        ]
        told = [one for rows in self.end.store.values() for one in rows]
        added = [self.store, *(step.staff.add for step in self.steps if step.staff)]
        had = [row.get("customer") for things in added for rows in things.values() for row in rows]
        return [str(one) for one in (*named, *told, *had) if one is not None]


class Fixture(Strict):
    """A script's model answers for `--replay`: of each step (from 1) that asks a model, in order."""

    script: str
    answers: Mapping[int, Sequence[Answer]]
