"""HTTP under the openai client: what a status and its headers mean, and a bound on what is read."""

import math
from collections.abc import AsyncIterator, Mapping
from email.utils import parsedate_to_datetime
from typing import cast

import httpx2

from shared.llm.port import FailureKind
from shared.llm.wire import Problem

ANSWER_BYTES_MAX = 2_000_000
CONNECT_S = 3.0
KEEPALIVE_S = 30.0

FAILURES: Mapping[int, FailureKind] = {
    400: FailureKind.REFUSED,
    401: FailureKind.AUTH,
    402: FailureKind.AUTH,  # an empty account
    403: FailureKind.AUTH,
    404: FailureKind.GONE,
    405: FailureKind.GONE,  # an address that is no API's
    408: FailureKind.TIMEOUT,
    409: FailureKind.SERVER,  # to be tried again, as a 5xx
    410: FailureKind.GONE,
    425: FailureKind.SERVER,
    429: FailureKind.RATE,
}
# An account without money, or a key that is none, by whichever status it comes
AUTH_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"}
    | {"invalid_api_key", "authentication_error", "permission_error"}
)
AUTH_WORDS = ("credit balance is too low", "api key not valid", "insufficient balance")
_MAY_BE_AUTH = frozenset({FailureKind.RATE, FailureKind.REFUSED})


def failure_kind(status: int, problem: Problem) -> FailureKind:
    """What follows from a status that is no success, and from what was said with it."""
    if status >= 500:
        return FailureKind.SERVER
    if status < 400:
        return FailureKind.GONE  # the address is another one by now: redirects are not followed
    kind = FAILURES.get(status, FailureKind.REFUSED)
    said = problem.message.lower()
    if kind in _MAY_BE_AUTH and (AUTH_CODES & set(problem.codes) or any(w in said for w in AUTH_WORDS)):
        return FailureKind.AUTH
    return kind


def read_retry_after(headers: httpx2.Headers) -> float | None:
    """Seconds that the provider asks to wait; None if it says nothing clear. A date counts from its own."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            wait_s = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(wait_s) and wait_s >= 0:
            return wait_s
    try:
        until, now = (parsedate_to_datetime(headers.get(name, "")) for name in ("retry-after", "date"))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def limits(slots: int) -> httpx2.Limits:
    """At most one connection a call that may be under way."""
    return httpx2.Limits(max_connections=slots, max_keepalive_connections=slots, keepalive_expiry=KEEPALIVE_S)


async def limit_body(response: httpx2.Response) -> None:
    """A hook that ends an answer of more than ANSWER_BYTES_MAX with a DecodingError."""
    response.stream = _Limited(cast("httpx2.AsyncByteStream", response.stream))


class _TooLong(httpx2.DecodingError):
    """The body has more than ANSWER_BYTES_MAX."""


class _Limited(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = ANSWER_BYTES_MAX
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise _TooLong(f"more than {ANSWER_BYTES_MAX} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
