"""What begins with a slash: a table of commands, and what each does."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from zoneinfo import ZoneInfo

from leeway.operators import who
from leeway.policy import policy as policy_of
from leeway.simulator import screen
from leeway.simulator.session import OPERATOR, Session, Wrong
from leeway.simulator.why import explain
from leeway.simulator.words import DRAFTS, told
from shared.autonomy import Asked, Mode
from shared.phones import e164

DECLINED_BECAUSE: Final = {"ro": "Nu este posibil în acest moment."}
DECLINED_BECAUSE_ELSE: Final = "It is not possible at the moment."
MOVED_MAX: Final = timedelta(days=366)
_SPAN: Final = re.compile(r"\+\s*([0-9]{1,6})\s*([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Quit(Exception):
    """Enough."""


@dataclass(frozen=True, slots=True)
class Command:
    usage: str  # what follows its name
    what: str
    does: Callable[[Session, str], Awaitable[None]]


async def obey(session: Session, typed: str) -> None:
    """Do what a line with a slash says. Raises Wrong for what can't be done, Quit at the end."""
    name, _, rest = typed[1:].strip().partition(" ")
    command = COMMANDS.get(name.casefold())
    if command is None:
        raise Wrong(f"There is no /{name}; there are: {', '.join(f'/{one}' for one in COMMANDS)}.")
    await command.does(session, rest.strip())


# The dials


async def _level(session: Session, rest: str) -> None:
    match rest.split():
        case [mode] if mode.casefold() in list(Mode):
            await _mode(session, mode)
        case [level] if level in LEVELS:
            await set_levels(session, {tool.name: int(level) for tool in session.pack.tools})
            await _policy(session, "")
        case [tool, level, *asked] if level in LEVELS and asked in _ASKED:
            await set_levels(session, {tool: int(level)}, asked=Asked(asked[0]) if asked else None)
            screen.policy(await _found(session), only=tool)
        case _:
            raise Wrong(
                "/level takes off, suggest or auto; or 0 to 4; or a tool, 0 to 4, and who is asked: customer, operator, both."
            )


async def _mode(session: Session, rest: str) -> None:
    if rest.casefold() not in list(Mode):
        raise Wrong("/mode takes off, suggest or auto.")
    await set_mode(session, Mode(rest.casefold()))
    screen.note(f"the mode is {rest.casefold()}")


async def set_mode(session: Session, mode: Mode) -> None:
    await session.dials.change(session.slug, {"mode": mode.value}, by=OPERATOR)


async def set_levels(session: Session, levels: Mapping[str, int], *, asked: Asked | None = None) -> None:
    """`asked` None: who is asked stays as it is. Raises Misconfigured for a tool that the pack has not."""
    for tool, level in levels.items():
        await session.dials.set_level(session.slug, tool, level, asked, packs=session.packs, by=OPERATOR)


async def _policy(session: Session, _: str) -> None:
    screen.policy(await _found(session))


async def _found(session: Session) -> dict[str, object]:
    business, levels = await session.dials.policy(session.slug)
    return policy_of(session.pack, mode=Mode(business["mode"]), levels=levels)


# What waits for a person


async def _drafts(session: Session, _: str) -> None:
    drafts, _approvals = await session.waiting()
    lines = [
        f"{session.numbered(one.id)}  {who(one.person)}  {told(one.reason, DRAFTS)}: {one.text}"
        for one in drafts
    ]
    screen.listing(lines, empty="No drafts wait.")


async def _send(session: Session, name: str) -> None:
    draft = await session.draft(name)
    await session.decide(await session.desk.send(draft.id, seen=draft.seen, by=OPERATOR))


async def _edit(session: Session, rest: str) -> None:
    name, _, text = rest.partition(" ")
    if not text.strip():
        raise Wrong("/edit takes a draft's number or id, and the text to send.")
    draft = await session.draft(name)
    await session.decide(await session.desk.edit(draft.id, text, seen=draft.seen, by=OPERATOR))


async def _discard(session: Session, name: str) -> None:
    draft = await session.draft(name)
    await session.decide(await session.desk.discard(draft.id, seen=draft.seen, by=OPERATOR))


async def _approvals(session: Session, _: str) -> None:
    _drafts, approvals = await session.waiting()
    lines = [f"{session.numbered(one.id)}  {who(one.person)}  {one.summary}" for one in approvals]
    screen.listing(lines, empty="Nothing waits for an approval.")


