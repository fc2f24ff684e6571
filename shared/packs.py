"""What a domain pack is: its tools, wording, prompt and mock rules. The pipeline knows packs only by this page.

A pack is found by entry point (group ``leeway.packs``), so it can live in a package of its own. Its tools get customer
and business from the turn; nothing the model or the customer says is an identity.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from shared.autonomy import DEFAULT_LEVEL, Asked, Risk
from shared.errors import Misconfigured
from shared.ids import BusinessId, CustomerId
from shared.llm.port import Answer, Request

Row = Mapping[str, Any]

HAND_OVER = "hand_over"  # built in, and always allowed
RESERVED = frozenset({HAND_OVER})
TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Sql(Protocol):
    """A connection as the tenant role: it sees the turn's business and nothing else. One transaction, 3 s a statement."""

    async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        """The rows of a named query (``pack.name``, from the pack's ``.sql`` files)."""
        ...

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """Undo what failed inside, keep the rest. A constraint's refusal leaves it as shared.errors.ConstraintRefused."""
        ...


class NoSql:
    """Stands in a context until a transaction is open. Asking it anything is our mistake."""

    async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        raise AssertionError(f"{query} was asked outside a transaction")

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        raise AssertionError("a savepoint outside a transaction")


NO_SQL: Sql = NoSql()
NOBODY = CustomerId(UUID(int=0))  # for questions to a pack that are about no customer


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Whom and what a call is for. Made by the turn, never from the chat."""

    sql: Sql
    business: BusinessId
    customer: CustomerId
    now: datetime  # business time, zone UTC
    zone: ZoneInfo
    locale: str
    said: str = ""  # the customer's own words in this turn: a check may hold the arguments against them


@dataclass(frozen=True, slots=True, kw_only=True)
class Established:
    """A read's result, for the model. Plain JSON values."""

    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A checked action that could run now: arguments as they will be executed, and every value its prompt shows.

    The digest that a confirmation stands for covers both.
    """

    arguments: Mapping[str, Any]
    shown: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a call can't run, as a stable code, and what helps: alternatives, the allowed values."""

    code: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, Any]:
        """The refused call's result, for the model."""
        return {"error": self.code, **self.detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An executed action; stored in the receipt and worded for the customer."""

    result: Mapping[str, Any]


class ToolKind(StrEnum):
    READ = "read"
    ACTION = "action"


Read = Callable[[ToolContext, Any], Awaitable[Established | Refusal]]
Check = Callable[[ToolContext, Any], Awaitable[Proposal | Refusal]]
Execute = Callable[[ToolContext, Proposal, str], Awaitable[Done | Refusal]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """An operation the agent may request. `read` for reads; `check`, `execute` and the wording for actions."""

    name: str
    description: str  # for the model
    arguments: type[BaseModel]  # strict, unknown fields refused
    kind: ToolKind
    risk: Risk | None
    wrong_call_costs: str  # one line that says what a wrong call costs; a test refuses a class without it
    who_may: str = "every customer, for themselves"  # one line, for people
    needs: tuple[str, ...] = ()  # tools whose results its arguments come from
    example: str = ""  # of an action: words of a customer that lack nothing, for the prompt
    floor: int = 0  # confirmations needed at every level
    level: int = DEFAULT_LEVEL
    asked: Asked = Asked.CUSTOMER  # who, where the level asks
    # Its effect is not in this database: `execute` gets no SQL, is called outside a transaction and only once for a key. When
    # nobody can tell whether it went through, it is a person's task and never repeated.
    outside: bool = False
    read: Read | None = None
    check: Check | None = None  # the dry run: at the proposal, and again at execution
    execute: Execute | None = None  # idempotent by the key it is given
    # (shown, locale) → the question, without how to answer
    word_prompt: Callable[[Mapping[str, Any], str], str] | None = None
    # (result, locale) → what was done
    word_done: Callable[[Mapping[str, Any], str], str] | None = None
    # (refusal, locale) → why not, and what else is possible
    word_refusal: Callable[[Refusal, str], str] | None = None


class Pack(Protocol):
    """A domain: everything the pipeline asks of it."""

    @property
    def name(self) -> str: ...

    @property
    def tools(self) -> Sequence[Tool]: ...

    @property
    def queries(self) -> Sequence[Path]:
        """The pack's ``.sql`` files of named queries."""
        ...

    @property
    def migrations(self) -> Path:
        """The folder of the pack's numbered SQL migrations, in a schema of the pack's name."""
        ...

    async def prompt_facts(self, context: ToolContext) -> str:
        """What the system prompt says of this business: names, hours, the pack's own advice. Stable text first."""
        ...

    def mock_answer(self, request: Request) -> Answer:
        """The rule-based mock model for this domain: deterministic, EN and RO."""
        ...

    async def seed(self, sql: Sql, business: BusinessId, *, now: datetime) -> None:
        """The demo business's own data; again is a no-op."""
        ...


@runtime_checkable
class KeepsHours(Protocol):
    """A pack that knows when people are there. Without it a handoff's clock never stands still."""

    async def open_spans(
        self, context: ToolContext, begins: datetime, ends: datetime
    ) -> Sequence[tuple[datetime, datetime]]:
        """The stretches between two instants in which the business is open, in order and apart."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReminderWords:
    """A reminder in one language, with the titles of its two buttons and the answer to the first."""

    text: str
    keep: str
    cancel: str
    thanks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """Something that a customer should be reminded of now. One reminder per key, for ever.

    Its second button asks for `tool` with `arguments`, by way of the gate like any other request.
    """

    key: UUID
    customer: CustomerId
    tool: str
    arguments: Mapping[str, Any]
    word: Callable[[str], ReminderWords]  # by locale


@runtime_checkable
class Reminds(Protocol):
    """A pack that reminds customers of what they have."""

    async def reminders(self, context: ToolContext, *, ahead: timedelta) -> Sequence[Reminder]:
        """What begins within `ahead` from now and is worth a reminder. `context.customer` is NOBODY."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A document for staff's own programs, a calendar for example."""

    media_type: str
    body: bytes


@runtime_checkable
class Feeds(Protocol):
    """A pack with feeds. Each has a signed URL of its own; who has the URL may read it."""

    async def feed_names(self, context: ToolContext) -> Mapping[str, str]:
        """The feeds of a business: name in the URL (letters, digits, ".", "_", "-") → what it is, for people."""
        ...

    async def feed(self, context: ToolContext, name: str) -> Feed | None:
        """The feed of that name, as things are now; None for one that is not there."""
        ...


def load_packs() -> dict[str, Pack]:
    """Every installed pack by name. Raises Misconfigured for two of one name, or a tool that is declared wrongly."""
    packs: dict[str, Pack] = {}
    for entry in entry_points(group="leeway.packs"):
        pack: Pack = entry.load()
        if pack.name in packs:
            raise Misconfigured(f"Two installed packs are called {pack.name}; remove one of them.")
        if wrong := wrongly_declared(pack.tools):
            raise Misconfigured(f"Pack {pack.name}: {'; '.join(wrong)}.")
        packs[pack.name] = pack
    return packs


def tool_of(pack: Pack | None, name: str) -> Tool | None:
    """The pack's tool of that name; None where there is no such tool, or no pack."""
    return next((tool for tool in pack.tools if tool.name == name), None) if pack else None


def wrongly_declared(tools: Sequence[Tool]) -> list[str]:
    """What is wrong with a registry, one sentence each; none of these could be decided safely later."""
    names = [tool.name for tool in tools]
    wrong = [
        f"two tools are called {name}" for name in sorted({one for one in names if names.count(one) > 1})
    ]
    for tool in tools:
        wrong += [f"{tool.name} {what}" for what, so in _declaration(tool, names).items() if so]
    return wrong


def _declaration(tool: Tool, names: Sequence[str]) -> dict[str, bool]:
    action = tool.kind is ToolKind.ACTION
    worded = tool.word_prompt and tool.word_done and tool.word_refusal
    strict = tool.arguments.model_config.get("extra") == "forbid"
    return {
        "has a name that no tool may have": tool.name in RESERVED or not TOOL_NAME.fullmatch(tool.name),
        "is at no level from 0 to 4": type(tool.level) is not int or not 0 <= tool.level <= 4,
        "has a floor below nought": tool.floor < 0,
        "does not say what a wrong call costs": not tool.wrong_call_costs.strip(),
        "takes unknown arguments": not strict,
        "is a read without a way to read, or of another risk": not action
        and (tool.read is None or tool.risk is not Risk.READ),
        "is an action without check, execution and wording": action
        and not (tool.check and tool.execute and worded),
        "is an action of risk read": action and tool.risk is Risk.READ,
        "needs a tool that is not there": not set(tool.needs) <= set(names),
    }


def migrations_of(packs: Mapping[str, Pack]) -> dict[str, Path]:
    """Each pack's folder of migrations, by its schema."""
    return {name: pack.migrations for name, pack in packs.items()}
