"""Whatever anybody sends under a valid signature, on every channel, and whatever the database makes of it: never a 500, no
well-formed neighbour lost, nobody made up. The channel hears a 503 where it should deliver again."""

import itertools
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from services.ingest.adapters.postgres_inbox import PostgresInbox
from shared.broker.memory import MemoryBroker
from shared.channels.traits import ChannelName
from shared.errors import Conflict, ConstraintRefused, LeewayError
from tests.support.faults import installation
from tests.support.hooks import Hooks, hooks_on
from tests.support.payloads import NINE, OUR_NUMBER, TWILIO_SID, Payload, whatsapp_of
from tests.support.stack import Stack, stack_on

pytestmark = pytest.mark.postgres

ANYTHING = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

_ids = itertools.count(1)


@pytest.fixture
async def stack(database_url: str) -> AsyncIterator[Stack]:
    """Only its database and its questions; no process of it runs."""
    async with stack_on(database_url, "amqp://none.invalid") as stack:
        yield stack


@pytest.fixture
async def hooks(database_url: str) -> AsyncIterator[Hooks]:
    async with hooks_on(database_url) as made:
        yield made


# What anybody may send

TEXT = st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)


def made(channel: ChannelName, content: Any) -> Payload:
    return Payload(channel=channel, name="made", content=content, webhook_id=f"msg_{next(_ids)}")


@pytest.mark.parametrize(
    "channel", [ChannelName.WHATSAPP, ChannelName.TELEGRAM, ChannelName.GENERIC, ChannelName.SIM]
)
@ANYTHING
@given(content=JSON | st.binary(max_size=200))
async def test_no_json_and_no_bytes_under_a_valid_signature_are_a_5xx(
    hooks: Hooks, channel: ChannelName, content: Any
) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    assert (await hooks.send(made(channel, {}), body=body)).status_code in (200, 400)


FIELDS = ("MessageSid", "SmsSid", "From", "To", "Body", "AccountSid", "NumMedia", "MediaUrl0", "MediaContentType0", "OptOutType",
          "ButtonPayload", "ButtonText", "ListId", "WaId", "ExternalUserId", "Latitude", "Longitude", "ChannelMetadata", "MessageStatus",
          "ErrorCode", "OriginalRepliedMessageSid", "MessageType", "Forwarded", "ProfileName")  # fmt: skip
FORM_VALUES = st.text(max_size=20) | st.sampled_from(["+40700000001", OUR_NUMBER, f"whatsapp:{OUR_NUMBER}", TWILIO_SID, "SM1", "whatsapp:RO.9", "99999", "-1", "sent", "{}"])  # fmt: skip
FORMS = st.dictionaries(st.sampled_from(FIELDS) | TEXT, FORM_VALUES, max_size=10)


@pytest.mark.parametrize("below", ["", "/status"])
@ANYTHING
@given(form=FORMS)
async def test_no_form_under_a_valid_signature_is_a_5xx_or_makes_up_its_sender(
    hooks: Hooks, below: str, form: dict[str, str]
) -> None:
    await hooks.forget()
    payload = Payload(channel=ChannelName.TWILIO, name="made", content=form, below=below)
    answer = await hooks.send(payload)
    assert answer.status_code in (200, 400)
    assert answer.headers["content-type"].startswith("text/xml"), "a plain body can be texted to the customer"
    said = {form.get(name, "").replace("\x00", "\ufffd") for name in ("From", "ExternalUserId", "WaId")}
    for row in await hooks.stored():
        assert row["user_id"].removeprefix("whatsapp:") in {one.removeprefix("whatsapp:") for one in said}


PEOPLE = st.sampled_from(
    ["40700000001", "40700000002", "RO.90000000000000000001", "RO.90000000000000000002", ""]
)
ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "from": PEOPLE | JSON,
        "from_user_id": PEOPLE | JSON,
        "to": PEOPLE | JSON,
        "to_user_id": PEOPLE | JSON,
        "timestamp": st.just(str(NINE)) | JSON,
        "type": st.sampled_from(
            ["text", "image", "contacts", "reaction", "interactive", "button", "edit", "revoke", "system", "order", "location", "unsupported"]
        ) | JSON,
        "text": st.fixed_dictionaries({"body": TEXT}) | JSON,
        "interactive": OBJECTS | JSON,
        "button": OBJECTS | JSON,
        "reaction": OBJECTS | JSON,
        "contacts": st.lists(OBJECTS, max_size=2) | JSON,
        "edit": OBJECTS | JSON,
        "revoke": OBJECTS | JSON,
        "system": OBJECTS | JSON,
        "context": OBJECTS | JSON,
        "image": OBJECTS | JSON,
        "location": OBJECTS | JSON,
        "order": OBJECTS | JSON,
        "errors": JSON,
        "group_id": JSON,
        "origin": JSON,
    },
)  # fmt: skip
CONTACTS = {"40700000002": "RO.90000000000000000002"}  # of those beside the items, who has a number
NOISE = st.lists(ITEMS | JSON, max_size=3)


def text_of(id_: str) -> dict[str, Any]:
    return {
        "by": "ana",
        "id": id_,
        "timestamp": str(NINE),
        "type": "text",
        "text": {"body": "Hello"},
    }


