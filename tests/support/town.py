"""Businesses on one installation: all services in this process, time as a case has it, and a model for each business.

Each case has a business of its own, so that one start serves many of them. Cases are played one after another, since
business time is one; nothing sleeps: a step is over when the record says that nothing is owed.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import httpx2

from leeway.businesses import NewBusiness, new_secret, seed_pack
from leeway.evals.record import Record, Snapshot
from leeway.one_process import OneProcess, one_process, running
from leeway.telephone import Line, Telephone
from services.agent import wiring as agent
from services.console.adapters.postgres_desk import PostgresRecord
from services.console.adapters.rehearsal import PackRehearsal
from services.console.adapters.rings import BrokerRings
from services.console.desk import Desk
from shared.autonomy import Mode
from shared.clock import Shift, SystemClock
from shared.database import Database, open_pool
from shared.database.pool import OWNER
from shared.ids import BusinessId, ConversationId, new_id
from shared.llm.mock import MockModel
from shared.llm.port import Answer, Model, Request, Usage
from shared.llm.scripted import ScriptedModel, in_order
from shared.packs import load_packs
from shared.phones import phone_key
from shared.settings import Timeouts, load_settings
from tests.support.eventually import eventually
from tests.support.process import make_directory, remove_directory

ZONE = ZoneInfo("Europe/Bucharest")
THURSDAY = datetime(2026, 12, 3, 10, 0, tzinfo=ZONE)
PACE = timedelta(seconds=20)  # from one message of a customer to the next; a machine would be quicker
SETTLED_WITHIN_S = 45.0
# What the clock brings about by itself stays out of these conversations.
SELDOM = agent.Rounds(approvals_s=3600, handoffs_s=3600, reminders_s=3600)

ANA, BOGDAN = "+40700000001", "+40700000002"

Opened = TypeVar("Opened")


class Models:
    """shared.llm.port.Model: hands each question to the model of the business that asks, and remembers it."""

    provider = "town"
    name = "town"

    def __init__(self, usual: Model) -> None:
        self._usual = usual
        self.own: dict[str, Model] = {}
        self.asked: dict[str, list[Request]] = defaultdict(list)

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        slug = request.cache_key.partition(":")[0]
        self.asked[slug].append(request)
        return await self.own.get(slug, self._usual).complete(request, timeout_s=timeout_s)

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return Decimal(usage.input + usage.output) / 1_000_000 if usage.told else None

    async def close(self) -> None:
        while self.own:
            _, model = self.own.popitem()
            await model.close()


class Held:
    """A model that answers when the test lets it: `asked` is set when somebody waits for it."""

    provider = "held"
    name = "held"

    def __init__(self, inner: Model) -> None:
        self._inner = inner
        self.asked = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        self.asked.set()
        await self.goes_on.wait()
        return await self._inner.complete(request, timeout_s=timeout_s)

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return Decimal(0)

    async def close(self) -> None:
        """Nothing is held."""


class Slow(Held):
    """A model that takes so long for each answer."""

    def __init__(self, inner: Model, *, takes_s: float) -> None:
        super().__init__(inner)
        self._takes_s = takes_s

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        self.asked.set()
        await asyncio.sleep(self._takes_s)
        return await self._inner.complete(request, timeout_s=timeout_s)


def script(*answers: Mapping[str, Any]) -> Model:
    """A model that gives these answers in order, in the forms of shared/llm/scripted.py."""
    return ScriptedModel(in_order(answers))


def call(tool: str, arguments: object | None = None, **more: Any) -> dict[str, Any]:
    """An answer that calls one tool. Arguments may be raw text."""
    return {"calls": [{"name": tool, "arguments": {} if arguments is None else arguments, **more}]}


@dataclass(eq=False)
class Town:
    """The installation, its clock, its people's desk."""

    installation: OneProcess
    models: Models
    shift: Shift
    owner: Database  # who sees the packs' tables too
    desk: Desk
    client: httpx2.AsyncClient
    record: Record
    _names: Counter[str] = field(default_factory=Counter)

    @property
    def now(self) -> datetime:
        return self.installation.parts.clock.now().astimezone(ZONE)

    def begin_at(self, moment: datetime) -> None:
        """Business time is this; earlier than before, if need be: each case begins at its own."""
        self.shift.by = moment - SystemClock().now()

    def go_to(self, moment: datetime) -> None:
        """On to this moment, unless time itself got further: within a case it never goes back."""
        self.begin_at(max(moment, self.now))

    async def business(
        self,
        name: str,
        *,
        pack: str = "clinic",
        model: Model | None = None,
        at: datetime = THURSDAY,
        window_ms: int = 0,
        locales: tuple[str, ...] = ("en", "ro"),
        mode: Mode = Mode.AUTO,
        **columns: object,
    ) -> "Shop":
        """A fresh business with the pack's demo data. `columns` are settings of its row."""
        self.begin_at(at)
        self._names[name] += 1
        slug = f"{name}-{self._names[name]}"
        made = self.installation.businesses
        business = await made.create(
            NewBusiness(
                slug=slug, name="Demo Clinic", mode=mode, pack=pack, locales=locales, time_zone=ZONE.key, window_ms=window_ms
            )
        )  # fmt: skip
        for column, value in {"reminder_hours": 0, **columns}.items():
            await self.owner.fetch(f"update business set {column} = $2 where id = $1", business, value)
        if model is not None:
            self.models.own[slug] = model
        shop = Shop(town=self, slug=slug, business=business, lines={})
        await shop.add_line(slug)
        parts = self.installation.parts
        await seed_pack(parts.database, load_packs()[pack], business, parts.clock)
        return shop


