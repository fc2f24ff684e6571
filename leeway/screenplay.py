"""How the demo is told: who says what, what arrives, and what must then be true of the record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from rich.markup import escape
from rich.text import Text

from leeway.business_settings import BusinessSettings
from leeway.counter import desk_of
from leeway.evidence import Evidence, Handled
from leeway.one_process import OneProcess
from leeway.telephone import Arrived, Line, Telephone, line_of
from leeway.terminal import console, paragraph, plain
from services.console.adapters.postgres_waiting import PostgresWaiting
from services.console.core.outcomes import Done, Outcome
from services.console.core.waiting import WaitingDraft
from services.console.core.wording import sentence
from shared.clock import Shift
from shared.errors import LeewayError
from shared.ids import ConversationId
from shared.packs import Pack

INDENT: Final = 14
PACE: Final = timedelta(seconds=30)  # business time between two messages: people take some
SETTLED_WITHIN_S: Final = 20.0
STAFF: Final = "Maria"
# What the guard says to a message that no model ever sees.
VERDICTS: Final = {
    "handoff_requested": "a person is asked for, so people take over",
    "handoff_active": "people have this conversation: kept for them",
    "loop": "the other end looks like a machine",
}


class CannotPlay(LeewayError):
    """A step of the script can't be carried out."""


@dataclass(slots=True)
class Checks:
    """What the script says must hold, against what the database says."""

    held: int = 0
    broken: list[str] = field(default_factory=list)

    def expect(self, what: str, *, holds: bool, found: object) -> None:
        if holds:
            self.held += 1
            line = Text().append("✓ ", style="green").append(what, style="dim")
        else:
            self.broken.append(what)
            line = Text().append("✗ ", style="bold red").append_text(plain(f"{what} (found: {found})", "red"))
        row("", line)

    def verdict(self) -> bool:
        """Tell how it went; whether every check held."""
        console.print()
        if self.broken:
            paragraph(Text(f"These checks did not hold: {'; '.join(self.broken)}.", style="bold red"))
            return False
        console.print(f"All {self.held} checks held.", style="green")
        return True


@dataclass(slots=True)
class Customer:
    name: str
    telephone: Telephone


class Stage:
    """An installation with customers in front of it and a person of the business behind it."""

    def __init__(
        self,
        installation: OneProcess,
        *,
        packs: Mapping[str, Pack],
        shift: Shift,
        dials: BusinessSettings,
        name: str,
    ) -> None:
        self.installation = installation
        self.packs = packs
        self.shift = shift
        self.dials = dials
        self.database = installation.parts.database
        self.clock = installation.parts.clock
        self.business = installation.business
        self.slug = installation.sim_address
        self.desk = desk_of(installation, packs)
        self.checks = Checks()
        self.evidence = Evidence(
            self.database, clock=self.clock, sim_address=self.slug, business=self.business
        )
        self._line: Line = line_of(installation)
        self._name = name
        self._scenes = 0

    def customer(self, name: str, number: str) -> Customer:
        return Customer(name, Telephone(self._line, number))

    async def close(self) -> None:
        await self._line.client.aclose()

    def scene(self, title: str) -> None:
        self._scenes += 1
        console.print()
        console.print(f"[bold cyan]{self._scenes:2}[/]  [bold]{escape(title)}[/]")

    async def says(self, customer: Customer, text: str) -> Handled:
        """A message, and all that the customer then sees of it, or would have seen."""
        self.shift.by += PACE
        row(customer.name, plain(text, "bold"), "magenta")
        message = await customer.telephone.write(text, name=customer.name)
        handled = await self.evidence.handled(message)
        if handled.verdict != "turn":
            direction(f"guard: {VERDICTS.get(handled.reason or '', handled.reason)}")
        await self.shows(customer)
        if handled.reply_state == "draft":
            row("(draft)", plain(handled.reply or "", "italic"), "yellow")
        return handled

    async def says_again(self, customer: Customer, text: str) -> int:
        """The channel delivers the customer's last message a second time; the status answered."""
        again = (
            Text().append(text, style="bold").append(" (the channel delivers it a second time)", style="dim")
        )
        row(customer.name, again, "magenta")
        return await customer.telephone.write_again(customer.telephone.last, text)

    async def shows(self, customer: Customer) -> list[Arrived]:
        """What has arrived on the customer's telephone."""
        arrived = await customer.telephone.arrived()
        for one in arrived:
            text = plain(one.text)
            for _, title in one.buttons:
                text.append(f" [{title}]", style="cyan")
            row(self._name, text, "green")
        return arrived

    async def drafts(self) -> Sequence[WaitingDraft]:
        """What waits for a person of the business."""
        return await PostgresWaiting(self.database).drafts(self.slug)

    async def conversation(self, customer: Customer) -> ConversationId:
        """Raises CannotPlay for a customer who has not written."""
        name = f"{self.slug}:{customer.telephone.number}"
        found = await PostgresWaiting(self.database).find_conversation(name)
        if found is None:
            raise CannotPlay(f"{customer.name} has not written.")
        return found

    async def does(self, what: str | None, outcome: Outcome) -> None:
        """A person of the business has done something; wait for what follows. Raises CannotPlay if it was refused."""
        if what is not None:
            direction(what)
        if not isinstance(outcome, Done):
            raise CannotPlay(f"The demo's operator was refused: {sentence(outcome)}")
        await self.evidence.settled(within_s=SETTLED_WITHIN_S)

    def check(self, what: str, *, holds: bool, found: object) -> None:
        self.checks.expect(what, holds=holds, found=found)


def row(name: str, text: Text, style: str = "") -> None:
    """One entry of the chat, wrapped under itself, without trailing blanks in a file."""
    paragraph(text, first=Text(f"    {name:<{INDENT - 4}}", style=style), indent=INDENT)


def direction(text: str) -> None:
    """What happens behind the scene."""
    row("", Text(f"({text})", style="blue"))
