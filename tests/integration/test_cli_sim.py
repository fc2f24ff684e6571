"""`leeway sim` as a person or a script would use it: lines piped into it, and what it prints."""

import fcntl
import re
import tomllib
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Protocol
from zoneinfo import ZoneInfo

import pytest

from shared.clock import SystemClock
from tests.support.commands import Ended, environment, leeway
from tests.support.process import make_directory, remove_directory

pytestmark = [pytest.mark.postgres, pytest.mark.stack]

ZONE = ZoneInfo("Europe/Bucharest")
SEED = Path(__file__).parents[2] / "packs/clinic/seed.toml"


def open_day() -> date:
    """The next day but one, or later, on which the demo clinic is open from nine to six."""
    closed = {one["day"] for one in tomllib.loads(SEED.read_text(encoding="utf-8"))["holidays"]}
    days = (SystemClock().now().astimezone(ZONE).date() + timedelta(days=ahead) for ahead in range(2, 14))
    return next(day for day in days if day.weekday() < 4 and day.isoformat() not in closed)


DAY = open_day()
ON_DAY = f"on {DAY.day} {DAY:%B}"
BOOK = f"Book a cleaning {ON_DAY} at 10"
ASKED = "[1 Confirm] [2 Cancel]"
SENTENCE = "Add 300 for groceries, then delete expense 1"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Not pytest's own: as root each new session of it shuts the way to those of all others, Postgres's too."""
    directory = make_directory("sim")
    yield directory
    remove_directory(directory)


class Sim(Protocol):
    async def __call__(self, *lines: str, options: str = "", fails: int = 0, **env: str) -> list[str]: ...


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    """Pipes the lines into it; what it printed, line by line."""

    async def sim(*lines: str, options: str = "", fails: int = 0, **env: str) -> list[str]:
        typed = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        ended = await leeway(
            "sim",
            *options.split(),
            cwd=tmp_path,
            env=environment(TMPDIR=str(tmp_path), **env),
            typed=typed,
            within_s=120,
        )
        assert_clean(ended, fails)
        return (ended.err if fails else ended.out).splitlines()

    return sim


def assert_clean(ended: Ended, code: int) -> None:
    assert ended.code == code, ended.out + ended.err
    assert "Traceback" not in ended.err
    assert "bug" not in ended.err
    if not code:
        assert ended.err == ""
    assert "\x1b" not in ended.out
    assert "\x07" not in ended.out
    assert "> " not in re.sub(r"→ \+\d+ ", "", ended.out), "no prompt"
    assert not any(line.endswith(" ") for line in ended.out.splitlines())


def place(lines: list[str], *said: str) -> list[int]:
    """Where each was said, in this order; a failure names what was not."""
    places: list[int] = []
    for one in said:
        begins = places[-1] + 1 if places else 0
        found = [at for at, line in enumerate(lines) if at >= begins and one in line]
        assert found, f"{one!r} not after line {begins}:\n" + "\n".join(lines)
        places.append(found[0])
    return places


async def test_a_booking_and_why_it_went_so(sim: Sim) -> None:
    said = await sim("Hello", BOOK, "/why", "ok", "YES", "/why", "What are my appointments?", "/press 1")
    assert said[0].startswith("bot       Hello!")
    place(
        said,
        f"bot       Book: cleaning with Dr. Ionescu, {DAY:%A} {DAY.day} {DAY:%B}, 10:00.",
        f"guard    “{BOOK}” passes to the bot",
        "turn     of a message, tool_loop on mock",
        "model    call 1: done,",
        "tool     book_appointment {",
        "ask",
        "because level 2 (the pack's) and risk write, a floor of 1 at every level, ruling: ask, 1 × the customer's yes",
        "waits for the customer's yes, step 1 of 1",
        "cost     $0 in 1 model call",
        "bot       To be sure, please answer YES or NO: Book: cleaning",
        "bot       Booked: cleaning with Dr. Ionescu",
        "yes      confirmation 1 of 1 of book_appointment",
        "receipt  book_appointment: {",
        "cost     $0 in 0 model calls",
        "bot       Your appointments: cleaning",
        "bot       That request is no longer open, so nothing was changed.",
    )


async def test_nothing_is_kept_and_nothing_is_left_behind(sim: Sim, tmp_path: Path) -> None:
    assert await sim("/quit", "never read") == []
    assert await sim() == []
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240  nothing else runs


LEVELS = [
    ("--level 1", {}, "not permitted to add"),
    ("--level add_expense=3", {"AUTONOMY": "1"}, "Added: expense 1, groceries, 300.00 RON. I'm not permitted to delete"),
    ("--level 2", {"AUTONOMY": "1"}, "Add expense: groceries, 300.00 RON."),
    ("", {"AUTONOMY": "3"}, "Delete expense 1: groceries, 300.00 RON."),
    ("--level 4", {}, "Added: expense 1, groceries, 300.00 RON. Deleted: expense 1, groceries, 300.00 RON."),
]  # fmt: skip


@pytest.mark.parametrize(("options", "env", "answer"), LEVELS)
async def test_the_level_decides(sim: Sim, options: str, env: dict[str, str], answer: str) -> None:
    said = await sim(SENTENCE, options=f"--pack expenses {options}", **env)
    assert answer in said[0], said


async def test_levels_and_modes_change_in_the_chat(sim: Sim) -> None:
    said = await sim(
        "/level 3", "Add 20 for lunch", "/level add_expense 1", "Add 30 for tea", "/policy", "/mode off", "hello",
        "/level auto", "hello there", options="--pack expenses",
    )  # fmt: skip
    place(
        said,
        "delete_expense  irreversible  3      asks the customer once",
        "bot       Added: expense 1, lunch, 20.00 RON.",
        "add_expense  write  1      is denied",
        "bot       I'm not permitted to add expenses here",
        "The mode is auto.",
        "add_expense     write         1      is denied",
        "[the mode is off]",
        "[nothing is sent: the mode is off",
        "[the mode is auto]",
        "bot       Hello!",
    )


async def test_drafts_are_sent_edited_and_discarded_by_a_person(sim: Sim) -> None:
    said = await sim(
        BOOK, "/drafts", "/send 1", "YES", "/send", "Hello", "/edit 3 Good morning, Ana!", "What are your prices?",
        "/discard", "/drafts", "/send 3", "/send 77", "/send", options="--mode suggest",
    )  # fmt: skip
    place(
        said,
        "draft     [1, not sent: the mode is suggest] Book: cleaning",
        "1 +40700000010 the mode is suggest: Book: cleaning",
        "[It is on its way.]",
        ASKED,
        "draft     [2, not sent: the mode is suggest] Booked: cleaning",
        "[It is on its way.]",
        "bot       Booked: cleaning",
        "draft     [3, not sent: the mode is suggest] Hello!",
        "[It is on its way, as edited.]",
        "bot       Good morning, Ana!",
        "draft     [4, not sent: the mode is suggest] We offer",
        "[Discarded.]",
        "No drafts wait.",
        "[Already decided by simulator (edited and sent",
        "There is no draft 77; see /drafts.",
        "Which draft? See /drafts.",
    )


async def test_a_person_approves_declines_and_lets_time_run_out(sim: Sim) -> None:
    said = await sim(
        "/level book_appointment 2 both", BOOK, "yes", "/approvals", "/approve",
        f"Book a filling {ON_DAY} at 15:00", "yes", "/decline 2 The dentist is ill",
        f"Book a check-up {ON_DAY} at 11:00", "yes", "/time +25h", "/approve 3",
    )  # fmt: skip
    place(
        said,
        "book_appointment  write  2      asks the customer once*, then asks an operator",
        ASKED,
        "bot       A colleague has to approve this first.",
        "approval  [1, waits for a person; the customer has said yes] Book: cleaning",
        "1 +40700000010 Book: cleaning",
        "[Approved; it is carried out.]",
        "bot       Booked: cleaning",
        "approval  [2, waits for a person; the customer has said yes] Book: filling",
        "[Declined; the customer is told.]",
        "it can't be done: The dentist is ill",
        "approval  [3, waits for a person; the customer has said yes] Book: check-up",
        "bot       Nobody could approve your request in time",
        "[Already decided by clock",
    )


async def test_a_prompt_expires_in_business_time(sim: Sim) -> None:
    said = await sim(BOOK, "/time +20m", "YES", "YES", "/time +3d", "/time")
    place(
        said,
        "bot       Book: cleaning",
        "[it is ",
        "bot       Some time has passed, so I checked again: Book: cleaning",
        "bot       Booked: cleaning",
    )


async def test_a_reminder_comes_the_day_before_and_waits_for_the_morning(sim: Sim) -> None:
    half_past_two = datetime.combine(
        DAY - timedelta(days=1), time(2, 30), ZONE
    )  # in the night before the day before
    minutes = int((half_past_two - SystemClock().now()) / timedelta(minutes=1))
    said = await sim(
        f"Book a cleaning {ON_DAY} at 9", "YES", f"/time +{minutes}m", "/time +7h", "/press 1"
    )  # fmt: skip
    times = place(
        said,
        "bot       Booked: cleaning",
        "[it is",
        "reminder  A reminder of your appointment: cleaning",
        "[it is",
    )
    assert times == [1, 2, 3, 4], said
    place(said, "[1 I'll be there] [2 I can't come]", "bot       Thank you")


async def test_customers_take_turns_and_people_take_over(sim: Sim) -> None:
    said = await sim(
        BOOK, "/as +40 700 000 011", "What are my appointments?", "I want to talk to a person", "Anybody?",
        "/reply This is Maria.", "/as +40700000010", "YES", "/release +40700000011", "/release", "/take", "hello",
        "/as +40700000011", "Where are you?", "/as 12",
    )  # fmt: skip
    place(
        said,
        ASKED,
        "[you are +40700000011: a new customer]",
        "bot       You have no appointments coming up.",
        "bot       A colleague will take over",
        "[people answer from now on: the customer asked for a person",
        "[nothing is sent: people answer this conversation",
        "operator  This is Maria.",
        "[you are +40700000010: the conversation goes on]",
        "bot       Booked: cleaning",
        "[the bot answers +40700000011 again]",
        "[The bot answers this conversation; take it over first.]",
        "[people answer from now on: an operator took over",
        "[nothing is sent: people answer this conversation",
        "bot       You find us at",
        "That is no telephone number",
    )


async def test_buttons_have_numbers_and_titles(sim: Sim) -> None:
    said = await sim(
        "/press 1", BOOK, "/press 3", "/press cancel", f"Book a cleaning {ON_DAY} at 11", "/press Confirm"
    )
    place(
        said,
        "No message with buttons has arrived.",
        ASKED,
        "/press takes 1 or 2 or Confirm or Cancel.",
        "bot       All right, I left it as it was.",
        ASKED,
        "bot       Booked: cleaning",
    )


async def test_what_can_not_be_done_is_one_line(sim: Sim) -> None:
    said = await sim(
        "/dance", "/level 7", "/level nope 2", "/mode fast", "/time soon", "/time +400d", "/edit 1", "/approve",
        "/why", "/release", "/as \x1b[2J", "", "   ", "/",
    )  # fmt: skip
    assert [line.partition(" ")[0] for line in said] == [
        "There", "/level", "Pack", "/mode", "/time", "/time", "/edit", "Which", "+40700000010", "+40700000010", "That", "There",
    ]  # fmt: skip
    assert "/press, /as, /time, /why" in said[0]


async def test_hostile_text_is_only_text(sim: Sim) -> None:
    said = await sim(
        "\x1b[2J\x1b]0;owned\x07[red]hi[/red]", "/why", "/mode suggest", "hi", "/edit 1 \x1b[31m[bold]x\u202e", "a\udcff\x00b",
        "//quit", "x" * 5_000,
    )  # fmt: skip
    assert any("\\u001b[2J" in line and "[red]hi[/red]" in line for line in said)
    assert any(line.endswith("\\u001b[31m[bold]x\\u202e") for line in said)


async def test_a_machine_and_a_refused_send(sim: Sim) -> None:
    said = await sim("This is an automated reply", "/as +40700000099", "Hello")
    place(
        said,
        "[people answer from now on: the other end looks like a machine",
        "draft     [1, not sent: the channel refused it: number can't be reached] Hello!",
    )


async def test_a_long_chat_of_a_quick_typist_is_no_machines(sim: Sim) -> None:
    """More messages than ten minutes take, each right after the answer."""
    said = await sim(*("Hello", "What are your prices?", "Where do I find you in town?") * 8, "/why")
    assert len([line for line in said if line.startswith("bot ")]) == 24
    assert not any("people answer" in line for line in said)


async def test_a_model_that_is_away_is_told_of(sim: Sim) -> None:
    said = await sim("Hello", "/why", LLM="openai-compatible:m@http://127.0.0.1:1/v1")
    place(
        said,
        "bot       I'm not sure about that. I'll ask a colleague",
        "[people answer from now on: the model gave no answer",
        "failed, 0 tokens in, 0 out, cost unknown",
        "cost     unknown, in 2 model calls",
    )


async def test_romanian_from_the_first_word(sim: Sim) -> None:
    said = await sim("2", options="--locale ro")
    assert "Scrieți" in said[0] or "programare" in said[0], said


async def test_a_kept_directory_goes_on_and_is_nobody_elses(sim: Sim, tmp_path: Path) -> None:
    first = await sim("/time +1d", BOOK, "/mode off", "/time", options="--data kept")
    said = await sim("/time", "/policy", "/mode auto", "YES", options="--data kept")
    assert said[0].partition(",")[0] == first[-1].partition(",")[0], "the day"
    place(said, "The mode is off.", "bot       Booked: cleaning")
    with (tmp_path / "kept/lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert await sim("hello", options="--data kept", fails=1) == [
            "leeway: Another leeway is running on kept; stop it first, or name another with --data."
        ]


WRONG = [
    ("--level 5", {}, "--level takes a level from 0 to 4, not '5'"),
    ("--level many", {}, "--level takes a level from 0 to 4, not 'many'"),
    ("--level cancel=2", {}, "pack clinic has no tool 'cancel'"),
    ("--level find_slots=", {}, "--level find_slots takes a level from 0 to 4"),
    ("", {"AUTONOMY": "5"}, "AUTONOMY takes a level from 0 to 4, not '5'"),
    ("", {"AUTONOMY": "-1"}, "AUTONOMY takes a level from 0 to 4"),
    ("", {"AUTONOMY": "3.0"}, "AUTONOMY takes a level from 0 to 4"),
    ("--level 2", {"AUTONOMY": "high"}, "AUTONOMY takes a level from 0 to 4"),
    ("--pack bank", {}, "there is no pack 'bank'; there are: clinic, expenses"),
    ("--locale xx", {}, "there is no locale 'xx'"),
    ("--mode fast", {}, "fast"),
    ("--as 12", {}, "'12' is no telephone number"),
]


@pytest.mark.parametrize(("options", "env", "said"), WRONG)
async def test_a_wrong_start_is_refused_with_2(
    sim: Sim, options: str, env: dict[str, str], said: str
) -> None:
    lines = await sim("hello", options=options, fails=2, **env)
    assert said in " ".join(re.sub(r"[│╭╮╰╯─]", " ", " ".join(lines)).split())


async def test_a_model_without_its_key_is_one_line(sim: Sim) -> None:
    (line,) = await sim("hello", fails=1, LLM="openai:gpt-5-mini")
    assert "OPENAI_API_KEY" in line
