"""What the simulator prints: the chat, and beside it what customers don't see, in brackets. Plain when piped."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from leeway.operators import one_line
from leeway.simulator.record import Delivery, HandedOver, News
from leeway.simulator.words import DRAFTS, HANDOFFS, told
from leeway.terminal import console, paragraph, plain
from services.console.core.waiting import WaitingApproval, WaitingDraft

LABELS: Final = {"operator": ("operator", "magenta"), "reminder": ("reminder", "green")}
BOT: Final = ("bot", "green")
INDENT: Final = 10


def say(text: Text, *, label: str = "", style: str = "") -> None:
    """An entry under its label; wrapped for people, on one line for programs."""
    if console.is_terminal:
        paragraph(text, first=Text(f"{label:<{INDENT}}", style=style), indent=INDENT)
    else:
        console.print(Text(f"{label:<{INDENT}}").append_text(text), soft_wrap=True)


def note(text: str) -> None:
    """What the customer does not see."""
    say(plain(f"[{text}]", "dim"))


def line(text: str, style: str = "") -> None:
    console.print(plain(text, style), soft_wrap=True)


def show(news: News, *, to: str, numbers: Mapping[Any, int]) -> None:
    """What is new; `to` is the customer whose telephone is in hand, `numbers` names drafts and approvals."""
    for one in news.deliveries:
        delivery(one, to=to)
    for gone in news.gone:
        note(
            f"draft {numbers[gone.id]} waits no more: the customer wrote again, or people or another reply took over"
        )
    for waiting in news.drafts:
        draft(waiting, number=numbers[waiting.id], to=to)
    for asked in news.approvals:
        approval(asked, number=numbers[asked.id], to=to)
    for handed in news.handoffs:
        _handoff(handed, to=to)


def delivery(one: Delivery, *, to: str) -> None:
    label, style = LABELS.get(one.origin, BOT)
    text = _for(one.number, to).append_text(plain(one.text))
    for number, (_, title) in enumerate(one.buttons, start=1):
        text.append_text(plain(f" [{number} {title}]", "cyan"))
    say(text, label=label, style=style)


def draft(one: WaitingDraft, *, number: int, to: str) -> None:
    text = _for(one.person.address, to)
    text.append_text(plain(f"[{number}, not sent: {told(one.reason, DRAFTS)}] ", "yellow"))
    say(text.append_text(plain(one.text, "italic")), label="draft", style="yellow")


def approval(one: WaitingApproval, *, number: int, to: str) -> None:
    confirmed = "; the customer has said yes" if one.confirmed else ""
    text = _for(one.person.address, to)
    text.append_text(plain(f"[{number}, waits for a person{confirmed}] ", "yellow"))
    say(text.append_text(plain(one.summary, "italic")), label="approval", style="yellow")


def _handoff(one: HandedOver, *, to: str) -> None:
    whose = "" if one.number == to else f" {one.number}"
    if one.released:
        note(f"the bot answers{whose} again")
    else:
        note(f"people answer{whose} from now on: {told(one.reason, HANDOFFS)}; /reply TEXT, /release")


def _for(number: str, to: str) -> Text:
    return Text() if number == to else plain(f"→ {number} ", "cyan")


def policy(found: Mapping[str, Any], *, only: str | None = None) -> None:
    """The tools with what a call of each comes to."""
    tools = [tool for tool in found["tools"] if only in (None, tool["name"])]
    rows = [("tool", "risk", "level", "a call")]
    rows += [(tool["name"], tool["risk"], _level(tool), _result(tool)) for tool in tools]
    widths = [max(len(row[at]) for row in rows) + 2 for at in range(3)]
    line(f"The mode is {found['mode']}.")
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        line("".join([*cells, row[-1]]), "dim" if row is rows[0] else "")
    if any(tool["floor"] and tool["results"] == "ask" for tool in tools):
        line("* at levels 3 and 4 as well", "dim")


def _level(tool: Mapping[str, Any]) -> str:
    return str(tool["level"]) if tool["level_from"] == "business" else f"{tool['level']} (pack's)"


def _result(tool: Mapping[str, Any]) -> str:
    match tool["results"]:
        case "deny":
            return "is denied"
        case "allow":
            return "runs"
    times = {0: "", 1: "once", 2: "twice"}.get(tool["confirmations"], f"{tool['confirmations']} times")
    customer = f"asks the customer {times}{'*' if tool['floor'] else ''}" if times else ""
    operator = "asks an operator" if tool["asked"] in ("operator", "both") else ""
    return ", then ".join(one for one in (customer, operator) if one)


def listing(lines: Sequence[str], *, empty: str) -> None:
    for one in lines or (empty,):
        line(one_line(one, most=2_000))
