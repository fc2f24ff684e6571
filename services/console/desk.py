"""The desk: every decision of an operator, each one transaction with its entry in the audit log.

Look → sit down (lock the conversation's row) → decide → record → audit; then ring. `by` names who decides; texts are
as the operator gave them. Every method returns what came of it, and raises Unavailable when the record is away: then
nothing was done, or all of it was, and asking again tells which.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from services.console.core import approvals, drafts, handoffs, notes
from services.console.core.approvals import Answer, Approve, Decline
from services.console.core.drafts import Discard, DryRun, Expire, Order, Queue, RunDry, Seen, Wish
from services.console.core.handoffs import Claim, Release, Reply, Step, Take
from services.console.core.outcomes import (
    Claimed,
    Decided,
    Discarded,
    NotFound,
    OnItsWay,
    Outcome,
    Released,
    RequestOver,
    TakenOver,
)
from services.console.ports import Record, Rehearsal, Rings, Sitting
from shared.ids import ActionId, ConversationId, OutboundId, new_id
from shared.text import storable
from shared.tickets import Stage
from shared.work.retry import retried

Result = TypeVar("Result")

LOOKS_MAX: Final = 2  # a prompt may stop being fresh between the look and the lock


class Desk:
    """Where a person steps in. Safe to share: it keeps nothing between two calls."""

    def __init__(self, record: Record, *, rehearsal: Rehearsal, rings: Rings | None = None) -> None:
        self._record = record
        self._rehearsal = rehearsal
        self._rings = rings

    async def seen(self, draft: OutboundId, code: str | None = None) -> Seen:
        """What a list's code names; without one, the draft as it is now. A stale code is refused by the decision."""
        return drafts.named(code, await self._record.seen(draft))

    async def send(self, draft: OutboundId, *, seen: Seen, by: str, knowing: bool = False) -> Outcome:
        """Send a draft as it was seen. `knowing`: that it may have arrived already, and all the same."""
        return await self._decide(Order(draft=draft, wish=Wish.SEND, seen=seen, by=by, knowing=knowing))

    async def edit(
        self, draft: OutboundId, text: str, *, seen: Seen, by: str, knowing: bool = False
    ) -> Outcome:
        """Send a draft with another text. A prompt keeps the system's summary, word for word."""
        text = storable(text.strip())
        return await self._decide(
            Order(draft=draft, wish=Wish.EDIT, seen=seen, by=by, text=text, knowing=knowing)
        )

    async def discard(self, draft: OutboundId, *, seen: Seen, by: str) -> Outcome:
        """Never send a draft. If it asks the customer something, that request ends."""
        return await self._decide(Order(draft=draft, wish=Wish.DISCARD, seen=seen, by=by))

    async def approve(self, action: ActionId, *, by: str) -> Outcome:
        """Yes to an action that waits for an operator. The agent checks it again and runs it."""
        return await self._answer(action, Approve(), by=by)

    async def decline(self, action: ActionId, why: str, *, by: str) -> Outcome:
        """No to it. `why` is one line that the customer reads."""
        return await self._answer(action, Decline(why=storable(why.strip())), by=by)

    async def claim(self, conversation: ConversationId, *, by: str) -> Outcome:
        """This operator looks after the handoff."""
        return await self._step(conversation, Claim(), by=by)

    async def reply(
        self, conversation: ConversationId, text: str, *, by: str, key: UUID | None = None
    ) -> Outcome:
        """A person's message to the customer, in a handoff. The same `key` twice is one message."""
        return await self._step(conversation, Reply(text=storable(text.strip())), by=by, key=key)

    async def release(self, conversation: ConversationId, *, by: str, note: str | None = None) -> Outcome:
        """The bot answers again; what was said meanwhile is history to it."""
        return await self._step(conversation, Release(note=storable(note.strip()) if note else None), by=by)

    async def take(self, conversation: ConversationId, *, by: str) -> Outcome:
        """From now on people answer; what waits for the customer's yes is cleared."""
        return await self._step(conversation, Take(), by=by)

    async def _decide(self, order: Order) -> Outcome:
        for _ in range(LOOKS_MAX):
            found = await self._record.draft(order.draft, round_=order.seen.round)
            if found is None:
                return NotFound()
            dry_run = await self._rehearsal(found) if drafts.needs_dry_run(order, found) else None
            outcome = await self._sat(found.conversation, partial(_put, order, dry_run))
            if outcome is not None:
                await self._ring(Stage.DISPATCH, outcome, order.draft)
                return outcome
        raise AssertionError("a prompt that was looked at twice is no longer fresh the second time")

    async def _answer(self, action: ActionId, answer: Answer, *, by: str) -> Outcome:
        conversation = await self._record.conversation_of(action)
        if conversation is None:
            return NotFound()
        outcome = await self._sat(conversation, partial(_answered, action, answer, by))
        await self._ring(Stage.AGENT, outcome, conversation)
        return outcome

    async def _step(
        self, conversation: ConversationId, step: Step, *, by: str, key: UUID | None = None
    ) -> Outcome:
        outbound = OutboundId(new_id())
        outcome = await self._sat(
            conversation, partial(_stepped, conversation, step, by, (outbound, key or new_id()))
        )
        released = isinstance(outcome, Released)
        await self._ring(
            Stage.AGENT if released else Stage.DISPATCH, outcome, conversation if released else outbound
        )
        return outcome

    async def _sat(
        self, conversation: ConversationId, decide: Callable[[Sitting], Awaitable[Result]]
    ) -> Result | NotFound:
        """Decide in one transaction; when it met another one, again whole."""

        async def once() -> Result | NotFound:
            async with self._record.sitting(conversation) as sitting:
                return NotFound() if sitting is None else await decide(sitting)

        return await retried(once)

    async def _ring(self, stage: Stage, outcome: Outcome, ticket: UUID) -> None:
        if self._rings is not None and isinstance(outcome, OnItsWay | Decided | Released):
            await self._rings(stage, [ticket])


