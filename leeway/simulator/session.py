"""One simulation: customers on their telephones, and a person at the business who sees what waits."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

from leeway.business_settings import BusinessSettings
from leeway.counter import desk_of
from leeway.evidence import Evidence, Handled
from leeway.one_process import OneProcess
from leeway.simulator import screen
from leeway.simulator.record import Delivery, Record, Standing
from leeway.simulator.words import NOTHING, told
from leeway.telephone import Telephone, line_of
from leeway.terminal import console
from services.agent.wiring import Rounds
from services.console.core.outcomes import Discarded, OnItsWay, Outcome
from services.console.core.waiting import WaitingApproval, WaitingDraft, prefix_range
from services.console.core.wording import sentence
from shared.clock import Shift
from shared.errors import LeewayError
from shared.packs import Pack

OPERATOR: Final = "simulator"
# Between two messages of a customer: closer together they look like a machine's, or like too many.
PACE: Final = timedelta(seconds=31)
SETTLED_WITHIN_S: Final = 150.0  # two model calls that take as long as they may, and some
ROUNDS: Final = Rounds(approvals_s=0.25, handoffs_s=0.25, reminders_s=0.25)
CLOCKS_STRIKE_S: Final = 0.8  # after so long, all of these have looked
# Of a draft or an approval, as the screen has it; the beginning of an id is longer.
_NUMBER: Final = re.compile(r"[0-9]{1,5}")

Waiting = TypeVar("Waiting", WaitingDraft, WaitingApproval)


class Wrong(LeewayError):
    """What was typed can't be done, and why."""


