"""The tools as the pipeline meets them: what they declare, what they refuse to read, what they propose."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from packs.clinic import PACK
from packs.clinic.arguments import BookAppointment, FindSlots, RescheduleAppointment
from packs.clinic.booking import check_booking
from packs.clinic.changes import check_reschedule
from packs.clinic.operations import find_slots
from packs.clinic.prompt import prompt_facts
from shared.autonomy import Risk
from shared.database.queries import queries_of
from shared.packs import Established, Feeds, KeepsHours, Proposal, Refusal, Reminds, Tool, ToolKind
from tests.unit.clinic_demo import IONESCU, THURSDAY, Booked, FakeSql, busy, context
from tests.unit.clinic_talk import Talk

TOOLS = {tool.name: tool for tool in PACK.tools}
BOOK = {"service": "cleaning", "start": "2026-12-04T10:00"}
ID = "018f8a30-0000-7000-8000-000000000001"
FIND = {"service": "cleaning", "first_day": "2026-12-04", "last_day": "2026-12-04"}


@pytest.mark.parametrize("tool", PACK.tools, ids=lambda tool: tool.name)
def test_every_tool_says_what_a_wrong_call_costs_and_has_its_parts(tool: Tool) -> None:
    assert tool.risk is not None
    assert tool.wrong_call_costs.endswith(".")
    assert "\n" not in tool.wrong_call_costs
    assert tool.level == 2
    if tool.kind is ToolKind.READ:
        assert (tool.risk, tool.floor) == (Risk.READ, 0)
        assert tool.read
        assert (tool.check, tool.execute) == (None, None)
    else:
        assert tool.floor >= 1
        assert all((tool.check, tool.execute, tool.word_prompt, tool.word_done, tool.word_refusal))


def test_what_changes_something_says_who_may_and_gives_an_example_and_what_it_needs() -> None:
    actions = {tool.name: tool for tool in PACK.tools if tool.kind is ToolKind.ACTION}

    assert all(tool.example and tool.who_may for tool in actions.values())
    assert {name: tool.floor for name, tool in actions.items()} == {
        "book_appointment": 1, "reschedule_appointment": 1, "cancel_appointment": 2, "update_my_name": 1,
    }  # fmt: skip
    assert {name for name, tool in actions.items() if tool.risk is Risk.IRREVERSIBLE} == {
        "cancel_appointment"
    }
    assert {name for name, tool in actions.items() if tool.needs == ("list_my_appointments",)} == {
        "reschedule_appointment",
        "cancel_appointment",
    }


def test_the_pack_keeps_hours_reminds_and_feeds() -> None:
    assert isinstance(PACK, KeepsHours)
    assert isinstance(PACK, Reminds)
    assert isinstance(PACK, Feeds)


@pytest.mark.parametrize(
    "example", [tool.example for tool in PACK.tools if tool.example and tool.name != "update_my_name"]
)
async def test_an_example_lacks_nothing(example: str) -> None:
    """The mock model calls its tool at once, for who has one appointment on Friday at 10."""
    talk = Talk(mine=[Booked(start="2026-12-04 10:00")])
    await talk.hear(example)

    assert len(talk.asked) == 1


def test_the_pack_is_what_the_pipeline_asks_for() -> None:
    assert list(TOOLS) == [
        "get_clinic_info", "find_slots", "list_my_appointments", "book_appointment",
        "reschedule_appointment", "cancel_appointment", "update_my_name",
    ]  # fmt: skip
    assert sorted(path.name for path in Path(PACK.migrations).iterdir()) == [
        "0001_clinic.sql",
        "0002_whole_clinic.sql",
    ]
    assert "clinic.diary" in queries_of(PACK)


@pytest.mark.parametrize("tool", PACK.tools, ids=lambda tool: tool.name)
def test_schemas_are_closed_and_bounded(tool: Tool) -> None:
    schema = tool.arguments.model_json_schema()

    assert schema["additionalProperties"] is False
    for field in schema.get("properties", {}).values():
        texts = [one for one in (field, *field.get("anyOf", ())) if one.get("type") == "string"]
        assert all("maxLength" in one or "enum" in one for one in texts)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        pytest.param("book_appointment", BOOK | {"customer": "someone"}, id="an identity"),
        pytest.param("book_appointment", BOOK | {"business": 2}, id="another business"),
        pytest.param("book_appointment", {"service": "cleaning"}, id="no start"),
        pytest.param("book_appointment", BOOK | {"service": 7}, id="a number for a text"),
        pytest.param("book_appointment", BOOK | {"service": ["cleaning"]}, id="a list for a text"),
        pytest.param("book_appointment", BOOK | {"service": None}, id="null for a text"),
        pytest.param("book_appointment", BOOK | {"service": ""}, id="an empty text"),
        pytest.param("book_appointment", BOOK | {"service": "x" * 61}, id="a long service"),
        pytest.param("book_appointment", BOOK | {"dentist": "x" * 100_000}, id="an absurd dentist"),
        pytest.param("book_appointment", BOOK | {"start": "tomorrow at 10"}, id="words for a time"),
        pytest.param("book_appointment", BOOK | {"start": 1796284800}, id="seconds for a time"),
        pytest.param("book_appointment", BOOK | {"start": "2026-12-04"}, id="no time of day"),
        pytest.param("book_appointment", BOOK | {"start": "2026-02-30T10:00"}, id="a day that is none"),
        pytest.param("book_appointment", BOOK | {"start": "2026-12-04T24:30"}, id="an hour that is none"),
        pytest.param("book_appointment", BOOK | {"start": "2026-12-04T10:00:31"}, id="seconds"),
        pytest.param(
            "book_appointment", BOOK | {"start": "2026-12-04T10:00+99:00"}, id="an offset that is none"
        ),
        pytest.param("book_appointment", BOOK | {"start": "0001-01-01T00:00"}, id="the year 1"),
        pytest.param("book_appointment", BOOK | {"start": "9999-12-31T23:59"}, id="the year 9999"),
        pytest.param("book_appointment", BOOK | {"start": "２０２６-12-04T10:00"}, id="other digits"),
        pytest.param("find_slots", FIND | {"part_of_day": "night"}, id="a part of no day"),
        pytest.param("find_slots", FIND | {"last_day": "2026-12-03"}, id="ends before it begins"),
        pytest.param("find_slots", FIND | {"last_day": "2027-12-03"}, id="a year of slots"),
        pytest.param("find_slots", FIND | {"first_day": "2026-12-04T10:00"}, id="a time for a day"),
        pytest.param("get_clinic_info", {"topic": "hours"}, id="an argument too many"),
        pytest.param("cancel_appointment", {}, id="no appointment"),
        pytest.param("cancel_appointment", {"appointment": 17}, id="a number for an appointment"),
        pytest.param("cancel_appointment", {"appointment": "17"}, id="no id"),
        pytest.param("cancel_appointment", {"appointment": "all"}, id="all of them"),
        pytest.param("cancel_appointment", {"appointment": [ID, ID]}, id="two at once"),
        pytest.param("cancel_appointment", {"appointment": ID + " or 1=1"}, id="an id and more"),
        pytest.param("cancel_appointment", {"appointment": ID + "\n"}, id="an id and a line"),
        pytest.param("cancel_appointment", {"appointment": ID, "customer": ID}, id="somebody else"),
        pytest.param("reschedule_appointment", {"appointment": ID}, id="no new start"),
        pytest.param("reschedule_appointment", {"appointment": ID, "start": "later"}, id="no time"),
        pytest.param("reschedule_appointment", {"appointment": ID, **BOOK}, id="another service"),
        pytest.param("update_my_name", {"name": ""}, id="an empty name"),
        pytest.param("update_my_name", {"name": "a" * 81}, id="an absurd name"),
        pytest.param("update_my_name", {"name": "Ana", "customer": ID}, id="somebody else's name"),
        pytest.param("list_my_appointments", {"customer": "someone"}, id="another's appointments"),
    ],
)
def test_bad_arguments_are_refused(tool: str, arguments: dict[str, Any]) -> None:
    model = TOOLS[tool].arguments

    with pytest.raises(ValidationError):
        model.model_validate_json(json.dumps(arguments))
    with pytest.raises(ValidationError):
        model.model_validate(arguments)


@pytest.mark.parametrize(
    "start", ["2026-12-04T10:00", "2026-12-04T10:00:00", "2026-12-04T10:00+02:00", "2026-12-04T08:00Z"]
)
async def test_however_a_start_is_written_one_instant_is_proposed(start: str) -> None:
    proposal = await check_booking(context(), BookAppointment(service="curatare", start=start))

    assert proposal == Proposal(
        arguments={"service": "cleaning", "dentist": "Dr. Ionescu", "start": "2026-12-04T10:00+02:00"},
        shown={
            "service": {"en": "cleaning", "ro": "curățare"},
            "dentist": "Dr. Ionescu",
            "start": "2026-12-04T10:00+02:00",
            "zone": "Europe/Bucharest",
        },
    )


async def test_a_proposal_is_the_same_in_every_locale_and_json_through_and_through() -> None:
    asked = BookAppointment(**BOOK)
    proposals = [await check_booking(context(locale=locale), asked) for locale in ("en", "ro", "de")]

    assert proposals[0] == proposals[1] == proposals[2]
    assert isinstance(proposals[0], Proposal)
    assert json.loads(json.dumps(proposals[0].arguments)) == proposals[0].arguments
    assert json.loads(json.dumps(proposals[0].shown)) == proposals[0].shown


async def test_a_taken_slot_comes_with_alternatives_a_model_can_book() -> None:
    taken = busy(IONESCU, "2026-12-04 10:00", "2026-12-04 10:45")
    refused = await check_booking(context(taken=[taken]), BookAppointment(**BOOK, dentist="Ionescu"))

    assert isinstance(refused, Refusal)
    assert refused.code == "slot_taken"
    first = refused.detail["alternatives"][0]
    assert first == {
        "start": "2026-12-04T09:15+02:00", "when": "Friday 4 December, 09:15", "dentist": "Dr. Ionescu",
    }  # fmt: skip
    again = BookAppointment(service="cleaning", start=first["start"], dentist=first["dentist"])
    assert isinstance(await check_booking(context(taken=[taken]), again), Proposal)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("Friday at 10 please", None),
        ("poimâine la 10", "date_mismatch"),
        ("Thursday at 10", "date_mismatch"),
        ("yes", None),
        ("", None),
    ],
)
async def test_the_models_date_is_held_against_the_customers_words(said: str, code: str | None) -> None:
    outcome = await check_booking(context(said=said), BookAppointment(**BOOK))

    assert (outcome.code if isinstance(outcome, Refusal) else None) == code


async def test_a_proposal_takes_one_query() -> None:
    turn = context()
    await check_booking(turn, BookAppointment(**BOOK))

    assert isinstance(turn.sql, FakeSql)
    assert turn.sql.asked == ["clinic.diary"]


async def test_slots_say_when_in_the_customers_language() -> None:
    found = await find_slots(context(locale="ro"), FindSlots.model_validate(FIND))

    assert isinstance(found, Established)
    assert found.data["name"] == "curățare"
    assert found.data["slots"][0] == {
        "start": "2026-12-04T09:00+02:00", "when": "vineri 4 decembrie, 09:00", "dentist": "Dr. Ionescu",
    }  # fmt: skip
    assert len(found.data["slots"]) == 8


@pytest.mark.parametrize(
    ("first", "last", "code"),
    [("2026-11-02", "2026-11-03", "in_the_past"), ("2027-07-01", "2027-07-02", "too_far")],
)
async def test_slots_are_neither_past_nor_beyond_the_horizon(first: str, last: str, code: str) -> None:
    found = await find_slots(
        context(now=THURSDAY), FindSlots(service="cleaning", first_day=first, last_day=last)
    )

    assert isinstance(found, Refusal)
    assert found.code == code


@pytest.mark.parametrize("tool", ["cancel_appointment", "reschedule_appointment"])
async def test_anothers_appointment_takes_the_same_one_query_as_none(tool: str) -> None:
    check, model = TOOLS[tool].check, TOOLS[tool].arguments
    assert check
    more = {"start": "2026-12-07T10:00"} if tool == "reschedule_appointment" else {}
    turn = context(mine=[Booked(start="2026-12-04 10:00")])

    assert await check(turn, model(appointment=ID, **more)) == Refusal(code="no_such_appointment")
    assert isinstance(turn.sql, FakeSql)
    assert turn.sql.asked == ["clinic.own_appointment"]


async def test_a_move_is_the_same_in_every_locale_and_json_through_and_through() -> None:
    mine = [Booked(start="2026-12-04 10:00")]
    asked = RescheduleAppointment(appointment=str(mine[0].id), start="2026-12-07T10:00")
    proposals = [await check_reschedule(context(locale=one, mine=mine), asked) for one in ("en", "ro", "de")]

    assert proposals[0] == proposals[1] == proposals[2]
    assert isinstance(proposals[0], Proposal)
    assert json.loads(json.dumps(proposals[0].shown)) == proposals[0].shown
    assert proposals[0].shown["from"] == "2026-12-04T10:00+02:00"


async def test_a_moves_day_is_held_against_the_customers_words() -> None:
    mine = [Booked(start="2026-12-04 10:00")]
    asked = RescheduleAppointment(appointment=str(mine[0].id), start="2026-12-08T10:00")
    said = "move my Friday appointment to Monday at 10"
    refused = await check_reschedule(context(said=said, mine=mine), asked)

    assert isinstance(refused, Refusal)
    assert refused.code == "date_mismatch"


async def test_today_is_the_clinics_own_shortly_after_its_midnight() -> None:
    """22:30 of the day before in UTC, where the server lives."""
    night = datetime(2026, 12, 6, 22, 30, tzinfo=UTC)
    page = await prompt_facts(context(now=night))
    asked = BookAppointment(service="cleaning", start="2026-12-08T10:00")

    assert "Today: 2026-12-07, Monday" in page
    assert isinstance(await check_booking(context(now=night, said="tomorrow at 10"), asked), Proposal)
    refused = await check_booking(context(now=night, said="today at 10"), asked)
    assert isinstance(refused, Refusal)
    assert refused.code == "date_mismatch"


async def test_a_time_that_passed_while_the_question_was_open_is_refused() -> None:
    asked = BookAppointment(service="cleaning", start="2026-12-03T10:05")
    proposal = await check_booking(context(now=THURSDAY), asked)
    assert isinstance(proposal, Proposal)

    late = THURSDAY + timedelta(minutes=6)
    again = await check_booking(context(now=late), BookAppointment.model_validate(dict(proposal.arguments)))
    assert isinstance(again, Refusal)
    assert again.code == "in_the_past"
