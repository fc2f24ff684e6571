"""Everything that a dashboard shows, made to happen on a stack of real services: a few customers each, most of them at once."""

import asyncio
import functools
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import aio_pika
import httpx2

from leeway.accounts import NewAccount, accounts_of
from services.ingest.core.refusals import IN_A_ROW
from shared.autonomy import Mode
from shared.clock import SystemClock
from shared.tickets import Stage
from shared.topology import EXCHANGE, WORK_QUEUE
from tests.support.brokers import raw_channel
from tests.support.eventually import eventually
from tests.support.stack import Shop, Stack

ZONE = ZoneInfo("Europe/Bucharest")
META_SECRET = "meta-secret-of-a-test"
OUR_NUMBER, THEIR_NUMBER = "900000000000001", "900000000000999"  # as WhatsApp names them
CLAIM = "Your appointment is booked for Monday at 10:00."


def model(**answer: Any) -> str:
    """Words that make the model answer so: tests/support/stack_directed.py."""
    return f"model: {json.dumps(answer)}"


def calls(name: str, **arguments: Any) -> str:
    return model(calls=[{"name": name, "arguments": arguments}])


def booking(days: int) -> str:
    """A request for a free hour on a working day that is so many days ahead."""
    day = SystemClock().now().astimezone(ZONE).date() + timedelta(days=days)
    while day.weekday() > 3:
        day += timedelta(days=1)
    return calls("book_appointment", service="cleaning", start=f"{day}T11:00", dentist="Dr. Ionescu")