class Session:
    """`locale`: what the customers' telephones are set to."""

    def __init__(
        self,
        installation: OneProcess,
        *,
        packs: Mapping[str, Pack],
        pack: str,
        shift: Shift,
        dials: BusinessSettings,
        locale: str,
        number: str,
    ) -> None:
        parts, address = installation.parts, installation.sim_address
        self.packs, self.pack, self.slug = packs, packs[pack], address
        self.shift, self.dials, self.locale, self.number = shift, dials, locale, number
        self.database, self.clock = parts.database, parts.clock
        self.desk = desk_of(installation, packs)
        self.evidence = Evidence(
            parts.database, clock=parts.clock, sim_address=address, business=installation.business
        )
        self.record = Record(parts.database, business=installation.business, slug=address, address=address)
        self._line = line_of(installation)
        self._telephones: dict[str, Telephone] = {}
        self._buttons: dict[str, tuple[tuple[str, str], ...]] = {}
        self._numbers: dict[UUID, int] = {}
        self._drafts: dict[UUID, WaitingDraft] = {}
        self._approvals: dict[UUID, WaitingApproval] = {}
        self._spoke_at: float | None = None

    async def begin(self) -> None:
        """Business time goes on where a kept record ends, and what it tells of is no news."""
        if (latest := await self.record.latest()) is not None:
            self.shift.by = max(self.shift.by, latest - self.clock.now() + timedelta(seconds=1))
        news = await self.record.news()
        self._know(news.deliveries, news.drafts, news.approvals)

    async def close(self) -> None:
        await self._line.client.aclose()

    # What customers do

    async def write(self, text: str, *, button: str | None = None) -> None:
        """A message, or a press of a button, of the customer in hand; then all that comes of it."""
        self._pace()
        telephone = self._telephones.setdefault(self.number, Telephone(self._line, self.number))
        kind = {"kind": "button", "button": button} if button else {}
        message = await telephone.write(text, locale=self.locale, **kind)
        await self._settle()
        heard = await self.show_news()
        handled = await self.evidence.look(message)
        if handled is not None and not heard:
            screen.note(f"nothing is sent: {_why_nothing(handled)}")

    async def press(self, which: str) -> None:
        """A button of the last message that had some, by its number on the screen or its title."""
        buttons = self._buttons.get(self.number, ())
        if not buttons:
            raise Wrong("No message with buttons has arrived.")
        numbered = {str(n): one for n, one in enumerate(buttons, start=1)}
        titled = {title.casefold(): (id_, title) for id_, title in buttons}
        found = numbered.get(which) or titled.get(which.casefold())
        if found is None:
            raise Wrong(f"/press takes {' or '.join([*numbered, *(title for _, title in buttons)])}.")
        await self.write(found[1], button=found[0])

    def _pace(self) -> None:
        """People take their time; what the wait for an answer has not taken of it passes now."""
        now = self.clock.monotonic()
        if self._spoke_at is not None:
            self.shift.by += max(timedelta(), PACE - timedelta(seconds=now - self._spoke_at))
        self._spoke_at = now

    # What the business does

    async def decide(self, outcome: Outcome) -> None:
        """Tell what came of a person's decision, and what follows from it."""
        screen.note(sentence(outcome))
        if isinstance(outcome, OnItsWay | Discarded):
            self.record.decided(outcome.outbound)
        await self._settle()
        await self.show_news()

    async def standing(self, number: str | None = None) -> Standing:
        """How a customer's conversation stands. Raises Wrong for one who never wrote."""
        found = await self.record.standing(number or self.number)
        if found is None:
            raise Wrong(f"{number or self.number} has not written yet.")
        return found

    async def draft(self, name: str) -> WaitingDraft:
        """The draft of that number, or whose id begins so, as it was shown; without a name, the only one that waits."""
        waiting = () if name else await self.record.drafts()
        known: Mapping[UUID, WaitingDraft] = {one.id: one for one in waiting} if not name else self._drafts
        return _named(name, known, self._numbers, of="draft", see="/drafts")

    async def approval(self, name: str) -> WaitingApproval:
        waiting = () if name else await self.record.approvals()
        known: Mapping[UUID, WaitingApproval] = (
            {one.id: one for one in waiting} if not name else self._approvals
        )
        return _named(name, known, self._numbers, of="approval", see="/approvals")

    async def waiting(self) -> tuple[Sequence[WaitingDraft], Sequence[WaitingApproval]]:
        """What waits for a person; from now on the numbers name these texts."""
        drafts, approvals = await self.record.drafts(), await self.record.approvals()
        self._know((), drafts, approvals)
        return drafts, approvals

    def numbered(self, id_: UUID) -> int:
        return self._numbers[id_]

    # Time

    async def move(self, by: timedelta) -> None:
        """Business time moves on; then all that the clock brings about."""
        self.shift.by += by
        await self.record.moved(by)
        await asyncio.sleep(CLOCKS_STRIKE_S)
        await self._settle()
        await self.show_news()

    def now(self) -> datetime:
        return self.clock.now()

    # The record

    async def show_news(self) -> bool:
        """Print what is new; whether any of it is an answer to the customer in hand, sent or not."""
        news = await self.record.news()
        self._know(news.deliveries, news.drafts, news.approvals)
        screen.show(news, to=self.number, numbers=self._numbers)
        answers = [one.number for one in news.deliveries] + [one.person.address for one in news.drafts]
        return self.number in answers

    def _know(
        self,
        deliveries: Sequence[Delivery],
        drafts: Sequence[WaitingDraft],
        approvals: Sequence[WaitingApproval],
    ) -> None:
        self._buttons |= {one.number: one.buttons for one in deliveries if one.buttons}
        self._drafts |= {one.id: one for one in drafts}
        self._approvals |= {one.id: one for one in approvals}
        for id_ in (*self._drafts, *self._approvals):
            self._numbers.setdefault(id_, len(self._numbers) + 1)

    async def _settle(self) -> None:
        """Wait until nothing more happens by itself."""
        with console.status("…"):
            owed = await self.evidence.settled(within_s=SETTLED_WITHIN_S)
        if owed:
            screen.note(f"still under way after {SETTLED_WITHIN_S:.0f} s: {', '.join(owed)}")


def _named(
    name: str, among: Mapping[UUID, Waiting], numbers: Mapping[UUID, int], *, of: str, see: str
) -> Waiting:
    between = prefix_range(name)
    if _NUMBER.fullmatch(name):
        found = [one for id_, one in among.items() if numbers[id_] == int(name)]
    elif between is not None:
        found = [one for id_, one in among.items() if between.first <= id_ <= between.last]
    else:
        found = [] if name else list(among.values())
    if len(found) != 1:
        raise Wrong(f"There is no {of} {name}; see {see}." if name else f"Which {of}? See {see}.")
    return found[0]


def _why_nothing(handled: Handled) -> str:
    """Why a message got no answer, as the record has it."""
    if handled.verdict != "turn":
        return told(handled.reason, NOTHING)
    if handled.reply_state is not None:
        return f"the reply was {handled.reply_state}, {told(handled.reply_reason, NOTHING)}"
    return told(handled.outcome, NOTHING)
