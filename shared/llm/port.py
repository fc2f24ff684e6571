"""A model as the agent sees it: a request in, an answer or a typed failure out. One call is one attempt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model is told of it. `parameters` is a JSON schema, keys sorted for the cache's sake."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What the model asks for. The arguments are text as it came: not checked, maybe not JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserText:
    text: str
    role: Literal["user"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMedia:
    """A recording or a picture, with words of ours that say what is to be done with it."""

    text: str
    content: bytes
    mime: str
    role: Literal["user"] = "user"

    @property
    def is_audio(self) -> bool:
        return self.mime.startswith("audio/")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantText:
    """Something our side said before, by the bot or by a person."""

    text: str
    role: Literal["assistant"] = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantCalls:
    """An earlier answer of this turn that called tools. `raw` goes back to the provider unchanged."""

    text: str | None
    calls: tuple[ToolCall, ...]
    raw: Sequence[Mapping[str, Any]] = ()
    role: Literal["assistant"] = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call came to, as JSON text; denied calls are answered too."""

    call_id: str
    name: str
    content: str
    role: Literal["tool"] = "tool"


Message = UserText | UserMedia | AssistantText | AssistantCalls | ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One iteration's question.

    `cache_key` keeps one tenant's calls on one cache; `customer` is a hash, never a name.
    """

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    max_output_tokens: int = 600
    cache_key: str = ""
    customer: str = ""


class Finish(StrEnum):
    """How an answer ended."""

    END = "end"
    TOOLS = "tools"
    LENGTH = "length"
    FILTER = "filter"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens billed: `input` includes the cached and the written ones, `output` the reasoning ones.

    `told` is false where the provider said nothing: then the numbers are 0 and the cost is unknown.
    """

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    written: int = 0  # put into the cache by this call; some providers bill these higher
    told: bool = True


UNTOLD = Usage(told=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model said. `model` is the name the provider answered with.

    Calls come only with Finish.TOOLS: of an answer that was cut off or filtered none is handed on.
    """

    text: str | None
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = Finish.END
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    raw: Sequence[Mapping[str, Any]] = ()


class FailureKind(StrEnum):
    """Why there was no answer, by what follows from it."""

    RATE = "rate"  # wait what the provider says, then once more
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    SERVER = "server"  # 5xx
    BAD_ANSWER = "bad_answer"  # 200, but no answer in it
    REFUSED = "refused"  # 400, 422: this request will never do
    AUTH = "auth"  # 401, 403, quota: a person must act
    GONE = "gone"  # 404: the model or the address
    OPEN = "open"  # no call was made: the ones before say that the provider is away


NEVER_BILLED = frozenset(
    {FailureKind.OPEN, FailureKind.RATE, FailureKind.REFUSED, FailureKind.AUTH, FailureKind.GONE}
)
"""Of the others nobody knows: a provider may bill what it answered too late, or to a closed connection."""


class ModelFailure(Exception):
    """One attempt failed. `usage` is what was billed all the same, where the provider said so (see Usage.told)."""

    def __init__(
        self,
        kind: FailureKind,
        detail: str,
        *,
        retry_after_s: float | None = None,
        usage: Usage | None = None,
        model: str = "",
    ) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail  # for logs and the metering row; never for a customer
        self.retry_after_s = retry_after_s
        self.usage = usage or UNTOLD
        self.model = model


class Model(Protocol):
    """A configured model. A call is one attempt: retries belong to the caller, so that each is metered."""

    @property
    def provider(self) -> str: ...

    @property
    def name(self) -> str: ...

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        """One attempt. Raises ModelFailure; never anything else that a provider can cause."""
        ...

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        """US dollars; None when no price is known or the usage was not told, never 0 for unknown.

        `model` is the name that answered. See shared.llm.costs for estimates and sources of prices.
        """
        ...

    async def close(self) -> None: ...
