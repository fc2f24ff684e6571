"""Requests as the channels send them, from tests/data/payloads: their bodies, their signatures, what must be stored of them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from shared.channels.traits import ChannelName
from tests.oracles.signatures import FORM, meta_signed, standard_signed, twilio_signed

DATA: Final = Path(__file__).parents[1] / "data" / "payloads"
PUBLIC_URL: Final = "https://agent.example.test"
NINE: Final = 1_796_115_600  # 2026-12-01 09:00 UTC, in Unix seconds: when the requests are made
ADDRESS: Final = "acme-dental"

APP_SECRET: Final = "meta-app-secret-test-0001"
VERIFY_TOKEN: Final = "verify-me-0001"
AUTH_TOKEN: Final = "twilio-test-auth-token-0001"
BOT_SECRET: Final = "tg_secret_test_0001"
CURRENT: Final = "whsec_Z2VuZXJpYy13ZWJob29rLXRlc3Qtc2VjcmV0LTAwMDE="
PREVIOUS: Final = "whsec_Z2VuZXJpYy13ZWJob29rLU9MRC1zZWNyZXQtLTAwMDA="

OUR_NUMBER: Final = "+40700000100"
PHONE_NUMBER_ID: Final = "900000000000001"
TWILIO_SID: Final = "AC00000000000000000000000000000001"
BOT_ID: Final = "700000100"

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """One request. `content` is the object of its JSON, or a form's fields; `stored` are the rows it must become."""

    channel: ChannelName
    name: str
    content: Any
    stored: tuple[Fields, ...] = ()
    statuses: tuple[Fields, ...] = ()
    below: str = ""  # the rest of the path, after the account's address
    query: str = ""
    webhook_id: str = ""
    signers: tuple[str, ...] = ("current",)
    headers: Fields = field(default_factory=dict)  # instead of those that it would have

    @property
    def id(self) -> str:
        return f"{self.channel}: {self.name}"

    def path(self, address: str = ADDRESS) -> str:
        return f"/hooks/{self.channel}/{address}{self.below}" + (f"?{self.query}" if self.query else "")

    def body(self) -> bytes:
        if self.channel is ChannelName.TWILIO:
            return urlencode(self.content).encode()
        text = json.dumps(
            self.content, separators=(",", ":"), ensure_ascii=self.channel is ChannelName.WHATSAPP
        )
        # Meta escapes slashes too, so that a body parsed and dumped again has another signature.
        return (text.replace("/", "\\/") if self.channel is ChannelName.WHATSAPP else text).encode()

    def with_content(self, content: Any) -> "Payload":
        return replace(self, content=content)

    def with_headers(self, **headers: str) -> "Payload":
        return replace(self, headers={name.replace("_", "-"): value for name, value in headers.items()})


def signed(
    payload: Payload, body: bytes, *, address: str = ADDRESS, at: int = NINE, secret: str | None = None
) -> dict[str, str]:
    """The headers of a request with this body, signed as its channel does; `secret`: by another than the account's."""

    def by(usual: str) -> str:
        return usual if secret is None else secret

    match payload.channel:
        case ChannelName.WHATSAPP:
            headers = {"x-hub-signature-256": meta_signed(body, by(APP_SECRET))}
        case ChannelName.TWILIO:
            pairs = list(dict(payload.content).items())
            url = PUBLIC_URL + payload.path(address)
            headers = {"x-twilio-signature": twilio_signed(url, pairs, by(AUTH_TOKEN), "sha1")}
        case ChannelName.TELEGRAM:
            headers = {"x-telegram-bot-api-secret-token": by(BOT_SECRET)}
        case _:
            headers = {
                "webhook-id": payload.webhook_id,
                "webhook-timestamp": str(at),
                "webhook-signature": " ".join(_standard(body, payload, at)),
            }
    form = payload.channel is ChannelName.TWILIO
    return {"content-type": FORM if form else "application/json"} | headers | dict(payload.headers)