@ANYTHING
@given(
    before=NOISE,
    after=NOISE,
    contacts=JSON,
    changes=st.lists(JSON, max_size=2),
    entries=st.lists(JSON, max_size=2),
)
async def test_a_well_formed_message_of_whatsapps_is_stored_whatever_lies_beside_it(
    hooks: Hooks,
    *,
    before: list[Any],
    after: list[Any],
    contacts: Any,
    changes: list[Any],
    entries: list[Any],
) -> None:
    wanted = f"wamid.{next(_ids)}"
    payload = whatsapp_of({"messages": [text_of(wanted)], "statuses": [{"id": 5}]})
    entry = payload.content["entry"][0]
    value = entry["changes"][0]["value"]
    value["messages"] = [*before, *value["messages"], *after]
    value["contacts"] = contacts
    entry["changes"] = [*changes, *entry["changes"], *changes]
    payload.content["entry"] = [*entries, entry, *entries]
    assert (await hooks.send(payload)).status_code == 200
    assert len(await hooks.place.rows("inbound_message", external_id=wanted)) == 1


@ANYTHING
@given(items=st.lists(ITEMS, min_size=1, max_size=4), name=st.sampled_from(["messages", "message_echoes"]))
async def test_no_message_of_whatsapps_is_for_somebody_whom_its_item_does_not_name(
    hooks: Hooks, items: list[dict[str, Any]], name: str
) -> None:
    """Contacts of others lie beside it: they tell the user id of a number that the item states, and never stand in for one."""
    await hooks.forget()
    by_id = {f"wamid.{next(_ids)}": item for item in items}
    payload = whatsapp_of(
        {"contacts": ["dan", "ela"], name: [{**item, "id": id_} for id_, item in by_id.items()]}
    )
    assert (await hooks.send(payload)).status_code == 200
    for row in await hooks.stored():
        said = set(strings_in(by_id[row["id"]]))
        known = {user for number, user in CONTACTS.items() if number in said}
        if (row["reply_to"] or "").removeprefix(
            "+"
        ) in said:  # whoever stated both before is found by the number
            known.add(row["user_id"])
        assert row["user_id"].removeprefix("+") in said | known


def strings_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value, value.removeprefix("+")]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [text for one in value for text in strings_in(one)] if isinstance(value, list) else []


CHATS = st.fixed_dictionaries(
    {"id": st.integers() | JSON, "type": st.sampled_from(["private", "group", "supergroup"]) | JSON}
)
PERSONS = st.fixed_dictionaries(
    {"id": st.integers(min_value=1, max_value=2**52) | JSON},
    optional={"is_bot": st.booleans() | JSON, "first_name": JSON},
)
UPDATES = st.fixed_dictionaries(
    {"message_id": st.integers(min_value=1) | JSON, "chat": CHATS | JSON, "from": PERSONS | JSON},
    optional={"text": TEXT | JSON, "contact": OBJECTS | JSON, "date": st.just(NINE) | JSON, "data": TEXT | JSON, "photo": JSON,
              "message": OBJECTS | JSON, "reply_to_message": OBJECTS | JSON, "location": JSON, "sticker": JSON, "caption": JSON},
)  # fmt: skip


@ANYTHING
@given(
    item=UPDATES,
    kind=st.sampled_from(["message", "edited_message", "callback_query", "my_chat_member", "poll"]),
)
async def test_no_update_of_telegrams_is_a_5xx_or_for_somebody_else(
    hooks: Hooks, item: dict[str, Any], kind: str
) -> None:
    await hooks.forget()
    answer = await hooks.send(made(ChannelName.TELEGRAM, {"update_id": next(_ids), kind: item}))
    assert answer.status_code == 200
    for row in await hooks.stored():
        assert row["user_id"] == str(item["from"]["id"])


# What the database may make of it


async def test_a_body_of_two_million_things_that_nobody_knows_is_told_in_a_line(hooks: Hooks) -> None:
    """Else one tenant's request would hold up those of all others while each is logged."""
    held = b"[" + b",".join([b"0"] * 2_000_000) + b"]"
    body = (
        b'{"object":"whatsapp_business_account","entry":[{"changes":[{"field":"messages","value":{"messages":'
        + held
        + b"}}]}]}"
    )
    with capture_logs() as told:
        answer = await hooks.send(made(ChannelName.WHATSAPP, {}), body=body)
    assert answer.status_code == 200
    lines = [line for line in told if line["event"] == "part of a webhook passed over"]
    assert [line["parts"] for line in lines] == [2_000_000]
    assert hooks.counted("parts_passed_over") == 2_000_000


@pytest.mark.parametrize("error", [Conflict("met too often"), ConstraintRefused("some_key")], ids=type)
async def test_a_commit_that_fails_is_503(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, error: LeewayError
) -> None:
    async def fails(*_: Any) -> None:
        raise error

    shop = await stack.shop()
    monkeypatch.setattr(PostgresInbox, "store", fails)
    async with installation(stack.settings, MemoryBroker()) as one:
        assert await one.say(shop, "customer", "hello", message="m-1") == 503


@pytest.mark.parametrize("address", ["%00", "a%00b", "%ff", "x" * 300])
async def test_a_strange_address_is_404(stack: Stack, address: str) -> None:
    async with installation(stack.settings, MemoryBroker()) as one:
        answer = await one.client.post(f"/hooks/sim/{address}", content=b"{}")
        assert answer.status_code == 404
