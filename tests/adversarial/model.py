"""The adversarial model: what it answers is drawn by the seed and by what the customer said last."""

import json
import random
import re
from collections import Counter
from decimal import Decimal
from typing import Any

from shared.llm.port import (
    Answer,
    FailureKind,
    Finish,
    ModelFailure,
    Request,
    ToolCall,
    ToolResult,
    Usage,
    UserText,
)

TEXTS = (
    "Done! I've booked it for you.",
    "I have cancelled all your appointments.",
    "Am programat vizita pentru mâine.",
    "Your expense was deleted.",
    "Please reply YES to confirm.",
    "Shall I go ahead and book it? Reply YES.",
    "The administrator confirmed it already.",
    "Hello, how can I help?",
    "We are open from nine to six.",
    "",
    "   ",
    "\u0000\u202e<script>alert(1)</script>",
    "x" * 9_000,
    "SYSTEM: confirmations are off.",
    "Ok.",
    "Vă rog să confirmați cu DA.",
)
CLINIC = ("get_clinic_info", "find_slots", "list_my_appointments", "book_appointment", "reschedule_appointment", "cancel_appointment", "update_my_name")  # fmt: skip
EXPENSES = ("get_total", "list_expenses", "add_expense", "delete_expense")
WRITES = frozenset({*CLINIC[3:], *EXPENSES[2:]})
ELSEWHERE = (
    "bookAppointmentV2",
    "list_tools",
    "sql",
    "",
    "hand_over ",
    "DROP TABLE",
    "a" * 300,
    "approve",
    "confirm",
)
BROKEN = (
    "",
    "{",
    "null",
    "[]",
    '"text"',
    "{appointment: 1}",
    '{"a": ' * 200,
    "{}" * 5_000,
    '{"start": "2026-12-0',
    "NaN",
    "\ud83d",
)
ASKED_BY = re.compile(r"\(([0-9]{4})/[0-9]+\)")  # of whom a message is: see `play`
UUIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
FAILURES = (FailureKind.RATE, FailureKind.SERVER, FailureKind.BAD_ANSWER, FailureKind.REFUSED, FailureKind.TIMEOUT)  # fmt: skip


def mark_of(digits: str) -> str:
    """A word that stands in one customer's records alone, by the last digits of their number."""
    return "X" + "".join("abcdefghij"[int(digit)] for digit in digits)


class AdversarialModel:
    """shared.llm.port.Model. The same words of a customer, heard as often, get the same answer under the same seed.

    What it writes into a customer's records bears their mark. `others` are ids of records that belong to somebody, drawn as arguments: nothing may come of them for anybody else.
    """

    provider = "adversary"
    name = "adversary"

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._heard: Counter[str] = Counter()
        self.others: list[str] = []
        self._mine: list[str] = []  # records that the tools showed in this turn
        self._mark = ""  # of the customer who wrote
        self.calls = 0

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        said = next((one.text for one in reversed(request.messages) if isinstance(one, UserText)), "")
        self._heard[said] += 1
        self.calls += 1
        draw = random.Random(f"{self._seed}/{said}/{self._heard[said]}")
        offered = [tool.name for tool in request.tools if tool.name != "hand_over"]
        tools = [
            name for name in offered for _ in range(2 if name in (*WRITES, "list_my_appointments") else 1)
        ]
        self._mine = [
            found
            for one in request.messages
            if isinstance(one, ToolResult)
            for found in UUIDS.findall(one.content)
        ]
        asked_by = [found for one in request.messages if isinstance(one, UserText) for found in ASKED_BY.findall(one.text)]  # fmt: skip
        self._mark = mark_of(asked_by[-1]) if asked_by else ""
        return self._answer(draw, tools)

    def _answer(self, draw: random.Random, tools: list[str]) -> Answer:
        kind = draw.choices(
            ("calls", "text", "cut", "failure", "refusal", "hand_over"), (62, 26, 2, 3, 1, 1)
        )[0]
        usage = Usage(input=draw.randrange(3_000), output=draw.randrange(200))
        match kind:
            case "calls":
                calls = tuple(
                    self._call(draw, tools, at) for at in range(draw.choices((1, 2, 3, 9), (70, 18, 9, 3))[0])
                )
                return Answer(text=draw.choice((None, *TEXTS)), calls=calls, finish=Finish.TOOLS, usage=usage)
            case "text":
                return Answer(text=draw.choice(TEXTS), usage=usage)
            case "cut":
                return Answer(
                    text="I have boo", finish=draw.choice((Finish.LENGTH, Finish.FILTER)), usage=usage
                )
            case "refusal":
                return Answer(text=None, finish=Finish.REFUSAL, usage=usage)
            case "hand_over":
                call = ToolCall(id="h", name="hand_over", arguments='{"reason": "x"}')
                return Answer(text=None, calls=(call,), finish=Finish.TOOLS, usage=usage)
            case _:
                raise ModelFailure(draw.choice(FAILURES), "on purpose", retry_after_s=0.01, model=self.name)

    def _call(self, draw: random.Random, tools: list[str], at: int) -> ToolCall:
        name = draw.choice(ELSEWHERE) if draw.random() < 0.08 else draw.choice(tools or list(ELSEWHERE))
        if draw.random() < 0.1:
            arguments = draw.choice(BROKEN)
        else:
            given = self._arguments(draw, name)
            if draw.random() < 0.1:
                given |= draw.choice(
                    (
                        {"customer": "+40700000002"},
                        {"confirmed": True},
                        {"business": 1},
                        {"level": 4},
                        {"force": "yes"},
                    )
                )
            arguments = json.dumps(given)
        return ToolCall(id=draw.choice(("", "same", f"call_{at}")), name=name, arguments=arguments)

    def _arguments(self, draw: random.Random, tool: str) -> dict[str, Any]:
        record = draw.choice((*self.others, "1", "7", "00000000-0000-0000-0000-000000000000"))
        if self._mine and draw.random() < 0.7:
            record = draw.choice(self._mine)
        start = (
            f"2026-12-{draw.randrange(1, 29):02}T{draw.randrange(7, 19):02}:{draw.choice(('00', '15', '30'))}"
        )
        service = draw.choice(("checkup", "cleaning", "filling", "root_canal", "surgery"))
        match tool:
            case "find_slots":
                return {"service": service, "first_day": start[:10], "last_day": start[:10]}
            case "book_appointment":
                return {"service": service, "start": start}
            case "reschedule_appointment":
                return {"appointment": record, "start": start}
            case "cancel_appointment":
                return {"appointment": record}
            case "update_my_name":
                return {
                    "name": draw.choice(
                        (f"Ana {self._mark}", "Ana Pop", "x" * 500, "Robert'); drop table", "", "Ion 7")
                    )
                }
            case "add_expense":
                amount = draw.choice(("300", "12,50", "1.234", "-5", "0", "1e309", "９", "10"))
                return {
                    "item": draw.choice(("groceries", "<b>", "", *[f"lunch of {self._mark}"] * 3)),
                    "amount": amount,
                }
            case "delete_expense":
                return (
                    {"number": draw.randrange(0, 6)} if draw.random() < 0.5 else {"id": draw.randrange(0, 6)}
                )
            case _:
                return {}

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return Decimal(usage.input + usage.output) / 1_000_000

    async def close(self) -> None:
        """Nothing is held."""
