"""A conversation's whole story as the record has it: every event with its words for people and its values for programs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from leeway.operators import one_line
from shared.database import Database, load_queries
from shared.ids import ConversationId

QUERIES = load_queries(Path(__file__).with_name("conversation.sql"))
BODY_CHARS_SHOWN: Final = 2_000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. `at` is shown; `order` is when it was written, which no simulation shifts."""

    kind: str
    at: datetime
    order: datetime
    head: str
    below: tuple[str, ...]
    values: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of all model calls; those whose price nobody knows are counted apart."""

    calls: int
    usd: Decimal
    unknown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    whose: Row
    events: Sequence[Event]
    cost: Cost


async def story_of(database: Database, conversation: ConversationId) -> Story | None:
    """All of it, in order; None for a conversation that is not there."""
    heads = await database.fetch(QUERIES["head"], conversation)
    if not heads:
        return None
    events: list[Event] = []
    calls: Sequence[Row] = []
    for query, kind, tell in _KINDS:
        rows = await database.fetch(QUERIES[query], conversation)
        calls = rows if query == "calls" else calls
        for row in rows:
            head, *below = tell(row)
            order = _order(row, calls) if query == "tool_calls" else _order(row)
            values = dict(row) | {"kind": kind}
            events.append(
                Event(kind=kind, at=row["at"], order=order, head=head, below=tuple(below), values=values)
            )
    events.sort(key=lambda one: one.order)
    return Story(whose=heads[0], events=events, cost=_cost(calls))


def _order(row: Row, calls: Sequence[Row] = ()) -> datetime:
    """Of the id where there is one, since ids carry the time at which they were made; a tool's right after its call."""
    asked_by = next((one for one in calls if (one["turn"], one["n"]) == (row.get("turn"), row.get("n"))), row)
    id_ = asked_by.get("id")
    if isinstance(id_, UUID) and id_.version == 7:
        return datetime.fromtimestamp((id_.int >> 80) / 1000, UTC)
    at: datetime = row["at"]
    return at


def _cost(calls: Sequence[Row]) -> Cost:
    known = [row["cost_usd"] for row in calls if row["cost_usd"] is not None]
    unknown = sum(row["cost_usd"] is None for row in calls)
    return Cost(calls=len(calls), usd=sum(known, Decimal(0)), unknown=unknown)


def _because(row: Row) -> str:
    return f" ({row['reason']})" if row["reason"] else ""


def _message(row: Row) -> list[str]:
    said = "[deleted]" if row["deleted_at"] else row["body"] or f"[{row['kind']}]"
    pressed = f" [pressed {row['button']}]" if row["button"] else ""
    verdict = f"guard: {row['verdict']}{_because(row)}" if row["verdict"] else "guard: not judged yet"
    marks = [word for word, is_so in (("forwarded", row["forwarded"]), ("edited", row["edited_at"])) if is_so]
    marked = f" [{', '.join(marks)}]" if marks and not row["deleted_at"] else ""
    later = [f"edited afterwards to: {one_line(row['edited_to'])}"] if row["edited_to"] is not None else []
    return [one_line(f"{said}{pressed}{marked}", most=BODY_CHARS_SHOWN), *later, verdict]


def _part(row: Row) -> list[str]:
    head = ": ".join(one_line(text) for text in (row["part"], row["name"], row["words"]) if text)
    content = "" if row["state"] == "kept" else f"content: {row['state']}{_because(row)}"
    return [head, *([content] if content else [])]


def _turn(row: Row) -> list[str]:
    of = (
        f"message {row['seq_from']}"
        if row["seq_from"] == row["seq_to"]
        else f"messages {row['seq_from']} to {row['seq_to']}"
    )
    cause = of if row["cause_kind"] == "message" else f"a {row['cause_kind']}"
    outcome = f": {row['outcome']}" if row["outcome"] else ""
    tried = f", attempt {row['attempts']}" if row["attempts"] > 1 else ""
    return [f"of {cause}, {row['engine']} on {row['model']}: {row['state']}{outcome}{tried}"]