async def _approve(session: Session, name: str) -> None:
    approval = await session.approval(name)
    await session.decide(await session.desk.approve(approval.id, by=OPERATOR))


async def _decline(session: Session, rest: str) -> None:
    name, _, why = rest.partition(" ")
    approval = await session.approval(name)
    because = why.strip() or DECLINED_BECAUSE.get(session.locale, DECLINED_BECAUSE_ELSE)
    await session.decide(await session.desk.decline(approval.id, because, by=OPERATOR))


async def _take(session: Session, _: str) -> None:
    standing = await session.standing()
    await session.decide(await session.desk.take(standing.id, by=OPERATOR))


async def _reply(session: Session, text: str) -> None:
    if not text:
        raise Wrong("/reply takes the text to send, as a person of the business.")
    standing = await session.standing()
    await session.decide(await session.desk.reply(standing.id, text, by=OPERATOR))


async def _release(session: Session, number: str) -> None:
    standing = await session.standing(_telephone(number) if number else None)
    await session.decide(await session.desk.release(standing.id, by=OPERATOR))


# The customer, and the clock


async def _press(session: Session, which: str) -> None:
    await session.press(which)


async def _as(session: Session, number: str) -> None:
    session.number = _telephone(number)
    standing = await session.record.standing(session.number)
    new = "a new customer" if standing is None else "the conversation goes on"
    screen.note(f"you are {session.number}: {new}")


def _telephone(text: str) -> str:
    number = e164(text)
    if number is None:
        raise Wrong("That is no telephone number; write it like +40700000011.")
    return number


async def _time(session: Session, rest: str) -> None:
    if rest:
        read = _SPAN.fullmatch(rest.casefold())
        by = timedelta(**{_UNITS[read[2]]: int(read[1])}) if read else timedelta()
        if not timedelta() < by <= MOVED_MAX:
            raise Wrong("/time takes how far to move on, like +20m, +1h or +2d (at most 366 days).")
        await session.move(by)
    business, _ = await session.dials.policy(session.slug)
    now = session.now().astimezone(ZoneInfo(business["time_zone"]))
    screen.note(f"it is {now:%A %d %B %Y, %H:%M} ({business['time_zone']})")


async def _why(session: Session, _: str) -> None:
    standing = await session.standing()
    for line in await explain(session.database, standing.id):
        screen.line(line)


async def _help(session: Session, _: str) -> None:
    screen.line("What you write goes to the business as a customer's message. Beside that:")
    for name, command in COMMANDS.items():
        screen.line(f"  {f'/{name} {command.usage}':<30}  {command.what}")
    screen.line(
        "Text that begins with a slash: write two. ID is a number as shown, or the beginning of an id."
    )
    screen.line("A customer whose number ends in 000099 can't be reached: every send to it is refused.")


async def _quit(_session: Session, _: str) -> None:
    raise Quit


LEVELS: Final = ("0", "1", "2", "3", "4")
_ASKED: Final = ([], *([one.value] for one in Asked))
COMMANDS: Final[Mapping[str, Command]] = {
    "press": Command("1|2|TITLE", "press a button of the last message that had some", _press),
    "as": Command("+40…", "be another customer; each conversation goes on", _as),
    "time": Command("[+20m|+1h|+2d]", "the time of the business; move it on", _time),
    "why": Command("", "what was decided about the last message, and by what", _why),
    "mode": Command("off|suggest|auto", "what becomes of replies", _mode),
    "level": Command("[TOOL] 0…4", "how freely a tool, or each, may run; and who is asked:", _level),
    "policy": Command("", "each tool's level, and what a call of it comes to", _policy),
    "drafts": Command("", "replies that wait for a person", _drafts),
    "send": Command("[ID]", "send a draft as it is", _send),
    "edit": Command("ID TEXT", "send a draft with another text", _edit),
    "discard": Command("[ID]", "never send a draft", _discard),
    "approvals": Command("", "actions that wait for a person", _approvals),
    "approve": Command("[ID]", "yes: it is carried out", _approve),
    "decline": Command("[ID] [REASON]", "no; the customer reads the reason", _decline),
    "take": Command("", "take the conversation over from the bot", _take),
    "reply": Command("TEXT", "answer as a person, once people have it", _reply),
    "release": Command("[PHONE]", "give the conversation back to the bot", _release),
    "help": Command("", "this list", _help),
    "quit": Command("", "end (Ctrl-D, too)", _quit),
}
