"""A model behind an HTTP endpoint, called through the openai client. One call is one attempt."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from http import HTTPStatus

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

from shared.llm import chat_wire, responses_wire
from shared.llm.costs import tokens
from shared.llm.dialect import Api, Dialect
from shared.llm.port import Answer, FailureKind, ModelFailure, Request, Usage, UserText
from shared.llm.prices import Prices
from shared.llm.profiles import Profile
from shared.llm.schemas import SchemaForm, without_nulls
from shared.llm.tariffs import Tariff
from shared.llm.transport import CONNECT_S, failure_kind, limit_body, limits, read_retry_after
from shared.llm.wire import read_problem

KEY_CHARS_MIN = 8  # what is shorter is a placeholder, and may be a word of the answer
NO_KEY = "none"  # the client insists on one; servers without keys ignore it
TRUNCATED_BELOW = 4  # a server that counts fewer tokens than a quarter of our estimate has not read it all

_NAMES_PARAMETERS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
_OWN_HEADERS = ("accept", "content-type", "user-agent", "x-stainless-")
_BODY_OUT = {Api.CHAT: chat_wire.body_out, Api.RESPONSES: responses_wire.body_out}
_READ_ANSWER = {Api.CHAT: chat_wire.read_answer, Api.RESPONSES: responses_wire.read_answer}

_log = structlog.get_logger(__name__)


class EndpointModel:
    """One configured model over one client with at most `slots` connections. Make one per process; close it.

    Certificates are checked against the system's store. Redirects are not followed: they would carry
    customers' texts elsewhere. The client's own environment variables (address, organisation, headers) have
    no effect.
    """

    def __init__(
        self,
        profile: Profile,
        name: str,
        *,
        api_key: SecretStr | None,
        slots: int,
        base_url: str | None = None,
        tariffs: Mapping[str, Tariff] | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Model `name` of the profile's provider; `base_url` where it is not at the provider's usual address."""
        self._provider = profile.provider
        self._name = name
        self._dialect = profile.dialect(name)
        self._own_server = profile.listed is None
        self._prices = Prices(listed=profile.listed, asked=name, own=tariffs or {})
        self._key = api_key.get_secret_value() if api_key else NO_KEY
        self._client = self._client_over(
            DefaultAsyncHttpx2Client(
                transport=transport,
                limits=limits(slots),
                follow_redirects=False,
                event_hooks={"response": [limit_body]},
            ),
            base_url=base_url or profile.base_url,
        )
        self._headers = self._exact_headers()

    def __repr__(self) -> str:
        return f"EndpointModel({self._provider}:{self._name})"

    @property
    def provider(self) -> str:
        return self._provider

    @property
    def name(self) -> str:
        return self._name

    @property
    def reasoning_room(self) -> int:
        """Tokens that an answer may take for thinking, on top of the request's limit."""
        return self._dialect.room

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        """One attempt within `timeout_s`, all told. Raises ModelFailure and, if cancelled, CancelledError.

        When the model refuses one of the dialect's parameters (a 400 that names it), the request is sent
        again at once without it, as nothing was billed; and if that is taken, so are the next ones.
        """
        outcome = await self._within(self._client, request, timeout_s=timeout_s)
        if isinstance(outcome, ModelFailure):
            raise outcome  # outside any `except`: the client's exceptions hold the key and customers' texts
        read = _READ_ANSWER[self._dialect.api]
        answer = read(self._body(outcome), earlier=request.messages, asked=self._name)
        self._look_for_truncation(answer, request)
        return self._as_declared(answer, request)

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return self._prices.price(usage, model=model)

    def price_source(self, *, model: str) -> str | None:
        return self._prices.source(model=model)

    async def close(self) -> None:
        await self._client.close()

    async def warm_up(self) -> None:
        """Do what the first call would do late (imports, price list), without network: some 0.5 s."""
        silent = httpx2.MockTransport(lambda _: httpx2.Response(200, json={}))
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
        body = _BODY_OUT[dialect.api](request, model=self._name, dialect=dialect)
        content = msgspec.json.encode(body | dialect.parameters(request), enc_hook=dict)
        try:
            return await client.post(
                dialect.api.value,
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
        kind = failure_kind(status, problem)
        if status in _NAMES_PARAMETERS and kind is FailureKind.REFUSED:
            lesser = dialect.without(problem.parameter or dialect.named_in(problem.message))
            if lesser is not None:
                return lesser
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

    def _as_declared(self, answer: Answer, request: Request) -> Answer:
        """The calls' arguments without the nulls that only the strict form of a schema asked for."""
        if self._dialect.schemas is not SchemaForm.STRICT or not answer.calls:
            return answer
        schemas = {tool.name: tool.parameters for tool in request.tools}
        calls = tuple(
            replace(call, arguments=without_nulls(call.arguments, schemas.get(call.name, {})))
            for call in answer.calls
        )
        return replace(answer, calls=calls)

    def _look_for_truncation(self, answer: Answer, request: Request) -> None:
        """Servers of one's own may cut off the oldest text, the system prompt first, and say nothing (Ollama)."""
        read = answer.usage.input
        if self._own_server and read and read * TRUNCATED_BELOW < tokens(request):
            said = "the server read far less than it was sent: raise its context length"
            _log.warning(said, model=self._name, read_tokens=read)

    def _body(self, response: httpx2.Response) -> bytes:
        """The body, without our key: some servers repeat a key that they refuse."""
        body = response.content
        return body.replace(self._key.encode(), b"***") if len(self._key) >= KEY_CHARS_MIN else body

    def _remember(self, dialect: Dialect) -> None:
        """Keep the dialect in which a request was taken, so that the next one is taken at once."""
        if dialect != self._dialect:
            self._dialect = dialect
            _log.warning("the model refuses some parameters: left out", model=self._name, left=str(dialect))
