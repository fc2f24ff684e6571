"""The demo's script for expenses: one sentence at four levels, side by side."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.text import Text

from leeway.businesses import NewBusiness, new_secret, seed_pack
from leeway.evidence import Handled
from leeway.screenplay import PACE, Customer, Stage, row
from leeway.terminal import console, plain, shown
from shared.database import queries_of

SENTENCE: Final = "Add 300 for groceries, then delete expense 1"
LEVELS: Final = (1, 2, 3, 4)
LABEL_CHARS: Final = 10
CELL_CHARS: Final = 16
LISTED_MOST: Final = 20
# What the gate said to a call → what that means
RULINGS: Final = {
    ("allow", None): "done at once",
    ("ask", None): "asks Ana first",
    ("deny", "not_permitted_at_level"): "denied",
    ("refuse", "one_action_at_a_time"): "not now: one thing at a time",
}

Expenses = tuple[str, ...]

RENT: Final = "1. rent 900.00"
GROCERIES: Final = "2. groceries 300.00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What the sentence came to at one level, and what a YES then did."""

    calls: tuple[str, str]  # the addition's ruling, and the deletion's
    told: str
    stored: Expenses
    yes: str  # what a YES was answered; empty where nothing was asked
    stored_after: Expenses


async def play_expenses(stage: Stage, business: NewBusiness) -> None:
    """One customer, one list, four times: only the dial differs."""
    stage.scene("One sentence, four levels of freedom for the bot")
    row("", plain("Ana has one expense on her list, “1. rent 900.00”. She writes:"))
    row("Ana", plain(SENTENCE, "bold"), "magenta")
    console.print()
    came = [await _at_level(stage, business, level) for level in LEVELS]
    _columns("", [f"level {level}" for level in LEVELS], style="bold")
    for at, what in enumerate(("adding", "deleting")):
        _columns(what, [one.calls[at] for one in came])
    _columns("bot says", [one.told for one in came])
    _columns("stored", [_listed(one.stored) for one in came], style="green")
    _columns("Ana: YES", [one.yes or "(not asked)" for one in came])
    _columns("stored", [_listed(one.stored_after) for one in came], style="green")
    console.print()
    _check(stage, came)


def _check(stage: Stage, came: Sequence[Came]) -> None:
    at_1, at_2, at_3, at_4 = came
    denied, asked, done = RULINGS["deny", "not_permitted_at_level"], "asks Ana first", "done at once"
    in_turn = RULINGS["refuse", "one_action_at_a_time"]
    rent, both, groceries = (RENT,), (RENT, GROCERIES), (GROCERIES,)
    for what, found, expected in (
        ("level 1: both denied, nothing asked, nothing changed", at_1, ((denied, denied), rent, False, rent)),
        ("level 2: asked for the addition alone, and a YES did that alone", at_2, ((asked, in_turn), rent, True, both)),
        ("level 3: added at once; deleted only after a YES", at_3, ((done, asked), both, True, groceries)),
        ("level 4: both done at once, in that order", at_4, ((done, done), groceries, False, groceries)),
    ):  # fmt: skip
        facts = (found.calls, found.stored, bool(found.yes), found.stored_after)
        stage.check(what, holds=facts == expected, found=facts)


async def _at_level(stage: Stage, business: NewBusiness, level: int) -> Came:
    """The same story in a business of its own."""
    there = await _business(stage, replace(business, slug=f"{business.slug}-{level}"))
    try:
        return await _told(there, level)
    finally:
        await there.close()


async def _told(there: Stage, level: int) -> Came:
    ana = there.customer("Ana", "+40700000001")
    await _set(there, max(LEVELS))
    await _writes(there, ana, "Add 900 for rent")
    await _set(there, level)
    handled = await _writes(there, ana, SENTENCE)
    stored = await _expenses(there, ana)
    yes = await _writes(there, ana, "YES") if handled.buttons else None
    rulings = {one.tool: RULINGS.get((one.decision, one.reason), one.decision) for one in handled.tools}
    return Came(
        calls=(rulings.get("add_expense", "not tried"), rulings.get("delete_expense", "not tried")),
        told=handled.reply or "",
        stored=stored,
        yes=(yes.reply or "") if yes else "",
        stored_after=await _expenses(there, ana),
    )


async def _business(stage: Stage, business: NewBusiness) -> Stage:
    """Another business of the same installation, with a line of its own."""
    installation, secret = stage.installation, new_secret()
    made = await installation.businesses.create(business)
    await installation.businesses.add_account(made, channel="sim", address=business.slug, inbound=[secret])
    await seed_pack(stage.database, stage.packs[business.pack], made, stage.clock)
    there = replace(installation, business=made, sim_address=business.slug, sim_secret=secret)
    return Stage(there, packs=stage.packs, shift=stage.shift, dials=stage.dials, name="Bot")


async def _set(there: Stage, level: int) -> None:
    for tool in there.packs["expenses"].tools:
        await there.dials.set_level(there.slug, tool.name, level, None, packs=there.packs, by="demo")


async def _writes(there: Stage, ana: Customer, text: str) -> Handled:
    there.shift.by += PACE
    return await there.evidence.handled(await ana.telephone.write(text, name=ana.name))


async def _expenses(there: Stage, ana: Customer) -> Expenses:
    """Ana's list as the pack's own tenant sees it, oldest first."""
    pack = there.packs["expenses"]
    queries = queries_of(pack)
    customer = await there.evidence.customer(ana.telephone.number)
    async with there.database.tenant(there.business, queries) as sql:
        rows = await sql.fetch("expenses.list", there.business, customer, LISTED_MOST)
    return tuple(f"{one['no']}. {one['item']} {one['amount']}" for one in reversed(rows))


def _listed(expenses: Expenses) -> str:
    return "\n".join(expenses) or "(nothing)"


def _columns(label: str, cells: Sequence[str], *, style: str = "") -> None:
    """One row of the table, each cell wrapped in its column."""
    wrapped = [
        [part for line in shown(cell).split("\n") for part in textwrap.wrap(line, CELL_CHARS) or [""]]
        for cell in cells
    ]
    for at in range(max(len(lines) for lines in wrapped)):
        parts = [(lines[at] if at < len(lines) else "").ljust(CELL_CHARS + 2) for lines in wrapped]
        head = Text((label if at == 0 else "").ljust(LABEL_CHARS), style="dim")
        line = head + Text("".join(parts).rstrip(), style=style)
        line.rstrip()
        console.print(line, soft_wrap=True)
