"""`/why`: what was decided about a customer's last message, and by what, as the record has it."""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from leeway.operators import one_line
from leeway.simulator.words import NOTHING, told
from shared.database import Database, load_queries
from shared.ids import ConversationId

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))

Row = Mapping[str, Any]


async def explain(database: Database, conversation: ConversationId) -> Sequence[str]:
    """Lines for people, each with what it is about first."""

    async def rows(name: str, key: object = conversation) -> Sequence[Row]:
        return await database.fetch(QUERIES[name], key)

    lines = [_message(row) for row in await rows("message")]
    for turn in await rows("turn"):
        calls = await rows("calls", turn["id"])
        lines.append(_turn(turn))
        lines += [_call(row) for row in calls]
        for row in await rows("tools", turn["id"]):
            lines += _tool(row)
        lines += [_confirmation(row) for row in await rows("confirmations", turn["id"])]
        lines += [_receipt(row) for row in await rows("receipts", turn["id"])]
        lines += [_action(row) for row in await rows("action")]
        lines += [_reply(row) for row in await rows("replies", turn["id"])]
        lines.append(_cost(calls))
    return lines


def _line(what: str, text: str) -> str:
    return f"{what:<9}{one_line(text)}"


def _message(row: Row) -> str:
    verdict = row["verdict"] or "not judged yet"
    said = f"“{row['body']}”" if row["kind"] == "text" else f"[{row['kind']}: {row['body']}]"
    if verdict == "turn":
        return _line("guard", f"{said} passes to the bot")
    return _line("guard", f"{said}: {verdict}, {told(row['reason'], NOTHING)}")


def _turn(row: Row) -> str:
    of = {"message": "a message", "decision": "an operator's decision", "clock": "the clock"}
    outcome = f": {row['outcome']}" if row["outcome"] else ""
    return _line(
        "turn", f"of {of[row['cause_kind']]}, {row['engine']} on {row['model']}, {row['state']}{outcome}"
    )


def _call(row: Row) -> str:
    tokens = f"{row['input_tokens'] or 0:,} tokens in, {row['output_tokens'] or 0:,} out"
    took = f", {row['latency_ms']:,} ms" if row["latency_ms"] is not None else ""
    failed = f", error: {row['error']}" if row["error"] else ""
    return _line("model", f"call {row['n']}: {row['state']}, {tokens}, {_usd(row['cost_usd'])}{took}{failed}")


def _tool(row: Row) -> list[str]:
    reason = f" ({row['reason']})" if row["reason"] else ""
    said = [_line("tool", f"{row['tool']} {row['arguments']}"), _line("", f"{row['decision']}{reason}")]
    if because := _because(row["why"]):
        said.append(_line("", f"because {because}"))
    return [*said, _line("", f"result {row['result']}")]


def _because(why: str | None) -> str:
    """The gate's reasons. Of an older record, or a tool that is not there, some are missing."""
    try:
        found = json.loads(why or "{}")
    except ValueError:
        return ""
    said = []
    if found.get("level_from"):
        source = "this business's" if found["level_from"] == "business" else "the pack's"
        said.append(f"level {found.get('level')} ({source}) and risk {found.get('risk')}")
    if found.get("floor"):
        said.append(f"a floor of {found['floor']} at every level")
    if found.get("ruling"):
        said.append(f"ruling: {found['ruling']}")
    if found.get("ruling") == "ask":
        said.append(f"{found.get('confirmations')} × the customer's yes; asked: {found.get('asked')}")
    if found.get("code"):
        said.append(str(found["code"]))
    return ", ".join(said)


def _confirmation(row: Row) -> str:
    return _line("yes", f"confirmation {row['step']} of {row['confirmations_needed']} of {row['tool']}")


def _receipt(row: Row) -> str:
    return _line("receipt", f"{row['tool']}: {row['result']}")


def _action(row: Row) -> str:
    reason = f" ({row['reason']})" if row["reason"] else ""
    waits = {"customer": "waits for the customer's yes", "operator": "waits for a person's approval"}
    step = f", step {row['step']} of {row['confirmations_needed']}" if row["state"] == "customer" else ""
    return _line(
        "request", f"{row['summary'] or row['tool']} {waits.get(row['state'], row['state'])}{step}{reason}"
    )


def _reply(row: Row) -> str:
    reason = f" ({row['reason']})" if row["reason"] else ""
    return _line("reply", f"{row['state']}{reason}")


def _cost(calls: Sequence[Row]) -> str:
    unknown = sum(row["cost_usd"] is None for row in calls)
    known = sum((row["cost_usd"] for row in calls if row["cost_usd"] is not None), Decimal(0))
    if calls and unknown == len(calls):
        return _line("cost", f"unknown, in {len(calls)} model call{'' if unknown == 1 else 's'}")
    apart = f"; {unknown} of unknown cost are not in it" if unknown else ""
    return _line("cost", f"{_usd(known)} in {len(calls)} model call{'' if len(calls) == 1 else 's'}{apart}")


def _usd(cost: Decimal | None) -> str:
    return "cost unknown" if cost is None else f"${cost.normalize():f}"
