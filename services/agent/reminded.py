"""What becomes of a press on a reminder's button: thanks, or the tool by way of the gate. No model call."""

from collections.abc import Mapping
from dataclasses import replace

from services.agent.checks import Checks, read_arguments
from services.agent.clock_ports import SentReminders
from services.agent.commits import asking, ending, new_action, saying, silent
from services.agent.committing import Committer
from services.agent.core.gate import Ask, Code, Deny, Passage, holds_the_reply, rule, why
from services.agent.core.reminder import Button, Press, Sent, is_reminders
from services.agent.core.turn import Pending, Turn, WaitsFor
from services.agent.ports import Commit, ToolRecord, Trace
from services.agent.questions import context_of
from services.agent.writing import refusal_text
from shared.autonomy import Mode
from shared.digest import canonical
from shared.locales import load
from shared.messages import PROMPT_CHARS_MAX
from shared.packs import Pack, Refusal, Tool, tool_of

NOT_PERMITTED = "not_permitted"
CALL = (0, 0)  # the press as a call of the turn: no model's


class Reminded:
    def __init__(
        self, *, reminders: SentReminders, checks: Checks, committer: Committer, packs: Mapping[str, Pack]
    ) -> None:
        self._reminders = reminders
        self._checks = checks
        self._committer = committer
        self._packs = packs

    def is_answered_by(self, turn: Turn) -> bool:
        """Whether the turn is a press on a reminder's button."""
        press = turn.taken.button
        return press is not None and is_reminders(press.button)

    async def conclude(self, turn: Turn) -> None:
        """One commit. Raises Unavailable when what it needs is away."""
        await self._committer.commit(await self._commit(turn))

    async def _commit(self, turn: Turn) -> Commit:
        if turn.mode is Mode.OFF:
            return silent(turn, "autonomy_off")
        if turn.presses_again:
            return silent(turn, "pressed_again")
        press = turn.taken.button
        assert press is not None, "asked of a turn that is a press"
        button = Button.decode(press.button or "")
        sent = await self._reminders.reminder(turn.conversation, button.reminder) if button else None
        if button is None or sent is None:
            return saying(turn, "no_longer_open", load(turn.locale).notice("reminder_not_open"))
        return _kept(turn, sent) if button.press is Press.KEEP else await self._cancels(turn, sent)

    async def _cancels(self, turn: Turn, sent: Sent) -> Commit:
        pending = turn.pending
        if pending is not None and pending.waits_for is WaitsFor.OPERATOR:
            return saying(turn, "still_waiting", load(turn.locale).notice("still_waiting"))
        tool = tool_of(self._packs.get(turn.business.pack), sent.tool)
        passage = rule(tool, turn.dials)
        if tool is None or isinstance(passage, Deny):
            code = passage.code if isinstance(passage, Deny) else Code.UNKNOWN_TOOL
            return _to_people(turn, sent, tool, passage, code)
        arguments = read_arguments(tool, sent.arguments)
        if isinstance(arguments, str):
            return _to_people(turn, sent, tool, passage, Code.BAD_ARGUMENTS)
        found = await self._checks.dry_run(turn, tool, arguments, context_of(turn))
        if isinstance(found, Refusal):
            return _refused(turn, sent, tool, passage, found)
        # One touch of an old message is no clear wish: it is asked about where the level would let the call run, too.
        ask = passage if isinstance(passage, Ask) else Ask(max(tool.floor, 1))
        action = new_action(tool, found, ask, locale=turn.locale)
        action = replace(action, call_n=CALL[0], call_position=CALL[1])
        commit = asking(turn, "asked", action)
        if len(commit.text or "") > PROMPT_CHARS_MAX:
            return _to_people(turn, sent, tool, passage, Code.PROMPT_TOO_LONG)
        result = {"status": f"waiting_for_the_{action.waits_for}"}
        return _noted(commit, sent, _why(turn, tool, passage), decision="ask", result=result)


def _kept(turn: Turn, sent: Sent) -> Commit:
    """Noted, with thanks. If its cancelling was just being asked about, that is taken back."""
    commit = saying(turn, "reminder_kept", sent.thanks)
    if turn.pending is None or not _is_about(turn.pending, sent):
        return commit
    declined = canonical({"error": Code.DECLINED_BY_CUSTOMER})
    return ending(commit, as_="declined", because=Code.DECLINED_BY_CUSTOMER, result=declined)


def _is_about(pending: Pending, sent: Sent) -> bool:
    return (pending.tool, pending.arguments) == (sent.tool, sent.arguments)


def _refused(turn: Turn, sent: Sent, tool: Tool, passage: Passage, refusal: Refusal) -> Commit:
    """It can't be done, in the pack's words. A question about something else stays open."""
    commit = saying(turn, "refused", refusal_text(tool, refusal, turn.locale))
    because = _why(turn, tool, passage)
    return _noted(commit, sent, because, decision="refuse", reason=refusal.code, result=refusal.told)


def _to_people(turn: Turn, sent: Sent, tool: Tool | None, passage: Passage, code: Code) -> Commit:
    """The bot may not, or can't: an honest reply, and a person. What the customer had not fully confirmed is cleared."""
    commit = saying(turn, NOT_PERMITTED, load(turn.locale).notice("fallback"))
    commit = replace(commit, handoff=NOT_PERMITTED)
    if holds_the_reply(tool, turn.dials):
        commit = replace(commit, held=commit.held or "level_0")
    if turn.pending is not None:
        commit = ending(commit, as_="cleared")
    decision = "deny" if isinstance(passage, Deny) else "refuse"
    because = _why(turn, tool, passage)
    return _noted(commit, sent, because, decision=decision, reason=code, result={"error": code})


def _why(turn: Turn, tool: Tool | None, passage: Passage) -> str:
    return canonical(why(tool, turn.dials, passage))


def _noted(
    commit: Commit,
    sent: Sent,
    because: str,
    *,
    decision: str,
    reason: str | None = None,
    result: Mapping[str, object],
) -> Commit:
    """The commit with the press as the call that it stands for, and what the gate said."""
    record = ToolRecord(
        n=CALL[0],
        position=CALL[1],
        call_id="reminder",
        tool=sent.tool,
        arguments=sent.arguments,
        decision=decision,
        reason=reason,
        result=canonical(result),
        why=because,
    )
    return replace(commit, tools=(record,), trace=Trace(tools=(record,)))