class Happenings:
    """The businesses and what befalls them."""

    def __init__(self, stack: Stack, shops: dict[str, Shop]) -> None:
        self._stack = stack
        self._shops = shops

    @classmethod
    async def begin(cls, stack: Stack) -> "Happenings":
        """acme does all by itself, shy suggests, poor has spent its money, asking asks operators, gone loses its account."""
        shops = {slug: await stack.shop(slug) for slug in ("acme", "poor", "asking", "gone")}
        shops["shy"] = await stack.shop("shy", mode=Mode.SUGGEST)
        await stack.ask("update leeway.business set day_cap_usd = 0.0001 where slug = 'poor'")
        await stack.ask(
            "insert into leeway.tool_level (business, tool, level, asked, set_by) values ($1, 'book_appointment', 2, 'both', 'test')",
            shops["asking"].id,
        )
        return cls(stack, shops)

    async def all(self) -> None:
        """Over when each of them shows in the record. What a process counted dies with it, so the one that dies dies first."""
        await self._a_process_dies()
        async with asyncio.TaskGroup() as happening:
            for one in (
                self._conversations, self._questions, self._approval, self._people, self._work_that_fails, self._refused_webhooks,
                self._unreadable, self._sends_that_fail,
            ):  # fmt: skip
                happening.create_task(one())

    async def seen(self, looked: Callable[[str], Awaitable[bool]]) -> None:
        """Over when `looked` finds what is read from the record now and then; it is asked in Prometheus' words."""
        for expr in (
            'leeway_dead_unsettled{stage="agent"} > 0',
            'leeway_channel_accounts{channel="generic", state="disabled"} > 0',
            'leeway_handoffs_open{business="acme", claimed="yes"} > 0',
            'leeway_drafts_waiting{business="shy"} > 0',
            'leeway_approvals_waiting{business="asking"} > 0',
        ):
            await self._eventually(functools.partial(looked, expr), expr)

    async def _conversations(self) -> None:
        for words in (
            "What is free tomorrow?",
            calls("drop_tables"),
            calls("book_appointment", service="cleaning", start="2020-01-01T10:00", dentist="Dr. Ionescu"),
            model(failure="auth"),
            model(failure="rate"),
            "STOP",
        ):
            await self._says("acme", f"c-{hash(words)}", words)
        await self._says("shy", "s-1", "What is free tomorrow?")
        # What is counted by business is there from its first event on: one of two agents hears a second one, a scrape later.
        for n in range(3):
            await self._says("poor", f"p-{n}", "What is free tomorrow?")
            await self._says("acme", f"claim-{n}", model(text=CLAIM))
            await self._says("acme", "machine", "We are closed.")
            await asyncio.sleep(1.5)
        await self._shows("select 1 from leeway.turn where outcome = 'budget'")
        await self._shows("select 1 from leeway.outbound where state = 'draft' and reason = 'suggest'")
        await self._shows("select 1 from leeway.outbound where state = 'draft' and reason = 'unbacked_claim'")
        await self._shows("select 1 from leeway.inbound_message where reason = 'loop'")

    async def _questions(self) -> None:
        """Some are confirmed, one is declined."""
        for n, answer in enumerate(("yes", "yes", "no")):
            await self._says("acme", f"q-{n}", booking(7 + 2 * n))
            await self._asked(f"q-{n}")
            await self._says("acme", f"q-{n}", answer)
        await self._shows("select 1 from leeway.receipt")

    async def _approval(self) -> None:
        await self._says("asking", "a-1", booking(14))
        await self._asked("a-1")
        await self._says("asking", "a-1", "yes")
        await self._shows("select 1 from leeway.pending_action where state = 'operator'")

    async def _people(self) -> None:
        """Two want a person; one of them is claimed."""
        for n in range(2):
            await self._says("acme", f"h-{n}", "human please")
        await self._shows("select 1 from leeway.handoff where reason = 'handoff_requested' offset 1")
        await self._stack.ask(
            "update leeway.handoff set claimed_by = 'maria', claimed_at = now() where conversation = "
            "(select conversation from leeway.handoff where reason = 'handoff_requested' order by opened_at limit 1)"
        )

    async def _work_that_fails(self) -> None:
        await self._says("acme", "w-1", "raise")
        await self._shows("select 1 from leeway.dead where stage = 'agent'")

    async def _refused_webhooks(self) -> None:
        """A wrong signature, once and all the time, no such account, and what is for somebody else's number."""
        acme = self._shops["acme"]
        wrong = Shop(id=acme.id, slug="acme", secrets={"sim": b"0" * 32}, outbound=acme.outbound)
        assert await self._stack.say(wrong, "sim", "x", "hello") == 401
        shy = self._shops["shy"]
        unheard = Shop(id=shy.id, slug="shy", secrets={"generic": b"0" * 32}, outbound=shy.outbound)
        for _ in range(IN_A_ROW):
            assert await self._stack.say(unheard, "generic", "x", "hello") == 401
        nobody = Shop(id=0, slug="nobody", secrets=acme.secrets, outbound=acme.outbound)
        assert await self._stack.say(nobody, "sim", "x", "hello") == 404
        number = NewAccount(
            channel="whatsapp",
            address="acme-wa",
            inbound=[META_SECRET],
            outbound="token",
            provider_address=OUR_NUMBER,
            settings=json.dumps({"phone_number_id": OUR_NUMBER}),
        )
        async with accounts_of(self._stack.settings) as accounts:
            await accounts.add("acme", number, by="test")
        await self._for_somebody_else()

    async def _for_somebody_else(self) -> None:
        value = {
            "messaging_product": "whatsapp",
            "metadata": {"display_phone_number": "40700000999", "phone_number_id": THEIR_NUMBER},
            "contacts": [{"profile": {"name": "Ana"}, "wa_id": "40700000001"}],
            "messages": [
                {
                    "from": "40700000001",
                    "id": "wamid.x",
                    "timestamp": "1796115600",
                    "type": "text",
                    "text": {"body": "hello"},
                }
            ],
        }
        body = json.dumps(
            {
                "object": "whatsapp_business_account",
                "entry": [{"id": "1", "changes": [{"field": "messages", "value": value}]}],
            }
        ).encode()
        signature = hmac.new(META_SECRET.encode(), body, hashlib.sha256).hexdigest()
        url = f"http://127.0.0.1:{self._stack.one('ingest').port}/hooks/whatsapp/acme-wa"
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            answer = await client.post(
                url, content=body, headers={"x-hub-signature-256": f"sha256={signature}"}
            )
        assert answer.status_code == 200

    async def _unreadable(self) -> None:
        async with raw_channel(self._stack.amqp_url) as channel:
            exchange = await channel.get_exchange(EXCHANGE)
            for stage in Stage:
                await exchange.publish(aio_pika.Message(b"not json"), WORK_QUEUE[stage])

    async def _sends_that_fail(self) -> None:
        """The receiver refuses one, throttles one, loses one, and then refuses the account."""
        receiver = self._stack.receiver
        for status, slug, shown in (
            (400, "acme", "select 1 from leeway.send_attempt where state = 'refused'"),
            (429, "acme", "select 1 from leeway.send_attempt where reason like '%429%'"),
            (500, "acme", "select 1 from leeway.send_attempt where reason like '%500%'"),
            (401, "gone", "select 1 from leeway.channel_account where state = 'disabled'"),
        ):
            receiver.status = status
            assert (
                await self._stack.say(self._shops[slug], "generic", f"g-{status}", "What is free tomorrow?")
                == 200
            )
            await self._shows(shown)
        receiver.status = 200

    async def _a_process_dies(self) -> None:
        """The other agent takes up its turn; it is started again."""
        await self._says("acme", "d-1", "die once")
        agents = self._stack.running["agent"]
        await eventually(lambda: not all(agent.is_running for agent in agents), within_s=30)
        for agent in agents:
            if not agent.is_running:
                agent.kill()
                agent.start()
        await self._shows("select 1 from leeway.turn where attempts > 1 and state = 'done'")

    async def _says(self, slug: str, sender: str, text: str) -> None:
        await self._stack.deliver(self._shops[slug], "sim", sender, text)

    async def _asked(self, sender: str) -> None:
        """The question has reached them."""

        async def holds() -> bool:
            return bool(await self._stack.replies(sender))

        await self._eventually(holds, f"no question for {sender}")

    async def _shows(self, query: str) -> None:
        async def holds() -> bool:
            return bool(await self._stack.ask(query))

        await self._eventually(holds, query)

    async def _eventually(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        try:
            await eventually(holds, within_s=45, every_s=0.2)
        except AssertionError as error:
            error.add_note(what)
            error.add_note(await self._stack.evidence())
            raise