def _call(row: Row) -> list[str]:
    tokens = (
        f"{row['input_tokens'] or 0} in ({row['cached_tokens'] or 0} cached), {row['output_tokens'] or 0} out"
    )
    thought = f" ({row['reasoning_tokens']} reasoning)" if row["reasoning_tokens"] else ""
    cost = "cost unknown" if row["cost_usd"] is None else f"${row['cost_usd'].normalize():f}"
    took = f", {row['latency_ms']} ms" if row["latency_ms"] is not None else ""
    head = f"{row['provider']} {row['model']}, call {row['n']}: {row['state']}"
    failed = [f"error: {one_line(row['error'])}"] if row["error"] else []
    return [f"{one_line(head)}, {tokens}{thought}, {cost}{took}", *failed]


def _tool(row: Row) -> list[str]:
    head = f"{row['tool']} → {row['decision']}{_because(row)}"
    why = [f"why: {one_line(row['why'])}"] if row["why"] else []
    return [
        one_line(head),
        f"arguments: {one_line(row['arguments'])}",
        *why,
        f"result: {one_line(row['result'])}",
    ]


def _action(row: Row) -> list[str]:
    asked = f"asks {row['asked']}, {row['confirmations_needed']} confirmations: {row['state']}{_because(row)}"
    head = f"{row['tool']}: {one_line(row['summary'])}" if row["summary"] else row["tool"]
    decided = []
    if row["decided"]:
        why = f": {one_line(row['decided_why'])}" if row["decided_why"] else ""
        decided.append(f"{row['decided']} by {one_line(row['decided_by'] or 'the clock')}{why}")
    return [head, asked, *decided]


def _confirmation(row: Row) -> list[str]:
    return [f"{row['tool']}, step {row['step']}"]


def _receipt(row: Row) -> list[str]:
    return [f"{row['tool']}: done", f"result: {one_line(row['result'])}"]


def _reply(row: Row) -> list[str]:
    tries = (
        f", {row['attempts']} attempts"
        if row["attempts"] > 1
        else ", 1 attempt"
        if row["attempts"]
        else ", not tried"
    )
    why = f" ({one_line(row['attempt_reason'])})" if row["attempt_reason"] else ""
    parts = f", part {row['parts_sent']} of {row['parts']}" if row["parts"] > 1 else ""
    round_ = f", round {row['round']}" if row["round"] > 1 else ""
    return [
        one_line(row["body"], most=BODY_CHARS_SHOWN),
        f"{row['state']}{_because(row)}{parts}{round_}{tries}{why}",
    ]


def _decision(row: Row) -> list[str]:
    done = {"send": "sent", "edit": "edited and sent", "discard": "discarded"}[row["decision"]]
    return [f"the draft of round {row['round']} was {done} by {one_line(row['decided_by'])}"]


def _handoff(row: Row) -> list[str]:
    claimed = [f"claimed by {one_line(row['claimed_by'])}"] if row["claimed_by"] else []
    released = []
    if row["released_at"]:
        note = f": {one_line(row['note'])}" if row["note"] else ""
        released.append(f"released by {one_line(row['released_by'] or 'itself')}{note}")
    return [f"to people, because {row['reason']}", *claimed, *released]


def _flag(row: Row) -> list[str]:
    return [row["reason"] + (", dismissed" if row["dismissed_at"] else "")]


_KINDS: Final[Sequence[tuple[str, str, Callable[[Row], list[str]]]]] = (
    ("messages", "customer", _message),
    ("parts", "attached", _part),
    ("flags", "flag", _flag),
    ("turns", "turn", _turn),
    ("calls", "model", _call),
    ("tool_calls", "tool", _tool),
    ("confirmations", "yes", _confirmation),
    ("receipts", "receipt", _receipt),
    ("actions", "action", _action),
    ("replies", "reply", _reply),
    ("decisions", "decision", _decision),
    ("handoffs", "handoff", _handoff),
)
