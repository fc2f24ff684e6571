"""A model behind a Chat Completions endpoint, called through the openai client. One call is one attempt."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Self, cast

import httpx2
import msgspec
import structlog
from openai import (
    APIConnectionError,
    APIStatusError,
    AsyncOpenAI,
    DefaultAsyncHttpx2Client,
    Omit,
    omit,
)
from pydantic import SecretStr

from shared.llm import prices
from shared.llm.dialect import Dialect, openai_dialect
from shared.llm.port import Answer, FailureKind, ModelFailure, Request, Usage, UserText
from shared.llm.wire import messages_out, read_answer, read_problem, tool_out

OPENAI_URL = "https://api.openai.com/v1"
CONNECT_S = 3.0
KEEPALIVE_S = 30.0
ANSWER_BYTES_MAX = 2_000_000
KEY_CHARS_MIN = 8  # what is shorter is a placeholder, and may be a word of the answer
NO_KEY = "none"  # the client insists on one; servers without keys ignore it

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
QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})

_OWN_HEADERS = ("accept", "content-type", "user-agent", "x-stainless-")

_log = structlog.get_logger(__name__)


class ChatModel:
    """One configured model over one client with at most `slots` connections. Make one per process; close it.

    Certificates are checked against the system's store. Redirects are not followed: they would carry
    customers' texts elsewhere. The client's own environment variables (address, organisation, headers) have
    no effect.
    """

    def __init__(
        self,
        *,
        provider: str,
        name: str,
        base_url: str,
        api_key: SecretStr | None,
        dialect: Dialect,
        slots: int,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._provider = provider
        self._name = name
        self._dialect = dialect
        self._key = api_key.get_secret_value() if api_key else NO_KEY
        limits = httpx2.Limits(
            max_connections=slots, max_keepalive_connections=slots, keepalive_expiry=KEEPALIVE_S
        )
        self._client = self._client_over(
            DefaultAsyncHttpx2Client(
                transport=transport, limits=limits, follow_redirects=False, event_hooks={"response": [_limit]}
            ),
            base_url=base_url,
        )
        self._headers = self._exact_headers()

    @classmethod
    def openai(
        cls, name: str, *, api_key: SecretStr, slots: int, transport: httpx2.AsyncBaseTransport | None = None
    ) -> Self:
        """OpenAI's model `name`."""
        return cls(
            provider="openai",
            name=name,
            base_url=OPENAI_URL,
            api_key=api_key,
            dialect=openai_dialect(name),
            slots=slots,
            transport=transport,
        )

    @classmethod
    def compatible(
        cls,
        name: str,
        *,
        base_url: str,
        api_key: SecretStr | None = None,
        slots: int,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> Self:
        """Model `name` of whatever speaks Chat Completions at `base_url`: Ollama, vLLM, a gateway."""
        return cls(
            provider="openai-compatible",
            name=name,
            base_url=base_url,
            api_key=api_key,
            dialect=Dialect(),
            slots=slots,
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"ChatModel({self._provider}:{self._name})"

    @property
    def provider(self) -> str:
        return self._provider

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        """One attempt within `timeout_s`, all told. Raises ModelFailure and, if cancelled, CancelledError.

        When the model refuses one of the dialect's parameters (a 400 that names it), the request is sent
        again at once without it, as nothing was billed; and if that is taken, so are the next ones.
        """
        outcome = await self._within(self._client, request, timeout_s=timeout_s)
        if isinstance(outcome, ModelFailure):
            raise outcome  # outside any `except`: the client's exceptions hold the key and customers' texts
        return read_answer(self._body(outcome), earlier=request.messages, asked=self._name)

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return prices.price(usage, provider=self._provider, model=model)

    async def close(self) -> None:
        await self._client.close()

    async def warm_up(self) -> None:
        """Do what the first call would do late (imports, price list), without network: some 0.5 s."""
        silent = httpx2.MockTransport(lambda _: httpx2.Response(200, json={"choices": [{"message": {}}]}))
        async with httpx2.AsyncClient(transport=silent) as http:
            client = self._client_over(http, base_url=str(self._client.base_url))
            request = Request(system="", messages=(UserText(text=""),), tools=())
            await self._within(client, request, timeout_s=60)
        self.price(Usage(input=1), model=self._name)

    def _client_over(self, http: httpx2.AsyncClient, *, base_url: str) -> AsyncOpenAI:
        """The timeouts are per phase, and the whole attempt has its own; so only connecting is timed here."""
        return AsyncOpenAI(
            api_key=self._key,
            base_url=base_url,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            http_client=http,
        )

    def _exact_headers(self) -> dict[str, str | Omit]:
        """Our own, and the undoing of what the client took from the environment for other providers."""
        foreign = [name for name in self._client.default_headers if not name.lower().startswith(_OWN_HEADERS)]
        return {
            **dict.fromkeys(foreign, omit),
            "Authorization": f"Bearer {self._key}",
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",  # so that ANSWER_BYTES_MAX counts what is unpacked, too
        }

    async def _within(
        self, client: AsyncOpenAI, request: Request, *, timeout_s: float
    ) -> httpx2.Response | ModelFailure:
        try:
            async with asyncio.timeout(timeout_s):
                outcome: httpx2.Response | ModelFailure | Dialect = self._dialect
                while isinstance(outcome, Dialect):
                    dialect = outcome
                    outcome = await self._send(client, request, dialect)
                if isinstance(outcome, httpx2.Response):
                    self._remember(dialect)
                return outcome
        except TimeoutError:
            return self._failure(FailureKind.TIMEOUT, f"no answer within {timeout_s:g} s")

    async def _send(
        self, client: AsyncOpenAI, request: Request, dialect: Dialect
    ) -> httpx2.Response | ModelFailure | Dialect:
        """The answer, the failure, or the lesser dialect that the model asks for."""
        body: dict[str, Any] = {"model": self._name, "messages": messages_out(request)}
        if request.tools:
            body["tools"] = [tool_out(tool) for tool in request.tools]
        content = msgspec.json.encode(body | dialect.parameters(request), enc_hook=dict)
        try:
            return await client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=content,
                options={"headers": self._headers},
            )
        except APIStatusError as error:
            return self._refused(error.response, dialect)
        except APIConnectionError as error:
            return self._unreached(error.__cause__)
        except Exception as error:
            # Whatever else sockets, TLS and decoders come up with. Our own part, the body, was done before.
            return self._unreached(error)

    def _refused(self, response: httpx2.Response, dialect: Dialect) -> ModelFailure | Dialect:
        status, problem = response.status_code, read_problem(self._body(response))
        lesser = dialect.without(problem.parameter) if status == HTTPStatus.BAD_REQUEST else None
        if lesser is not None:
            return lesser
        kind = failure_kind(status)
        if kind is FailureKind.RATE and not QUOTA_CODES.isdisjoint(problem.codes):
            kind = FailureKind.AUTH
        detail = ", ".join(part for part in (f"status {status}", str(problem)) if part)
        return self._failure(kind, detail, retry_after_s=read_retry_after(response.headers))

    def _unreached(self, cause: BaseException | None) -> ModelFailure:
        said = type(cause).__name__
        if isinstance(cause, httpx2.DecodingError):
            return self._failure(FailureKind.BAD_ANSWER, f"the body can't be read ({said})")
        if isinstance(cause, httpx2.TimeoutException) and not isinstance(cause, httpx2.ConnectTimeout):
            return self._failure(FailureKind.TIMEOUT, said)
        return self._failure(FailureKind.CONNECTION, said)

    def _failure(self, kind: FailureKind, detail: str, *, retry_after_s: float | None = None) -> ModelFailure:
        return ModelFailure(kind, detail, retry_after_s=retry_after_s, model=self._name)

    def _body(self, response: httpx2.Response) -> bytes:
        """The body, without our key: some servers repeat a key that they refuse."""
        body = response.content
        return body.replace(self._key.encode(), b"***") if len(self._key) >= KEY_CHARS_MIN else body

    def _remember(self, dialect: Dialect) -> None:
        """Keep the dialect in which a request was taken, so that the next one is taken at once."""
        if dialect != self._dialect:
            self._dialect = dialect
            _log.warning("the model refuses some parameters: left out", model=self._name, left=str(dialect))


def failure_kind(status: int) -> FailureKind:
    """What follows from a status that is no success."""
    if status >= 500:
        return FailureKind.SERVER
    if status < 400:
        return FailureKind.GONE  # the address is another one by now; see ChatModel on redirects
    return FAILURES.get(status, FailureKind.REFUSED)


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


async def _limit(response: httpx2.Response) -> None:
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