@dataclass(eq=False)
class Shop:
    """A business, its telephone lines, and what the record says of it."""

    town: Town
    slug: str
    business: BusinessId
    lines: dict[str, Line]

    @property
    def model_calls(self) -> int:
        return len(self.requests)

    @property
    def requests(self) -> list[Request]:
        """What its model was asked, in order."""
        return self.town.models.asked[self.slug]

    async def add_line(self, address: str) -> None:
        parts, secret = self.town.installation.parts, new_secret()
        await self.town.installation.businesses.add_account(
            self.business, channel="sim", address=address, inbound=[secret]
        )
        self.lines[address] = Line(database=parts.database, clock=parts.clock, address=address, secret=secret, client=self.town.client)  # fmt: skip

    def customer(self, number: str = ANA, *, name: str | None = None, line: str | None = None) -> "Customer":
        return Customer(self, Telephone(self.lines[line or self.slug], number), number, name)

    async def knows(self, number: str, *, name: str = "Ana Pop") -> None:
        """A customer who never wrote, as staff would make them known."""
        await self.town.owner.fetch(
            "insert into customer (id, business, name, phone, phone_key) values ($1, $2, $3, $4, $5)",
            new_id(),
            self.business,
            name,
            number,
            phone_key(number),
        )

    async def has_appointment(self, number: str, start: str, *, service: str = "checkup", dentist: str = "Dr. Ionescu", note: str | None = None) -> str:  # fmt: skip
        """An appointment as staff make it; its id. Who has it is made known if need be."""
        known = "select id from customer where business = $1 and phone = $2"
        if not await self.town.owner.fetch(known, self.business, number):
            await self.knows(number)
        made = await self.town.owner.fetch(
            "insert into clinic.appointment (id, business, customer, dentist_no, service, starts_at, ends_at, idempotency_key, note)"
            " select $3::uuid, $1, c.id, d.no, s.code, $4::timestamptz, $4::timestamptz + make_interval(mins => s.minutes), 'staff-' || $3::uuid::text, $7"
            " from customer c, clinic.dentist d, clinic.service s where c.business = $1 and c.phone = $2"
            " and d.business = $1 and d.name = $5 and s.business = $1 and s.code = $6 returning id::text",
            self.business,
            number,
            new_id(),
            datetime.fromisoformat(start).replace(tzinfo=ZONE),
            dentist,
            service,
            note,
        )
        return str(made[0]["id"])

    async def appointments(self, number: str | None = None) -> list[str]:
        """Local starts of what is booked, by one customer or by all."""
        rows = await self.town.owner.fetch(
            "select a.starts_at from clinic.appointment a join customer c on c.id = a.customer"
            " where a.business = $1 and a.state = 'booked' and ($2::text is null or c.phone = $2) order by 1",
            self.business,
            number,
        )
        return [f"{row['starts_at'].astimezone(ZONE):%Y-%m-%dT%H:%M}" for row in rows]

    async def fetch(self, query: str, *arguments: object) -> Sequence[Mapping[str, Any]]:
        """As the schema's owner; $1 is the business."""
        return await self.town.owner.fetch(query, self.business, *arguments)

    async def read(self) -> Snapshot:
        return await self.town.record.read(self.business)

    async def waiting(self) -> list[tuple[str, str]]:
        """What waits for a person: tool and arguments."""
        return [
            (one["tool"], one["arguments"])
            for one in (await self.read()).actions
            if one["state"] in ("customer", "operator")
        ]

    async def ran(self) -> list[str]:
        """The tools that ran, each with its receipt."""
        return [one["tool"] for one in (await self.read()).receipts]

    async def tool_calls(self) -> list[tuple[str, str, str | None]]:
        return [(one["tool"], one["decision"], one["reason"]) for one in (await self.read()).tool_calls]

    async def handoffs(self) -> list[str]:
        return [one["reason"] for one in (await self.read()).handoffs]

    async def reasons(self) -> list[str | None]:
        """What the guard said of each message, in order."""
        return [one["reason"] for one in (await self.read()).messages]

    async def left(self) -> list[str]:
        """All that anybody was sent."""
        return [one["body"] for one in (await self.read()).deliveries]

    async def conversation(self, number: str = ANA) -> ConversationId:
        found = (await self.read()).conversation_of(number)
        assert found is not None, f"{number} has not written"
        return ConversationId(found["conversation"])

    async def settled(self, *, within_s: float = SETTLED_WITHIN_S) -> None:
        """Nothing is owed: no message unjudged, no turn due or under way, no reply on its way."""

        async def nothing_is_owed() -> bool:
            return not await self.town.record.owed(self.business)

        await eventually(nothing_is_owed, within_s=within_s, every_s=0.01)


