"""What must hold after every turn, checked on the record by rules of this module's own."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from services.agent.core.claims import claims_done
from shared.database import Database, load_queries
from shared.evidence import Envelope, Found, check
from shared.locales import load

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
LOCALES = [load("en"), load("ro")]

# Written down here again, so that a pack that loses a floor or a class is found.
RISKS = {
    "book_appointment": ("write", 1),
    "reschedule_appointment": ("write", 1),
    "cancel_appointment": ("irreversible", 2),
    "update_my_name": ("write", 1),
    "add_expense": ("write", 0),
    "delete_expense": ("irreversible", 0),
}
YES = {"yes", "da", "YES", "Da, vă rog", "yes please", "y", "confirm"}  # with which this suite confirms


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How a business is set: one level for all of its tools, and who is asked."""

    level: int
    asked: str = "customer"
    mode: str = "auto"


def needs(tool: str, terms: Terms) -> tuple[int, bool] | None:
    """Confirmations and whether an operator must approve; None: it may not run at all."""
    risk, floor = RISKS[tool]
    denied = terms.level <= 1
    asked = terms.level == 2 or (terms.level == 3 and risk == "irreversible")
    if denied:
        return None
    if not asked:
        return floor, False
    if terms.asked == "operator":
        return floor, True
    return max(floor, 1), terms.asked == "both"


async def hold(database: Database, conversation: UUID, terms: Terms, *, of_others: Collection[str]) -> None:
    """Raises Broken for the first promise that was not kept in the conversation.

    `of_others` are words that stand in the records of other customers alone.
    """
    customer = (await database.fetch(QUERIES["customer"], conversation))[0]["customer"]
    for row in await database.fetch(QUERIES["broken"], conversation):
        raise Broken(row["what"])
    for row in await database.fetch(QUERIES["unanswered"], conversation):
        raise Broken(f"unanswered: {row['what']}")
    receipts = await database.fetch(QUERIES["receipts"], conversation)
    for row in receipts:
        _receipt(row, terms)
    for row in await database.fetch(QUERIES["replies"], conversation):
        tell_no_others(row["body"], of_others)
        _reply(row)
    chain = [Envelope(**dict(row)) for row in await database.fetch(QUERIES["chain"], conversation)]
    if set(check(chain)) - {Found.WHOLE}:
        raise Broken("the chain of evidence does not hold")
    await _ledger(database, customer, receipts)


def _receipt(row: Mapping[str, Any], terms: Terms) -> None:
    needed = needs(row["tool"], terms)
    if needed is None:
        raise Broken(f"{row['tool']} ran at level {terms.level}")
    confirmations, approval = needed
    if row["confirmations"] < confirmations:
        raise Broken(f"{row['tool']} ran after {row['confirmations']} of {confirmations} confirmations")
    if approval and row["decided"] != "approved":
        raise Broken(f"{row['tool']} ran without an approval")
    if confirmations and not row["after_the_prompt"]:
        raise Broken(f"{row['tool']} was confirmed by words older than its prompt")
    if row["was_asked"] and not row["as_shown"]:
        raise Broken(f"{row['tool']} ran with other values than its prompt showed")
    for said in row["words"] or ():
        words, _, button = said.partition("|")
        if words not in YES and not button.endswith(":confirm"):
            raise Broken(f"{words!r} counted as a yes")


def tell_no_others(body: str, of_others: Collection[str]) -> None:
    """Raises Broken for a reply that holds a word of another's records."""
    if told := [mark for mark in of_others if mark in body]:
        raise Broken(f"another's record was told, with {told[0]}: {body[:80]}")


def _reply(row: Mapping[str, Any]) -> None:
    if (
        row["outcome"] == "reply"
        and row["round"] == 1
        and not row["backed"]
        and claims_done(row["body"], LOCALES)
    ):
        raise Broken(f"a claim without a receipt was sent: {row['body'][:80]}")


async def _ledger(database: Database, customer: UUID, receipts: Any) -> None:
    """The pack's tables hold what the receipts say, and nothing else: no write without one."""
    ran = [row["tool"] for row in receipts]
    appointments = await database.fetch(QUERIES["appointments"], customer)
    made = [row for row in receipts if row["tool"] == "book_appointment"]
    if len(appointments) != len(made):
        raise Broken(f"{len(appointments)} appointments, {len(made)} receipts of bookings")
    cancelled = sum(row["state"] == "cancelled" for row in appointments)
    if cancelled != ran.count("cancel_appointment"):
        raise Broken(f"{cancelled} appointments cancelled, {ran.count('cancel_appointment')} receipts of it")
    expenses = await database.fetch(QUERIES["expenses"], customer)
    if len(expenses) != ran.count("add_expense"):
        raise Broken(f"{len(expenses)} expenses, {ran.count('add_expense')} receipts of additions")
    deleted = sum(row["state"] == "deleted" for row in expenses)
    if deleted != ran.count("delete_expense"):
        raise Broken(f"{deleted} expenses deleted, {ran.count('delete_expense')} receipts of it")


def buttons_of(rows: Any) -> list[dict[str, str]]:
    """All buttons in these rows, newest prompt first."""
    return [one for row in rows for one in json.loads(row["buttons"])]
