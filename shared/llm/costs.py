"""Money around a call: what it may cost at most, whether its price is known, and what a failed one cost.

For whoever reserves and meters. Works with every model that fits the port, and loads no list of prices itself.
"""

from decimal import Decimal
from typing import Protocol, runtime_checkable

import msgspec

from shared.llm.port import (
    NEVER_BILLED,
    AssistantCalls,
    Model,
    ModelFailure,
    Request,
    ToolResult,
    Usage,
    UserMedia,
)

BYTES_PER_TOKEN = 3  # of UTF-8. English has some 4, Romanian 3: an estimate must not be too low
AUDIO_TOKENS_MAX = (
    120_000  # AUDIO_BYTES_MAX of AMR, the densest, at the 32 tokens a second that Gemini counts
)
IMAGE_TOKENS_MAX = 8_000  # of one picture in full detail, by any provider's count
AUDIO_BYTES_MAX = 2 * 1024 * 1024  # given to a model: the bound above holds for no more
TOKENS_PER_MESSAGE = 8  # what roles and borders take


@runtime_checkable
class Reasons(Protocol):
    """A model that may think before it answers, beyond the limit that the request sets."""

    @property
    def reasoning_room(self) -> int:
        """Tokens on top of Request.max_output_tokens."""
        ...


@runtime_checkable
class Sourced(Protocol):
    """A model that knows where its prices come from."""

    def price_source(self, *, model: str) -> str | None: ...


def estimate(model: Model, request: Request) -> Decimal | None:
    """US dollars that a call costs at most: all of it read at the full price, and the answer as long as it may be.

    None if no price is known. For reservations before the call; the metered cost is the provider's.
    """
    read = tokens(request)
    written = request.max_output_tokens + (model.reasoning_room if isinstance(model, Reasons) else 0)
    prices = (
        model.price(Usage(input=read, output=written, written=cached), model=model.name)
        for cached in (0, read)  # some providers bill what they put into a cache higher
    )
    known = [price for price in prices if price is not None]
    return max(known) if known else None


def tokens(request: Request) -> int:
    """The request's input tokens, rather too many than too few."""
    read = _bytes(request.system)
    for message in request.messages:
        match message:
            case ToolResult(content=content):
                read += _bytes(content)
            case AssistantCalls(text=text, calls=calls, raw=raw):
                read += sum(_bytes(call.name) + _bytes(call.arguments) for call in calls)
                read += max(_bytes(text or ""), len(_json(raw)))
            case UserMedia(text=text):
                read += _bytes(text) + BYTES_PER_TOKEN * (
                    AUDIO_TOKENS_MAX if message.is_audio else IMAGE_TOKENS_MAX
                )
            case _:
                read += _bytes(message.text)
    for tool in request.tools:
        read += _bytes(tool.name) + _bytes(tool.description) + len(_json(tool.parameters))
    pieces = 1 + len(request.messages) + len(request.tools)
    return -(-read // BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE * pieces


def has_price(model: Model) -> bool:
    """Whether what the configured model costs is known. Without it no cap can be kept."""
    return model.price(Usage(input=1, output=1), model=model.name) is not None


def price_source(model: Model, *, answered: str) -> str | None:
    """Where the price of the model that answered comes from, with its version; None if there is none."""
    return model.price_source(model=answered) if isinstance(model, Sourced) else None


def failure_cost(model: Model, failure: ModelFailure) -> Decimal | None:
    """US dollars of an attempt that failed: 0 where nothing is billed, None where nobody tells."""
    if failure.usage.told:
        return model.price(failure.usage, model=failure.model or model.name)
    return Decimal(0) if failure.kind in NEVER_BILLED else None


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _json(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=dict)