def _standard(body: bytes, payload: Payload, at: int) -> Iterator[str]:
    secrets = {"current": CURRENT, "previous": PREVIOUS}
    for signer in payload.signers:
        secret = secrets.get(signer)
        yield standard_signed(body, secret, payload.webhook_id, str(at)) if secret else "v1a,AAAA"


def every_payload() -> list[Payload]:
    return [*whatsapp(), *twilio(), *telegram(), *generic()]


def whatsapp() -> list[Payload]:
    data = _read("whatsapp")
    return [
        Payload(
            channel=ChannelName.WHATSAPP,
            name=case["name"],
            content=envelope(case["entries"], our=data["our"], people=data["people"]),
            stored=tuple(_by(row, data["people"]) for row in case.get("stored", ())),
            statuses=tuple(case.get("statuses", ())),
        )
        for case in data["cases"]
    ]


def whatsapp_of(*changes: Fields, our: Fields | None = None) -> Payload:
    """A request of one entry with these changes, in the short form of whatsapp.json."""
    data = _read("whatsapp")
    content = envelope([list(changes)], our=data["our"] | dict(our or {}), people=data["people"])
    return Payload(channel=ChannelName.WHATSAPP, name="made", content=content)


def envelope(entries: list[list[Fields]], *, our: Fields, people: Fields) -> dict[str, Any]:
    """Meta's envelope around changes in the short form: who wrote is a name, and says who that is."""
    return {
        "object": "whatsapp_business_account",
        "entry": [
            {"id": our["waba"], "changes": [_change(one, our, people) for one in changes]} for changes in entries
        ],
    }  # fmt: skip


def _change(short: Fields, our: Fields, people: Fields) -> dict[str, Any]:
    field_ = short.get("field", "messages")
    if "value" in short:
        return {"value": short["value"], "field": field_}
    metadata = {name: our[name] for name in ("display_phone_number", "phone_number_id")}
    value: dict[str, Any] = {"messaging_product": "whatsapp", "metadata": metadata}
    if "contacts" in short:
        value["contacts"] = [_contact(people[name]) for name in short["contacts"]]
    for name in ("messages", "statuses", "message_echoes"):
        if name in short:
            value[name] = [_item(item, people) for item in short[name]]
    return {"value": value, "field": field_}


def _contact(person: Fields) -> dict[str, Any]:
    profile = {name: person[name] for name in ("name", "username") if name in person}
    return {"profile": profile} | {name: person[name] for name in ("user_id", "wa_id") if name in person}


def _item(item: Fields, people: Fields) -> dict[str, Any]:
    rest = {name: value for name, value in item.items() if name != "by"}
    if "by" not in item:
        return rest
    person = people[item["by"]]
    number = {"from": person["wa_id"]} if "wa_id" in person else {}
    return number | {"from_user_id": person["user_id"]} | rest


def _by(row: Fields, people: Fields) -> Fields:
    if "by" not in row:
        return row
    person = people[row["by"]]
    phone = {"phone": "+" + person["wa_id"]} if "wa_id" in person else {}
    return (
        {"user_id": person["user_id"]} | phone | {name: value for name, value in row.items() if name != "by"}
    )


def twilio() -> list[Payload]:
    return [
        Payload(
            channel=ChannelName.TWILIO,
            name=case["name"],
            content=case["form"],
            below=case.get("path", ""),
            query=case.get("query", ""),
            stored=tuple(case.get("stored", ())),
            statuses=tuple(case.get("statuses", ())),
        )
        for case in _read("twilio")["cases"]
    ]


def telegram() -> list[Payload]:
    return [
        Payload(channel=ChannelName.TELEGRAM, name=case["name"], content=case["update"], stored=tuple(case["stored"]))
        for case in _read("telegram")["cases"]
    ]  # fmt: skip


def generic() -> list[Payload]:
    return [
        Payload(
            channel=ChannelName.GENERIC,
            name=case["name"],
            content=case["event"],
            webhook_id=case["webhook_id"],
            signers=tuple(case.get("signers", ("current",))),
            stored=tuple(case["stored"]),
        )
        for case in _read("generic")["cases"]
    ]


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return content