async def _put(order: Order, dry_run: DryRun | None, sitting: Sitting) -> Outcome | None:
    """What the order comes to; None: it wants a dry run first."""
    draft = await sitting.draft(order.draft, round_=order.seen.round)
    if draft is None:
        return NotFound()
    verdict = drafts.decide(order, draft, sitting.row, dry_run)
    outcome: Outcome
    match verdict:
        case RunDry():
            return None
        case Queue(text=text):
            await sitting.queue(order, text=text)
            outcome = OnItsWay(outbound=order.draft, edited=text is not None)
        case Discard():
            ended = await sitting.discard(order, action_ends_as="cleared", why="discarded")
            outcome = Discarded(outbound=order.draft, ended_request=ended)
        case Expire():
            await sitting.discard(order, action_ends_as="cleared", why="prompt_too_old")
            outcome = RequestOver()
        case _:
            return verdict
    await sitting.audit(notes.of_draft(order, draft, verdict))
    return outcome


async def _answered(action: ActionId, answer: Answer, by: str, sitting: Sitting) -> Outcome:
    approval = await sitting.approval(action)
    if approval is None:
        return NotFound()
    decided = approvals.decide(answer, approval, sitting.row)
    if not isinstance(decided, Approve | Decline):
        return decided
    await sitting.answer(action, decided, by=by, decision=new_id())
    await sitting.audit(notes.of_answer(approval, decided, by=by))
    return Decided(approved=isinstance(decided, Approve))


async def _stepped(
    conversation: ConversationId, wanted: Step, by: str, ids: tuple[OutboundId, UUID], sitting: Sitting
) -> Outcome:
    outbound, origin = ids
    step = handoffs.decide(wanted, await sitting.handoff(), sitting.row)
    outcome: Outcome
    match step:
        case Claim():
            await sitting.claim(by=by)
            outcome = Claimed(conversation=conversation)
        case Reply(text=text):
            await sitting.reply(text, by=by, outbound=outbound, origin=origin)
            outcome = OnItsWay(outbound=outbound)
        case Release(note=note):
            await sitting.release(by=by, note=note)
            outcome = Released(conversation=conversation)
        case Take():
            ended = await sitting.take(by=by)
            outcome = TakenOver(conversation=conversation, ended_request=ended)
        case _:
            return step
    await sitting.audit(notes.of_step(conversation, step, by=by))
    return outcome
