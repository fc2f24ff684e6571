"""The commands of operators on a real Postgres, as a person would call them."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import pytest
from typer.testing import CliRunner

from leeway.businesses import seed_pack
from leeway.cli import app, sentence
from services.console.adapters.postgres_desk import PostgresRecord
from services.console.adapters.rehearsal import PackRehearsal
from services.console.core.drafts import Draft, Fails, Passes
from shared.clock import SystemClock
from shared.database.migrate import migrate
from shared.digest import canonical, digest
from shared.ids import ConversationId, OutboundId, new_id
from shared.packs import Proposal, load_packs, migrations_of
from shared.secrets import new_key
from tests.support.commands import Ended, environment, leeway, started
from tests.support.eventually import eventually
from tests.support.factories import Ground, ground

pytestmark = pytest.mark.postgres

NASTY = "\x1b[2J\x1b]0;owned\x07[red]Hello[/red] [link=file:///etc]x[/link] \u202eevil"
ANA = "+40700000001"
SUMMARY = "Book: cleaning with Dr. Ionescu, Thursday 3 December, 10:00."


class Leeway(Protocol):
    async def __call__(self, *words: str, fails: int = 0) -> Ended: ...


@pytest.fixture
async def rows(database_url: str) -> AsyncIterator[Ground]:
    async with ground(database_url) as made:
        yield made


@pytest.fixture
def env(database_url: str) -> dict[str, str]:
    return environment(LEEWAY_DATABASE_URL=database_url, COLUMNS="200")


@pytest.fixture
def run(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Leeway:
    """Runs the command, in this process, which must end with the code that is expected, and say on one line why where
    it fails."""
    monkeypatch.setattr("leeway.operators.configure_logs", lambda **_: None)  # this process has its own
    runner = CliRunner(env=env)

    def called(words: Sequence[str]) -> Ended:
        ended = runner.invoke(app, words)
        if ended.exception is None or isinstance(ended.exception, SystemExit):
            return Ended(ended.exit_code, ended.stdout, ended.stderr)
        return Ended(1, ended.stdout, f"leeway: {sentence(ended.exception)}\n")  # as leeway.cli.main does

    async def run(*words: str, fails: int = 0) -> Ended:
        ended = await asyncio.to_thread(called, words)
        assert ended.code == fails, ended
        assert "bug" not in ended.err
        if fails == 1:
            assert len(ended.err.splitlines()) == 1, ended
        assert "\x1b" not in ended.out + ended.err
        return ended

    return run


async def place_of(rows: Ground, slug: str = "corner", *, mode: str = "suggest") -> Any:
    """An account of a business of that name."""
    return await rows.account(await rows.business(slug=slug, mode=mode), address=f"{slug}-desk")


async def drafted(
    rows: Ground, text: str = "Hello, how can I help?", *, account: Any = None, **columns: Any
) -> tuple[ConversationId, OutboundId]:
    conversation = await rows.conversation(account or await place_of(rows), user_id=ANA)
    await rows.said(conversation, "Hello", due=False)
    await rows.set_state(conversation, handled_seq=1)
    plain = {"state": "draft", "reason": "suggest", "mode": "suggest", "ring_at": None}
    return conversation, await rows.outbound(conversation, text, **(plain | columns))


async def asking(rows: Ground, *, state: str = "operator", **columns: Any) -> tuple[ConversationId, UUID]:
    """An action that the customer confirmed, and that waits for an operator."""
    conversation, prompt = await drafted(rows, f"{SUMMARY} Reply YES.", state="sent", reason=None)
    message = (await rows.row("inbound_message", conversation=conversation))["id"]
    turn = await rows.turn(conversation, message, state="done", outcome="asked")
    until = await rows.now() + timedelta(hours=5, seconds=30)
    plain = {"state": state, "asked": "both", "summary": SUMMARY, "waits_until": until}
    action = await rows.action(conversation, prompt=prompt, turn=turn, **(plain | columns))
    await rows.insert(
        "confirmation",
        action=action,
        business=(await rows.state(conversation))["business"],
        message=message,
        step=1,
    )
    return conversation, action


async def handed(rows: Ground) -> ConversationId:
    conversation = await rows.conversation(
        await place_of(rows), user_id=ANA, state="handoff", handoff_epoch=1
    )
    await rows.said(conversation, "I want a person", verdict="stored", reason="handoff_active", due=False)
    await rows.set_state(conversation, handled_seq=1)
    business = (await rows.state(conversation))["business"]
    opened = await rows.now() - timedelta(minutes=12, seconds=5)
    await rows.insert(
        "handoff",
        conversation=conversation,
        business=business,
        epoch=1,
        reason="handoff_requested",
        opened_at=opened,
    )
    return conversation


async def listed(run: Leeway, what: str, *more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await run(what, "list", "--json", *more)).out)
    return found


# Lists


async def test_an_empty_list_says_so_in_a_sentence(run: Leeway) -> None:
    for words, said in {
        ("drafts", "list"): "No drafts wait.",
        ("approvals", "list"): "Nothing waits for an approval.",
        ("handoffs", "list"): "Nobody waits for a person.",
        ("audit", "list"): "Nothing was decided or changed yet.",
        ("audit", "verify"): "There is no business yet.",
    }.items():
        assert (await run(*words)).out == f"{said}\n"
        assert json.loads((await run(*words, "--json")).out) == []


async def test_lists_are_oldest_first_with_clocks_and_by_business(rows: Ground, run: Leeway) -> None:
    now = await rows.now()
    one, other = await place_of(rows, "one"), await place_of(rows, "other")
    await drafted(rows, "younger", account=one, created_at=now - timedelta(minutes=3, seconds=5))
    await drafted(rows, "older", account=other, created_at=now - timedelta(minutes=12, seconds=5))
    out = (await run("drafts", "list")).out
    assert out.index("older") < out.index("younger")
    assert "waiting 12 min" in out
    assert "waiting 3 min" in out
    assert [draft["text"] for draft in await listed(run, "drafts", "--business", "one")] == ["younger"]


async def test_nothing_that_a_customer_wrote_steers_the_terminal(rows: Ground, run: Leeway) -> None:
    conversation, draft = await drafted(rows, NASTY)
    business = (await rows.state(conversation))["business"]
    await rows.owner.execute("update customer set name = $1", NASTY)
    await rows.said(conversation, NASTY, due=False)
    turn = await rows.turn(conversation, (await rows.rows("inbound_message"))[0]["id"])
    await rows.insert(
        "tool_call", turn=turn, business=business, n=1, position=0, call_id="1", tool="find_slots", arguments=NASTY,
        decision="deny", reason="bad_arguments", result=NASTY,
    )  # fmt: skip
    await rows.action(conversation, prompt=draft, turn=turn, state="operator", summary=NASTY, tool=NASTY)
    await rows.set_state(conversation, state="handoff", handoff_epoch=1)
    await rows.insert(
        "handoff", conversation=conversation, business=business, epoch=1, reason="operator", claimed_by=NASTY
    )
    for words in (
        ("drafts", "list"),
        ("drafts", "show", str(draft)),
        ("approvals", "list"),
        ("handoffs", "list"),
        ("conversation", "show", str(conversation)),
    ):
        out = (await run(*words)).out
        assert "\\u001b[2J" in out
        assert "[red]Hello[/red] [link=file:///etc]x[/link]" in out, words
        assert "\\u202eevil" in out
        assert "\x07" not in out


# Drafts


async def test_a_draft_is_sent_by_the_name_that_its_list_shows(rows: Ground, run: Leeway) -> None:
    _, draft = await drafted(rows)
    (shown,) = await listed(run, "drafts")
    name = shown["name"]
    assert name in (await run("drafts", "list")).out
    assert shown["id"] == str(draft)
    assert "Hello, how can I help?" in (await run("drafts", "show", name)).out
    assert (await run("drafts", "send", name, "--as", "ana")).out == "It is on its way.\n"
    assert (await rows.row("outbound", id=draft))["state"] == "queued"
    for again in (name, name.partition("@")[0], str(draft), draft.hex[:8]):
        ended = await run("drafts", "send", again, "--as", "bogdan", fails=1)
        assert ended.err.startswith("Already decided by ana (sent, "), again
    assert len(await rows.rows("draft_decision")) == 1


async def test_a_text_that_changed_is_shown_again(rows: Ground, run: Leeway) -> None:
    _, draft = await drafted(rows, "We are open today.")
    (shown,) = await listed(run, "drafts")
    await rows.set("outbound", {"id": draft}, body="We are closed today.")
    ended = await run("drafts", "send", shown["name"], fails=1)
    assert "its text was changed" in ended.err
    assert "We are closed today." in ended.out
    assert (await rows.row("outbound", id=draft))["state"] == "draft"
    (now,) = await listed(run, "drafts")
    assert now["name"] != shown["name"]
    await run("drafts", "send", now["name"])


async def test_edit_and_discard(rows: Ground, run: Leeway) -> None:
    _, first = await drafted(rows)
    await run("drafts", "edit", str(first), "Hello Ana, we open at nine.")
    assert (await rows.row("outbound", id=first))["body"] == "Hello Ana, we open at nine."
    _, second = await drafted(rows, account=await place_of(rows, "other"))
    assert (await run("drafts", "discard", str(second))).out == "Discarded.\n"
    assert await listed(run, "drafts") == []


async def test_what_may_have_arrived_wants_saying_so(rows: Ground, run: Leeway) -> None:
    _, draft = await drafted(rows, reason="may_have_arrived")
    ended = await run("drafts", "send", str(draft), fails=1)
    assert "--again" in ended.err
    assert "may have arrived already" in (await run("drafts", "list")).out
    await run("drafts", "send", str(draft), "--again")


async def test_two_commands_at_the_same_moment(rows: Ground, env: dict[str, str], tmp_path: Path) -> None:
    _, draft = await drafted(rows)
    async with asyncio.TaskGroup() as tasks:
        both = {
            by: tasks.create_task(leeway("drafts", what, str(draft), "--as", by, cwd=tmp_path, env=env))
            for by, what in (("ana", "send"), ("bogdan", "discard"))
        }
    ended = {by: one.result() for by, one in both.items()}
    (winner,) = (by for by, one in ended.items() if one.code == 0)
    (loser,) = (by for by, one in ended.items() if one.code == 1)
    assert f"Already decided by {winner} (" in ended[loser].err


async def test_whoever_decides_has_a_name(rows: Ground, run: Leeway) -> None:
    _, draft = await drafted(rows)
    await run("drafts", "send", str(draft), "--as", " ", fails=2)
    await run("drafts", "send", str(draft))
    assert (await rows.row("draft_decision"))["decided_by"].strip()


NOT_THERE = (
    ("drafts", "send", "01a22e8b"),
    ("drafts", "show", "zzz"),
    ("drafts", "send", "\x1b[2J@x"),
    ("approvals", "approve", "01a22e8b"),
    ("handoffs", "claim", "nobody:+4070"),
    ("conversation", "show", "01a22e8b-c3fe"),
    ("conversation", "mode", "01a22e8b-c3fe", "off"),
    ("audit", "verify", "--business", "nobody"),
    ("policy", "show", "nobody"),
    ("policy", "show", "--pack", "nobody"),
    ("policy", "set", "nobody", "x", "1"),
    ("channel", "mode", "nobody", "off"),
    ("business", "set", "nobody", "--mode", "auto"),
)
NOT_SAID_RIGHT = (
    ("drafts", "send"),
    ("approvals", "decline", "01a22e8b"),
    ("conversation", "mode", "01a22e8b-c3fe", "loud"),
    ("business", "set", "nobody"),
    ("business", "set", "nobody", "--day-cap", "lots"),
    ("business", "set", "nobody", "--rate", "0"),
)


async def test_what_can_not_be_is_said_in_a_line(run: Leeway) -> None:
    for fails, cases in {1: NOT_THERE, 2: NOT_SAID_RIGHT}.items():
        for words in cases:
            ended = await run(*words, fails=fails)
            assert ended.out == "", words
            assert ended.err, words


async def test_a_beginning_of_two_things_names_neither(rows: Ground, run: Leeway) -> None:
    _, one = await drafted(rows)
    await drafted(rows, account=await place_of(rows, "other"))
    ended = await run("drafts", "send", one.hex[:6], fails=1)
    assert "more than one that begins so" in ended.err
    assert len(await listed(run, "drafts")) == 2


# Approvals


async def test_an_approval_is_given_once(rows: Ground, run: Leeway) -> None:
    conversation, action = await asking(rows)
    out = (await run("approvals", "list")).out
    for what in ("book_appointment", SUMMARY, ANA, "5 h 00 min left", "the customer has said yes"):
        assert what in out
    (shown,) = await listed(run, "approvals")
    assert "carried out" in (await run("approvals", "approve", shown["name"], "--as", "ana")).out
    assert (await rows.row("pending_action", id=action))["decided"] == "approved"
    assert (await rows.state(conversation))["decision_owed"] is not None
    ended = await run("approvals", "decline", shown["name"], "Too late", "--as", "bogdan", fails=1)
    assert ended.err.startswith("Already decided by ana (approved, ")
    assert await listed(run, "approvals") == []


async def test_a_decline_has_its_reason(rows: Ground, run: Leeway) -> None:
    _, action = await asking(rows)
    assert "one line" in (await run("approvals", "decline", str(action), "one\ntwo", fails=1)).err
    await run("approvals", "decline", str(action), "The dentist is away")
    assert (await rows.row("pending_action", id=action))["decided_why"] == "The dentist is away"


async def test_an_approval_waits_for_the_release(rows: Ground, run: Leeway) -> None:
    conversation, action = await asking(rows)
    await run("handoffs", "take", f"corner:{ANA}")
    assert "release it first" in (await run("approvals", "approve", str(action), fails=1)).err
    await run("handoffs", "release", str(conversation))
    await run("approvals", "approve", str(action))


# Handoffs


async def test_a_person_steps_in_and_out(rows: Ground, run: Leeway) -> None:
    conversation = await handed(rows)
    out = (await run("handoffs", "list")).out
    for what in ("handoff_requested", "unclaimed", "waiting 12 min", "I want a person"):
        assert what in out
    (shown,) = await listed(run, "handoffs")
    await run("handoffs", "claim", shown["name"], "--as", "ana")
    assert (
        "Already claimed by ana"
        in (await run("handoffs", "claim", f"corner:{ANA}", "--as", "bogdan", fails=1)).err
    )
    assert "claimed by ana" in (await run("handoffs", "list")).out
    await run("handoffs", "reply", shown["name"], "Hello, this is Ana.", "--as", "ana")
    assert (await rows.row("outbound", conversation=conversation))["origin_kind"] == "operator"
    await run("handoffs", "release", shown["name"], "--note", "All settled", "--as", "ana")
    assert (await rows.state(conversation))["state"] == "bot"
    assert "take it over first" in (await run("handoffs", "reply", shown["name"], "And", fails=1)).err
    await run("handoffs", "take", shown["name"], "--as", "bogdan")
    assert "claimed by bogdan" in (await run("handoffs", "take", shown["name"], fails=1)).err


# Watching


async def test_a_list_is_watched_until_ctrl_c(rows: Ground, env: dict[str, str], tmp_path: Path) -> None:
    async with started("drafts", "list", "--watch", cwd=tmp_path, env=env, says="No drafts wait.") as process:
        await drafted(rows, "Hello there")
        log = tmp_path / "drafts.log"
        await eventually(lambda: "Hello there" in log.read_text())
        process.send(signal.SIGINT)
        await eventually(lambda: not process.is_running)
        assert process.exit_code == 0
        assert "Traceback" not in log.read_text()
        assert log.read_text().count("Hello there") == 1, "a clock that goes on is nothing new"


async def test_a_conversation_is_watched_as_it_goes_on(
    rows: Ground, env: dict[str, str], tmp_path: Path
) -> None:
    conversation, _ = await drafted(rows, "Hello there")
    async with started(
        "conversation", "show", str(conversation), "--watch", cwd=tmp_path, env=env, says="Hello there"
    ) as process:
        await rows.said(conversation, "Are you there?", due=False)
        log = tmp_path / "conversation.log"
        await eventually(lambda: "Are you there?" in log.read_text())
        process.send(signal.SIGINT)
        await eventually(lambda: not process.is_running)
        assert process.exit_code == 0
        assert log.read_text().count("Hello there") == 1


# A conversation's story


async def told(rows: Ground) -> ConversationId:
    """A conversation in which everything happened once."""
    conversation, action = await asking(
        rows, state="executed", decided="approved", decided_by="ana", decision=new_id()
    )
    business = (await rows.state(conversation))["business"]
    turn = (await rows.row("turn"))["id"]
    call = {
        "business": business,
        "conversation": conversation,
        "turn": turn,
        "n": 1,
        "engine": "tool_loop",
        "provider": "openai",
        "model": "gpt",
    }
    await rows.insert(
        "llm_call",
        id=new_id(),
        attempt=1,
        state="done",
        input_tokens=120,
        output_tokens=20,
        cost_usd=Decimal("0.0125"),
        latency_ms=80,
        **call,
    )
    await rows.insert("llm_call", id=new_id(), attempt=2, state="failed", error="429 slow down", **call)
    await rows.insert("llm_call", id=new_id(), attempt=3, state="done", cost_usd=Decimal("0.01"), **call)
    await rows.insert(
        "tool_call", turn=turn, business=business, n=1, position=0, call_id="1", tool="book_appointment", arguments='{"service": "cleaning"}',
        decision="ask", reason=None, why='{"level":2}', result='{"status":"waiting"}',
    )  # fmt: skip
    await rows.insert(
        "receipt", id=new_id(), business=business, conversation=conversation, action=action, turn=turn, tool="book_appointment",
        digest=b"x", result='{"appointment":"1"}',
    )  # fmt: skip
    message = (await rows.row("inbound_message"))["id"]
    await rows.insert("flag", message=message, business=business, conversation=conversation, reason="media")
    draft = await rows.outbound(conversation, "Booked.", state="sent", receipt=True)
    await rows.attempt(draft, state="sent", rank=1)
    await rows.insert(
        "draft_decision",
        outbound=draft,
        business=business,
        round=1,
        decision="edit",
        text_digest=b"x",
        decided_by="bogdan",
    )
    await rows.insert(
        "handoff", conversation=conversation, business=business, epoch=1, reason="loop", claimed_by="ana",
        released_at=await rows.now(), released_by="ana", note="settled",
    )  # fmt: skip
    return conversation


async def test_a_conversation_s_whole_story(rows: Ground, run: Leeway) -> None:
    conversation = await told(rows)
    out = (await run("conversation", "show", str(conversation))).out
    for what in (
        "Hello", "guard: turn", "of message 1, tool_loop on mock: done: asked", "openai gpt, call 1: done, 120 in (0 cached), 20 out, $0.0125, 80 ms",
        "error: 429 slow down", "book_appointment → ask", 'why: {"level":2}', SUMMARY, "approved by ana", "book_appointment, step 1",
        'result: {"appointment":"1"}', "Booked.", "sent, 1 attempt", "was edited and sent by bogdan", "to people, because loop", "released by ana: settled",
        "media", "3 model calls, $0.0225; 1 of unknown cost are not in it",
    ):  # fmt: skip
        assert what in out, what
    order = [out.index(what) for what in ("guard: turn", "openai gpt", "book_appointment → ask", "Booked.")]
    assert order == sorted(order)


async def test_a_story_shows_what_became_of_messages_and_what_they_carry(rows: Ground, run: Leeway) -> None:
    conversation, at = await rows.conversation(), await rows.now()
    await rows.said(conversation, "at ten", edited_at=at, edited_to="at eleven")
    await rows.said(conversation, "", deleted_at=at)
    await rows.said(conversation, "Look at this", forwarded=True)
    photo = await rows.said(conversation, "", kind="media", reason="unsupported")
    business = (await rows.state(conversation))["business"]
    more = {"message": photo, "business": business}
    await rows.insert("media_part", n=1, kind="location", words="44.43, 26.1", **more)
    await rows.insert("media_part", n=2, kind="document", name="plan.pdf", state="refused", reason="too large", **more)  # fmt: skip
    out = (await run("conversation", "show", str(conversation))).out
    for what in (
        "at ten [edited]", "edited afterwards to: at eleven", "[deleted]", "Look at this [forwarded]",
        "location: 44.43, 26.1", "document: plan.pdf", "content: refused (too large)",
    ):  # fmt: skip
        assert what in out, what
    found = json.loads((await run("conversation", "show", str(conversation), "--json")).out)
    parts = [one for one in found["events"] if one["kind"] == "attached"]
    assert [(one["part"], one["words"], one["state"]) for one in parts] == [
        ("location", "44.43, 26.1", "kept"),
        ("document", None, "refused"),
    ]


@pytest.mark.parametrize("name", ["whole", "beginning", "number"])
async def test_a_story_for_programs(rows: Ground, run: Leeway, name: str) -> None:
    conversation = await told(rows)
    names = {"whole": str(conversation), "beginning": conversation.hex[:10], "number": f"corner:{ANA}"}
    found = json.loads((await run("conversation", "show", names[name], "--json")).out)
    assert found["conversation"] == str(conversation)
    assert Decimal(found["cost_usd"]) == Decimal("0.0225")
    assert (found["model_calls"], found["calls_of_unknown_cost"]) == (3, 1)
    assert {
        "customer",
        "turn",
        "model",
        "tool",
        "action",
        "yes",
        "receipt",
        "reply",
        "decision",
        "handoff",
        "flag",
    } == {event["kind"] for event in found["events"]}


# Settings, each in the log


async def test_every_setting_is_changed_and_written_down(rows: Ground, run: Leeway) -> None:
    await rows.business(slug="corner", mode="suggest")
    wanted = {
        "--mode": ("mode", "auto"), "--window-ms": ("window_ms", 0), "--stale-after": ("stale_after_s", 5400), "--rate": ("rate_per_10_min", 5),
        "--takeover-quiet": ("takeover_quiet_min", 30), "--day-cap": ("day_cap_usd", Decimal("2.5")), "--turn-cap": ("turn_cap_usd", Decimal("0.1")),
        "--conversation-cap": ("conversation_cap_usd", Decimal(1)), "--approval-hours": ("approval_hours", 12), "--handoff-remind": ("handoff_remind_min", 5),
        "--handoff-tell": ("handoff_tell_min", 20), "--reminder-hours": ("reminder_hours", 0), "--name": ("name", "The Corner"),
    }  # fmt: skip
    typed = {"--stale-after": "90m", "--day-cap": "2.50"}
    words = [
        word for option, (_, value) in wanted.items() for word in (option, typed.get(option, str(value)))
    ]
    out = (await run("business", "set", "corner", *words, "--quiet", "22:00-07:30", "--as", "ana")).out
    assert "corner: mode suggest → auto" in out
    row = await rows.row("business", slug="corner")
    for column, value in wanted.values():
        assert row[column] == value, column
    assert (str(row["quiet_from"]), str(row["quiet_to"])) == ("22:00:00", "07:30:00")
    entry = await rows.row("audit_log")
    assert (entry["actor"], entry["action"], entry["subject"]) == ("ana", "business.set", "corner")
    detail = json.loads(entry["detail"])
    assert detail["mode"] == {"from": "suggest", "to": "auto"}
    assert len(detail) == len(wanted) + 2

    assert "nothing is changed" in (await run("business", "set", "corner", "--mode", "auto")).out
    out = (await run("business", "set", "corner", "--day-cap", "none", "--mode", "auto")).out
    assert out == "corner: day_cap_usd 2.5 → not set\n"
    assert (await rows.row("business", slug="corner"))["day_cap_usd"] is None
    assert (await rows.row("business", slug="corner"))["turn_cap_usd"] == Decimal("0.1")
    assert len(await rows.rows("audit_log")) == 2


async def test_a_tool_s_level_is_its_own_change(rows: Ground, run: Leeway) -> None:
    await rows.business(slug="corner", mode="auto")
    before = await policy(run)
    assert before["book_appointment"]["level_from"] == "pack"
    out = (await run("policy", "set", "corner", "book_appointment", "1", "--as", "ana")).out
    assert out == "corner book_appointment: level not set → 1\n"
    now = await policy(run)
    assert (now["book_appointment"]["results"], now["book_appointment"]["set_by"]) == ("deny", "ana")
    assert {name: one for name, one in now.items() if name != "book_appointment"} == {
        name: one for name, one in before.items() if name != "book_appointment"
    }
    await run("policy", "set", "corner", "book_appointment", "2", "--asked", "both")
    await run("policy", "set", "corner", "book_appointment", "2")
    assert (await policy(run))["book_appointment"]["asked"] == "both", (
        "who is asked stays until it is said otherwise"
    )
    assert "set by" in (await run("policy", "show", "corner")).out
    await run("policy", "reset", "corner", "book_appointment")
    assert await policy(run) == before
    assert "nothing is changed" in (await run("policy", "reset", "corner", "book_appointment")).out
    assert "no tool 'nope'" in (await run("policy", "set", "corner", "nope", "1", fails=1)).err
    assert "always allowed" in (await run("policy", "set", "corner", "hand_over", "1", fails=1)).err
    assert [row["action"] for row in await rows.rows("audit_log")] == ["tool.level"] * 3


async def policy(run: Leeway) -> dict[str, Any]:
    return {
        one["name"]: one for one in json.loads((await run("policy", "show", "corner", "--json")).out)["tools"]
    }


async def test_modes_of_an_account_and_of_a_conversation(rows: Ground, run: Leeway) -> None:
    account = await place_of(rows, mode="auto")
    conversation = await rows.conversation(account, user_id=ANA)
    version = (await rows.state(conversation))["version"]
    assert (
        await run("channel", "mode", "corner-desk", "suggest", "--channel", "sim")
    ).out == "sim corner-desk: mode not set → suggest\n"
    await run("conversation", "mode", f"corner:{ANA}", "off", "--as", "ana")
    state = await rows.state(conversation)
    assert (state["mode"], state["version"]) == ("off", version + 1)
    assert "mode off" in (await run("conversation", "show", f"corner:{ANA}")).out
    await run("conversation", "mode", f"corner:{ANA}", "inherit")
    await run("channel", "mode", "corner-desk", "inherit", "--channel", "sim")
    assert (await rows.row("channel_account", id=account))["mode"] is None
    assert (await rows.state(conversation))["mode"] is None
    assert [row["action"] for row in await rows.rows("audit_log", order="n")] == [
        "channel.mode", "conversation.mode", "conversation.mode", "channel.mode",
    ]  # fmt: skip


async def test_what_is_made_is_written_down_too(rows: Ground, run: Leeway, env: dict[str, str]) -> None:
    env["LEEWAY_SECRET_KEY"] = new_key()
    await run("business", "create", "corner", "--name", "Corner", "--as", "ana")
    await run(
        "channel", "add", "corner", "--callback-url", "https://example.com/?token=secret", "--as", "ana"
    )
    await rows.set("channel_account", {"address": "corner"}, state="disabled")
    await run("channel", "enable", "corner", "--as", "bogdan")
    written = [
        (row["actor"], row["action"], row["subject"]) for row in await rows.rows("audit_log", order="n")
    ]
    assert written == [
        ("ana", "business.create", "corner"), ("ana", "channel.add", "generic corner"), ("bogdan", "channel.enable", "generic corner"),
    ]  # fmt: skip
    assert not [row for row in await rows.rows("audit_log") if "secret" in row["detail"]]
    assert "corner: intact, 3 entries" in (await run("audit", "verify")).out


async def test_the_log_is_listed_verified_and_tampering_found(rows: Ground, run: Leeway) -> None:
    conversation = await handed(rows)
    await run("handoffs", "claim", str(conversation), "--as", "ana")
    await run("business", "set", "corner", "--mode", "auto", "--as", "bogdan")
    out = (await run("audit", "list")).out
    assert out.index("handoff.claim") < out.index("business.set")
    assert [entry["actor"] for entry in json.loads((await run("audit", "list", "--json")).out)] == [
        "ana",
        "bogdan",
    ]
    assert "corner: intact, 2 entries, head " in (await run("audit", "verify")).out
    await rows.owner.execute("update audit_log set actor = 'nobody' where n = 1")
    ended = await run("audit", "verify", "--business", "corner", fails=1)
    assert ended.err == "corner: broken: entry 1 is not as it was written\n"


# The dry run, on the clinic itself


@pytest.fixture
async def clinic(database_url: str, rows: Ground) -> tuple[Ground, Draft, datetime]:
    """A prompt about a cleaning that is free, sixteen minutes old."""
    packs = load_packs()
    await migrate(database_url, packs=migrations_of(packs))
    account = await place_of(rows)
    business = (await rows.row("channel_account", id=account))["business"]
    await seed_pack(rows.database, packs["clinic"], business, SystemClock())
    day = datetime.now(UTC) + timedelta(days=7)  # noqa: TID251  a weekday to come
    day += timedelta(days=(1 - day.weekday()) % 7)
    arguments = {"service": "cleaning", "start": f"{day:%Y-%m-%d}T10:00"}
    old = await rows.now() - timedelta(minutes=16)
    conversation, prompt = await drafted(rows, f"{SUMMARY} Reply YES.", account=account, created_at=old)
    turn = await rows.turn(conversation, (await rows.row("inbound_message"))["id"])
    action = await rows.action(
        conversation, prompt=prompt, turn=turn, arguments=json.dumps(arguments), summary=SUMMARY
    )
    await rows.set("outbound", {"id": prompt}, action=action)
    draft = await PostgresRecord(rows.database).draft(prompt, round_=1)
    assert draft is not None
    return rows, draft, day


async def proposal(rows: Ground, draft: Draft) -> Proposal:
    """What the prompt would show now."""
    found: list[Proposal] = []

    class Shows(PackRehearsal):
        pass

    pack = load_packs()["clinic"]
    tool = next(one for one in pack.tools if one.name == "book_appointment")
    assert tool.check is not None
    check = tool.check

    async def noted(context: Any, arguments: Any) -> Any:
        result = await check(context, arguments)
        assert isinstance(result, Proposal), result
        found.append(result)
        return result

    class Noting:
        name, queries, tools = "clinic", pack.queries, [replace(tool, check=noted)]

    await Shows(rows.database, {"clinic": Noting()})(draft)  # type: ignore[dict-item]  # as much of a pack as is asked
    return found[0]


async def test_the_dry_run_asks_the_pack_as_the_tenant(
    clinic: tuple[Ground, Draft, datetime], run: Leeway
) -> None:
    rows, draft, day = clinic
    rehearsal = PackRehearsal(rows.database, load_packs())
    changed = await rehearsal(draft)
    assert isinstance(changed, Fails)
    assert "no longer so" in changed.why, "the stored digest is of something else"

    shows = await proposal(rows, draft)
    true = digest("book_appointment", canonical(shows.arguments), canonical(shows.shown))
    await rows.owner.execute("update pending_action set digest = $1", true)
    assert draft.request is not None
    here = replace(draft, request=replace(draft.request, digest=true))
    assert await rehearsal(here) == Passes()

    await rows.owner.execute(
        "update pending_action set arguments = replace(arguments, $1, '2020-01-07')", f"{day:%Y-%m-%d}"
    )
    ended = await run("drafts", "send", str(draft.id), fails=1)
    assert ended.err.startswith("Not sent: what it asks about could not be done now. ")
    assert (await rows.row("outbound", id=draft.id))["state"] == "draft"

    await rows.owner.execute(
        "update pending_action set arguments = replace(arguments, '2020-01-07', $1)", f"{day:%Y-%m-%d}"
    )
    await run("drafts", "send", str(draft.id))


@pytest.mark.parametrize("change", [{"tool": "gone"}, {"arguments": "{}"}, {"arguments": "no JSON"}], ids=str)
async def test_what_can_not_be_looked_at_is_not_sent(
    clinic: tuple[Ground, Draft, datetime], change: dict[str, str]
) -> None:
    rows, draft, _ = clinic
    assert draft.request is not None
    found = await PackRehearsal(rows.database, load_packs())(
        replace(draft, request=replace(draft.request, **change))
    )
    assert isinstance(found, Fails)
