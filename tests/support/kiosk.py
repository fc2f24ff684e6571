"""The agent without a database or a provider: a desk with one diary, a record in memory, and a model that reads a script."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from services.agent.answering import Answering
from services.agent.checks import Checks
from services.agent.committing import Committer
from services.agent.confirming import Confirming
from services.agent.core.gate import Dials, LevelSet
from services.agent.core.pending import Button, Press
from services.agent.core.turn import Pending, Turn
from services.agent.engines.calling import Calling
from services.agent.engines.outcome import Outcome, Said, SoFar
from services.agent.engines.tool_loop import ToolLoop
from services.agent.evidence import Sealing
from services.agent.execution import Executor
from services.agent.ports import Commit
from services.agent.questions import Questions
from services.agent.timing import ModelTime
from shared.autonomy import Asked, Mode, Risk
from shared.broker.memory import MemoryBroker
from shared.digest import canonical, digest
from shared.ids import BusinessId
from shared.llm.port import Answer, Request, ToolResult
from shared.llm.scripted import ScriptedModel, in_order
from shared.messages import MessageKind
from shared.packs import NO_SQL, Done, Established, Proposal, Refusal, Sql, Tool, ToolContext, ToolKind
from shared.telemetry.metrics import Metrics
from shared.tickets import Stage
from tests.support.factories import NOON, SetClock, heard, pending, turn
from tests.support.faulty_broker import FaultyBroker
from tests.support.memory_turns import MemoryTurns


class Booking(BaseModel):
    model_config = ConfigDict(extra="forbid")

    start: str = "10:00"


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Diary:
    """One hour of one dentist: what a check shows, and what an execution writes, each key once."""

    def __init__(self) -> None:
        self.price = "100"
        self.taken = False
        self.checks = 0
        self.taken_from_check: int | None = None  # from this check on the hour is taken
        self.fails: Exception | None = None  # what a read or a check raises
        self.booked: list[str] = []
        self.cancelled: list[str] = []
        self.ordered: list[str] = []  # outside this database
        self.outside: Exception | Refusal | None = None  # what an order comes to instead
        self.at_order: Callable[[], None] = lambda: None  # what happens while it is under way
        self.said: list[str] = []  # the customer's words that each check was told

    async def find(self, _: ToolContext, arguments: Nothing) -> Established | Refusal:
        if self.fails:
            raise self.fails
        return Established(data={"free": ["10:00", "11:00"]})

    async def check(self, context: ToolContext, arguments: Booking) -> Proposal | Refusal:
        self.checks += 1
        self.said.append(context.said)
        if self.fails:
            raise self.fails
        gone = self.taken_from_check is not None and self.checks >= self.taken_from_check
        if self.taken or gone:
            return Refusal(code="taken", detail={"free": ["11:00"]})
        return Proposal(
            arguments={"start": arguments.start}, shown={"start": arguments.start, "price": self.price}
        )

    async def book(self, _: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
        if key not in self.booked:
            self.booked.append(key)
        return Done(result={"start": proposal.arguments["start"]})

    async def cancel(self, _: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
        self.cancelled.append(key)
        return Done(result={"start": proposal.arguments["start"]})

    async def order(self, context: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
        assert context.sql is NO_SQL, "outside a transaction"
        self.ordered.append(key)
        self.at_order()
        if isinstance(self.outside, Exception):
            raise self.outside
        return self.outside or Done(result={"start": proposal.arguments["start"]})


class KioskPack:
    """A domain with a read, actions with a floor of one, of two and of none, and one whose effect is elsewhere."""

    name = "clinic"
    queries: Sequence[Path] = ()
    migrations = Path()

    def __init__(self, diary: Diary) -> None:
        self.pages = 0
        self.tools: Sequence[Tool] = (
            Tool(
                name="find_slots",
                description="Find.",
                arguments=Nothing,
                kind=ToolKind.READ,
                risk=Risk.READ,
                wrong_call_costs="Nothing.",
                read=diary.find,
            ),
            action("book_appointment", "Book", diary, floor=1),
            action("cancel_appointment", "Cancel", diary, floor=2, risk=Risk.IRREVERSIBLE),
            action("note_wish", "Note", diary),
            action("order_outside", "Order", diary, outside=True, execute=diary.order),
        )

    async def prompt_facts(self, context: ToolContext) -> str:
        self.pages += 1
        return "Open."

    def mock_answer(self, request: Request) -> Answer:
        raise NotImplementedError

    async def seed(self, sql: Sql, business: BusinessId, *, now: datetime) -> None:
        raise NotImplementedError


def action(name: str, verb: str, diary: Diary, **fields: Any) -> Tool:
    plain = {
        "name": name,
        "description": f"{verb}.",
        "arguments": Booking,
        "kind": ToolKind.ACTION,
        "risk": Risk.WRITE,
        "wrong_call_costs": "An hour.",
        "check": diary.check,
        "execute": diary.cancel if verb == "Cancel" else diary.book,
        "word_prompt": lambda shown, _: f"{verb} {shown['start']} for {shown['price']}.",
        "word_done": lambda result, _: f"{verb}ed {result['start']}.",
        "word_refusal": lambda refusal, _: f"Not possible: {refusal.code}.",
    }
    return Tool(**(plain | fields))


class ScriptedEngine:
    """Comes to what the test says, and counts how often a model would have been asked."""

    def __init__(self) -> None:
        self.outcome: Outcome = Said(text="Hello!", so_far=SoFar(), last_call=None)
        self.questions = 0

    async def run(self, question: Any) -> Outcome:
        self.questions += 1
        return self.outcome


class Kiosk:
    """Everything between a claimed turn and its one commit. `script` is what the model says; without one the engine is scripted."""

    def __init__(self, *script: Mapping[str, Any]) -> None:
        self.turns = MemoryTurns()
        self.diary = Diary()
        self.pack = KioskPack(self.diary)
        self.engine = ScriptedEngine()
        self.asked: list[Request] = []
        self.broker = FaultyBroker(MemoryBroker())
        self.clock = SetClock()
        self.metrics = Metrics(process=False)
        packs = {"clinic": self.pack}
        sealing = Sealing(packs)
        checks, executor = Checks(self.turns), Executor(self.turns, sealing)
        self.committer = Committer(
            turns=self.turns, sealing=sealing, broker=self.broker, metrics=self.metrics
        )
        answer = in_order(script)
        model = ScriptedModel(lambda request: self.asked.append(request) or answer(request))  # type: ignore[func-returns-value]
        loop = ToolLoop(
            calling=Calling(
                turns=self.turns,
                model=model,
                clock=self.clock,
                metrics=self.metrics,
                call_timeout_s=1,
                model_time=ModelTime(),
            ),
            turns=self.turns,
            checks=checks,
            executor=executor,
        )
        self.answering = Answering(
            turns=self.turns,
            questions=Questions(turns=self.turns, clock=self.clock),
            engine=loop if script else self.engine,  # type: ignore[arg-type]  # stands for a ToolLoop
            confirming=Confirming(
                turns=self.turns,
                checks=checks,
                executor=executor,
                committer=self.committer,
                packs=packs,
                metrics=self.metrics,
            ),
            committer=self.committer,
            packs=packs,
            metrics=self.metrics,
        )

    async def answer(self, one: Turn) -> Commit:
        """The one commit of the turn, whose pending action is stored as the turn has it."""
        self.turns.stored = one.pending
        self.turns.dials = one.dials
        return await self.goes_on(one)

    async def goes_on(self, one: Turn) -> Commit:
        """The same, with the record as the test has left it."""
        await self.answering.answer(one)
        (commit,) = self.turns.commits
        return commit

    def results(self) -> list[str]:
        """What the model was told that its calls came to, of its last request."""
        return [message.content for message in self.asked[-1].messages if isinstance(message, ToolResult)]

    def rung(self) -> list[UUID]:
        return [
            ticket
            for stage, packet in self.broker.published
            if stage is Stage.DISPATCH
            for ticket in packet.ids
        ]


@asynccontextmanager
async def ringing(kiosk: Kiosk) -> AsyncIterator[Kiosk]:
    """With the task beside it that rings dispatch."""
    async with asyncio.TaskGroup() as group:
        job = group.create_task(kiosk.committer.run())
        yield kiosk
        job.cancel()


# Turns and actions of the kiosk

SOON = NOON.replace(minute=1)


def dials(mode: Mode = Mode.AUTO, *, asked: Asked | None = None, **levels: object) -> Dials:
    """The dials with these levels that the business set, by tool."""
    set_ = {tool: LevelSet(level=level, asked=asked) for tool, level in levels.items()}
    return Dials(mode=mode, levels=set_)


def asked(tool: str = "book_appointment", **fields: Any) -> Pending:
    """An action about ten o'clock for 100, whose prompt was sent at noon."""
    arguments, shown = canonical({"start": "10:00"}), canonical({"start": "10:00", "price": "100"})
    plain = {
        "tool": tool,
        "arguments": arguments,
        "shown": shown,
        "digest": digest(tool, arguments, shown),
        "summary": "Book 10:00 for 100." if tool == "book_appointment" else "Cancel 10:00 for 100.",
        "confirmations_needed": 2 if tool == "cancel_appointment" else 1,
    }
    return pending(**(plain | fields))


def says(
    *texts: str, action: Pending | None = None, at: datetime = SOON, seq: int = 2, **fields: Any
) -> Turn:
    """A turn of messages that are newer than any prompt."""
    messages = [heard(seq + n, text, channel_at=at, received_at=at) for n, text in enumerate(texts)]
    plain = {"pending": action, "handled_seq": seq - 1, "now": at}
    return turn(*messages, **(plain | fields))


def presses(
    action: Pending, press: Press = Press.CONFIRM, *, step: int = 1, seq: int = 2, **fields: Any
) -> Turn:
    button = Button(action=action.id, step=step, press=press).encode()
    one = heard(seq, "Confirm", kind=MessageKind.BUTTON, button=button, channel_at=SOON, received_at=SOON)
    plain = {"pending": action, "handled_seq": seq - 1, "now": SOON}
    return turn(one, **(plain | fields))


def decides(action: Pending | None, **fields: Any) -> Turn:
    """A turn for an operator's decision, while a message of the customer's waits for its own."""
    waiting = heard(2, "Are you there?")
    return replace(turn(waiting, pending=action, handled_seq=1, now=SOON, **fields), decides=True)