@dataclass(eq=False)
class Customer:
    """One customer's telephone."""

    shop: Shop
    telephone: Telephone
    number: str
    name: str | None
    buttons: tuple[tuple[str, str], ...] = ()  # of the last message that had some

    async def write(self, text: str | None, **more: object) -> str:
        """A message, stamped by the channel now; nobody waits for what comes of it. Its id."""
        town = self.shop.town
        message = f"sim-{new_id().hex}"
        item = {
            "id": message,
            "from": self.number,
            "name": self.name,
            "text": text,
            "at": town.now.isoformat(),
            **more,
        }
        assert await self.telephone.post({"messages": [item]}) == 200
        return message

    async def says(self, text: str | None, *, at: datetime | None = None, **more: object) -> list[str]:
        """A message, a little later than the one before or at this moment, and all that came of it."""
        town = self.shop.town
        town.go_to(at if at is not None else town.now + PACE)
        await self.write(text, **more)
        return await self.hears()

    async def presses(self, title: str, *, at: datetime | None = None) -> list[str]:
        button = next(button for button, label in self.buttons if label == title)
        return await self.says(title, at=at, kind="button", button=button)

    async def hears(self) -> list[str]:
        """What arrived since, once nothing more is owed."""
        await self.shop.settled()
        arrived = await self.telephone.arrived()
        self.buttons = next((one.buttons for one in reversed(arrived) if one.buttons), self.buttons)
        return [one.text for one in arrived]


def texts_told(request: Request) -> str:
    """Everything a model was told in one request, system prompt and tool results included."""
    said = [getattr(one, "text", None) or getattr(one, "content", "") for one in request.messages]
    return "\n".join([request.system, *said])


def results_told(requests: Iterable[Request]) -> list[dict[str, Any]]:
    """The tool results in the last of these requests, as objects."""
    *_, last = requests
    return [json.loads(one.content) for one in last.messages if one.role == "tool"]


@asynccontextmanager
async def a_town(name: str, *, timeouts: Timeouts | None = None, **settings: object) -> AsyncIterator[Town]:
    """Everything runs until the context ends. It lives in a task of its own, so that a fixture can open and close it."""
    async with held_open(lambda: _town(name, timeouts, settings)) as town:
        yield town


@asynccontextmanager
async def _town(name: str, timeouts: Timeouts | None, given: Mapping[str, object]) -> AsyncIterator[Town]:
    directory = make_directory(name)
    more = dict(given) if timeouts is None else {"timeouts": timeouts, **given}
    settings = load_settings(llm="mock", **more)
    shift, packs = Shift(), load_packs()
    models = Models(MockModel(packs))
    try:
        async with (
            one_process(settings, Path(directory), keeps=False, shift=shift, model=models, rounds=SELDOM) as one,
            running(one),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app=one.app), base_url="http://leeway.invalid") as client,
        ):  # fmt: skip
            parts = one.parts
            url = parts.settings.database_url.get_secret_value()
            owner = await open_pool(url, size=2, timeouts=settings.timeouts, role=OWNER, shift=shift)
            desk = Desk(
                PostgresRecord(parts.database),
                rehearsal=PackRehearsal(parts.database, packs),
                rings=BrokerRings(parts.broker),
            )
            try:
                yield Town(installation=one, models=models, shift=shift, owner=owner, desk=desk, client=client, record=Record(parts.database))  # fmt: skip
            finally:
                await owner.close()
    finally:
        remove_directory(directory)


@asynccontextmanager
async def another_agent(town: Town) -> AsyncIterator[None]:
    """A second worker beside the installation's own."""
    service = await agent.wire(town.installation.parts, model=town.models, packs=load_packs(), rounds=SELDOM)
    running = asyncio.create_task(service.run())
    await eventually(lambda: service.why_not() is None)
    try:
        yield
    finally:
        await service.drain()
        running.cancel()
        await asyncio.wait([running])
        await service.close()


@asynccontextmanager
async def held_open(opens: Callable[[], AbstractAsyncContextManager[Opened]]) -> AsyncIterator[Opened]:
    """A context that is entered and left in one task, whoever opens and closes this one."""
    opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
    closing = asyncio.Event()

    async def hold() -> None:
        async with opens() as value:
            opened.set_result(value)
            await closing.wait()

    task = asyncio.create_task(hold())
    await asyncio.wait((task, opened), return_when=asyncio.FIRST_COMPLETED)
    if not opened.done():
        opened.cancel()
        await task
    try:
        yield await opened
    finally:
        closing.set()
        await task
