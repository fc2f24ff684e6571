"""What the audit log says of a decision: who, what, about which; digests in place of anybody's words. Pure."""

from typing import Any, assert_never

from services.console.core.approvals import Answer, Approval, Approve, Decline
from services.console.core.drafts import Discard, Draft, Expire, Order, Queue
from services.console.core.handoffs import Claim, Release, Reply, Step, Take
from shared.audit import Note
from shared.digest import canonical, text_digest
from shared.ids import ConversationId


def of_draft(order: Order, draft: Draft, verdict: Queue | Discard | Expire) -> Note:
    detail: dict[str, Any] = {
        "conversation": str(draft.conversation),
        "round": draft.round,
        "reason": draft.reason,
        "seen": order.seen.digest.hex(),
    }
    match verdict:
        case Queue(text=text):
            if text is not None:
                detail["sent"] = text_digest(text).hex()
            if draft.may_have_left:
                detail["may_have_arrived"] = True
            action = f"draft.{order.wish}"
        case Discard():
            action = "draft.discard"
        case Expire():
            action = "draft.expire"
        case _:
            assert_never(verdict)
    return Note(actor=order.by, action=action, subject=str(draft.id), detail=canonical(detail))


def of_answer(approval: Approval, answer: Answer, *, by: str) -> Note:
    detail = {"conversation": str(approval.conversation), "tool": approval.tool}
    match answer:
        case Approve():
            action = "approval.approve"
        case Decline(why=why):
            action = "approval.decline"
            detail["why"] = text_digest(why).hex()
        case _:
            assert_never(answer)
    return Note(actor=by, action=action, subject=str(approval.id), detail=canonical(detail))


def of_step(conversation: ConversationId, step: Step, *, by: str) -> Note:
    detail: dict[str, Any] = {}
    match step:
        case Claim():
            action = "handoff.claim"
        case Reply(text=text):
            action = "handoff.reply"
            detail["sent"] = text_digest(text).hex()
        case Release(note=note):
            action = "handoff.release"
            if note:
                detail["note"] = text_digest(note).hex()
        case Take():
            action = "handoff.take"
        case _:
            assert_never(step)
    return Note(actor=by, action=action, subject=str(conversation), detail=canonical(detail))
