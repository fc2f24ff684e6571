"""Carries out one step of a script: messages by the signed webhook, operators by the desk, staff by the pack's tables."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from leeway.evals.company import Company, Person, put, set_dials
from leeway.evals.record import LEFT, Row, Snapshot
from leeway.evals.script import Changes, Decline, Edit, OperatorReply, Prompt, Step, Words
from leeway.evals.stage import Stage
from services.console.core.outcomes import Outcome
from shared.errors import LeewayError
from shared.ids import ActionId, ConversationId, OutboundId, new_id
from shared.messages import MessageKind

HANGS_WITHIN_S: Final = 10.0
PROMPTS: Final[Mapping[Prompt, int]] = {"prompt": -1, "previous_prompt": -2, "first_prompt": 0}


class CannotAct(LeewayError):
    """The step can't be carried out as things stand: there is no prompt to press, no draft to send."""


class Actor:
    """Does the steps of one script."""

    def __init__(self, stage: Stage, company: Company) -> None:
        self._stage = stage
        self._company = company
        self._acts: Mapping[str, Callable[[Step, Person, Snapshot], Awaitable[Outcome | None]]] = {
            "say": self._say,
            "burst": self._burst,
            "press": self._press,
            "react": self._react,
            "media": self._media,
            "sticker": self._sticker,
            "group": self._group,
            "system": self._system,
            "echo": self._echo,
            "own": self._own,
            "redeliver": self._redeliver,
            "status": self._status,
            "wait": self._wait,
            "operator": self._operate,
            "staff": self._staff,
            "set": self._set,
            "together": self._together,
        }

    async def act(self, step: Step, before: Snapshot) -> Outcome | None:
        """What an operator is told, where one acts. Raises CannotAct."""
        self._stage.time.move(step.after if step.after is not None else self._company.script.pace)
        person = self._person(step)
        if not step.dies:
            return await self._acts[step.action](step, person, before)
        hung = self._stage.model.hang()
        await self._acts[step.action](step, person, before)
        try:
            async with asyncio.timeout(HANGS_WITHIN_S):
                await hung.wait()
        except TimeoutError:
            raise CannotAct("no model was asked, so the worker can't die of it") from None
        await self._stage.kill()
        if step.back_after is not None:
            self._stage.time.move(step.back_after)
        await self._stage.hire()
        return None

    def _person(self, step: Step) -> Person:
        return self._company.people[step.from_ or self._company.script.first_customer]

    # Messages

    async def _say(self, step: Step, person: Person, before: Snapshot) -> None:
        await self._post(person, [self._message(step, person, before, text=step.say)])

    async def _burst(self, step: Step, person: Person, before: Snapshot) -> None:
        await self._post(person, [self._message(step, person, before, text=one) for one in step.burst or ()])

    async def _press(self, step: Step, person: Person, before: Snapshot) -> None:
        assert step.press is not None, "the step is a press"
        await self._post(person, [self._button(step.press, step, person, before)])

    async def _react(self, step: Step, person: Person, before: Snapshot) -> None:
        reply = self._last(person, before)
        await self._post(
            person,
            [
                self._message(
                    step, person, before, text=step.react, kind=MessageKind.REACTION, quoted=_sent_as(reply)
                )
            ],
        )

    async def _media(self, step: Step, person: Person, before: Snapshot) -> None:
        await self._post(
            person, [self._message(step, person, before, text=step.media, kind=MessageKind.MEDIA)]
        )

    async def _sticker(self, step: Step, person: Person, before: Snapshot) -> None:
        await self._post(
            person, [self._message(step, person, before, text=None, kind=MessageKind.UNSUPPORTED)]
        )

    async def _group(self, step: Step, person: Person, before: Snapshot) -> None:
        await self._post(
            person, [self._message(step, person, before, text=step.group, kind=MessageKind.GROUP)]
        )

    async def _system(self, step: Step, person: Person, before: Snapshot) -> None:
        await self._post(
            person, [self._message(step, person, before, text=step.system, kind=MessageKind.SYSTEM)]
        )

    async def _echo(self, step: Step, person: Person, before: Snapshot) -> None:
        """What left from the business's own address to this customer: `{reply}` is ours, anything else a person's."""
        message = self._message(step, person, before, text=step.echo, kind=MessageKind.ECHO)
        if step.echo and "{reply}" in step.echo:
            reply = self._last(person, before)
            message |= {"id": _sent_as(reply), "text": step.echo.replace("{reply}", reply["body"])}
        await self._post(person, [message])

    async def _own(self, step: Step, person: Person, before: Snapshot) -> None:
        message = self._message(step, person, before, text=step.own)
        await self._post(person, [message | {"from": self._company.slug}])

    async def _redeliver(self, step: Step, person: Person, before: Snapshot) -> None:
        if not person.posted:
            raise CannotAct(f"{person.key} has sent nothing that could be delivered again")
        await self._post(person, person.posted)

    async def _status(self, step: Step, person: Person, before: Snapshot) -> None:
        reply = self._last(person, before)
        status = {"status": step.status, "correlation": str(reply["attempt"])}
        await self._deliver(person, {"statuses": [status]})

    async def _together(self, step: Step, person: Person, before: Snapshot) -> None:
        async with asyncio.TaskGroup() as tasks:
            for words in step.together or ():
                tasks.create_task(self._one_of_several(words, step, before))

    async def _one_of_several(self, words: Words, step: Step, before: Snapshot) -> None:
        person = self._company.people[words.from_ or self._company.script.first_customer]
        if words.press is not None:
            message = self._button(words.press, step, person, before)
        else:
            message = self._message(step, person, before, text=words.say)
        await self._post(person, [message])

    def _message(
        self,
        step: Step,
        person: Person,
        before: Snapshot,
        *,
        text: str | None,
        kind: MessageKind = MessageKind.TEXT,
        **more: Any,
    ) -> dict[str, Any]:
        said_at: datetime = self._stage.time.now() - (step.age or timedelta())
        message: dict[str, Any] = {
            "id": f"sim-{new_id().hex}",
            "from": person.phone,
            "name": person.name,
            "text": None if text is None else self._company.spelled(text),
            "kind": kind.value,
            "quoted": self._quoted(step, person, before) if step.quote else None,
            "at": said_at.isoformat(),
            "auto_reply": step.auto_reply,
            "opt_word": step.opt_word,
        }
        return message | more

    def _button(self, press: str, step: Step, person: Person, before: Snapshot) -> dict[str, Any]:
        prompt = self._prompt(step.of, self._whose(step, person), before)
        confirm, cancel = json.loads(prompt["buttons"])
        pressed = confirm if press == "confirm" else cancel
        message = self._message(step, person, before, text=pressed["title"], kind=MessageKind.BUTTON)
        return message | {"button": pressed["id"]}

    def _quoted(self, step: Step, person: Person, before: Snapshot) -> str:
        if step.quote == "own":
            if not person.posted:
                raise CannotAct(f"{person.key} has sent nothing that could be quoted")
            return str(person.posted[-1]["id"])
        if step.quote == "reply":
            return _sent_as(self._last(person, before))
        assert step.quote is not None, "the step quotes"
        return _sent_as(self._prompt(step.quote, self._whose(step, person), before))

    def _whose(self, step: Step, person: Person) -> Person:
        return self._company.people[step.whose] if step.whose else person

    def _prompt(self, which: Prompt, person: Person, before: Snapshot) -> Row:
        prompts = before.prompts(self._conversation(person, before))
        place = PROMPTS[which]
        if len(prompts) < max(-place, place + 1):
            raise CannotAct(f"{person.key} has no {which.replace('_', ' ')}")
        return prompts[place]

    def _last(self, person: Person, before: Snapshot) -> Row:
        conversation = self._conversation(person, before)
        gone = [
            one for one in before.outbounds if one["conversation"] == conversation and one["state"] in LEFT
        ]
        if not gone:
            raise CannotAct(f"nothing was sent to {person.key} yet")
        return gone[-1]

    async def _post(self, person: Person, messages: Sequence[dict[str, Any]]) -> None:
        person.posted = list(messages)
        await self._deliver(person, {"messages": list(messages)})

    async def _deliver(self, person: Person, event: dict[str, object]) -> None:
        status = await person.telephone.post(event)
        if status != 200:
            raise CannotAct(f"the webhook answered {status}")

    # Time and people

    async def _wait(self, step: Step, person: Person, before: Snapshot) -> None:
        assert step.wait is not None, "the step waits"
        self._stage.time.move(step.wait)
        await self._stage.let_time_work()

    async def _staff(self, step: Step, person: Person, before: Snapshot) -> None:
        assert step.staff is not None, "the step is of staff"
        await put(self._stage, self._company, step.staff.add)
        await put(self._stage, self._company, step.staff.change, how="change")

    async def _set(self, step: Step, person: Person, before: Snapshot) -> None:
        changes = step.set
        assert isinstance(changes, Changes), "the step changes settings"
        await set_dials(self._stage, self._company, changes)
        if changes.conversation_mode is not None:
            conversation = ConversationId(self._conversation(person, before))
            await self._stage.dials.conversation_mode(conversation, changes.conversation_mode, by=step.by)

    async def _operate(self, step: Step, person: Person, before: Snapshot) -> Outcome:
        desk, by, deed = self._stage.desk, step.by, step.operator
        conversation = self._conversation(person, before)
        match deed:
            case "send" | "discard" | Edit():
                draft = self._draft(conversation, before, whose=person.key)
                seen = await desk.seen(draft)
                if isinstance(deed, Edit):
                    return await desk.edit(draft, self._edited(deed, draft, before), seen=seen, by=by)
                decide = desk.send if deed == "send" else desk.discard
                return await decide(draft, seen=seen, by=by)
            case "approve":
                return await desk.approve(self._approval(conversation, before, whose=person.key), by=by)
            case Decline(decline=why):
                return await desk.decline(self._approval(conversation, before, whose=person.key), why, by=by)
            case OperatorReply(reply=text):
                return await desk.reply(ConversationId(conversation), text, by=by)
            case "claim":
                return await desk.claim(ConversationId(conversation), by=by)
            case "release":
                return await desk.release(ConversationId(conversation), by=by)
            case "take":
                return await desk.take(ConversationId(conversation), by=by)
            case None:
                raise AssertionError("the step is of an operator")

    def _edited(self, deed: Edit, draft: OutboundId, before: Snapshot) -> str:
        """`{draft}` stands for the text as it is."""
        body = next(one["body"] for one in before.outbounds if one["id"] == draft)
        return deed.edit.replace("{draft}", body)

    def _draft(self, conversation: UUID, before: Snapshot, *, whose: str) -> OutboundId:
        """The newest draft; where there is none, the newest reply, for which an operator came too late."""
        own = [one for one in before.outbounds if one["conversation"] == conversation]
        drafts = [one for one in own if one["state"] == "draft"]
        if not own:
            raise CannotAct(f"there is no reply to {whose} that could be a draft")
        return OutboundId((drafts or own)[-1]["id"])

    def _approval(self, conversation: UUID, before: Snapshot, *, whose: str) -> ActionId:
        own = [one for one in before.actions if one["conversation"] == conversation]
        if not own:
            raise CannotAct(f"{whose} has asked for nothing that could be approved")
        return ActionId(own[-1]["id"])

    def _conversation(self, person: Person, before: Snapshot) -> UUID:
        found = before.conversation_of(person.phone)
        if found is None:
            raise CannotAct(f"{person.key} has not written yet")
        conversation: UUID = found["conversation"]
        return conversation


def _sent_as(reply: Row) -> str:
    if reply["provider_id"] is None:
        raise CannotAct("the channel has no id for that message")
    return str(reply["provider_id"])
