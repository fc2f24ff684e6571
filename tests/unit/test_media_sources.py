"""Where media are fetched, on which hosts, with whose credentials, and how much is read."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from services.ingest.adapters.media_fetching import MediaFetching, Pace
from services.ingest.adapters.media_sources import Gone, NotNow, Refused, Sources
from services.ingest.ports import Wanted
from shared.channels.accounts import Secrets, Settings, Telegram, Twilio, WhatsApp
from shared.ids import BusinessId, MessageId, new_id
from shared.media import TYPES, plain_type, type_of
from shared.messages import PartKind
from tests.support.factories import NOON

OGG = b"OggS" + b"\0" * 60
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
SID = "AC" + "0" * 32
SETTINGS: dict[str, Settings] = {
    "whatsapp": WhatsApp(phone_number_id="1"),
    "twilio": Twilio(account_sid=SID, number="+40700000100"),
    "telegram": Telegram(bot_id="7"),
}
Handler = Callable[[httpx2.Request], httpx2.Response]


def wanted(channel: str, reference: str = "55", **more: Any) -> Wanted:
    plain: dict[str, Any] = {
        "message": MessageId(new_id()),
        "n": 1,
        "business": BusinessId(1),
        "kind": PartKind.AUDIO,
        "mime": "audio/ogg; codecs=opus",
        "reference": reference,
        "tries": 1,
        "until": NOON,
        "channel": channel,
        "settings": SETTINGS.get(channel, Settings()),
        "secrets": Secrets(outbound=SecretStr("7:token")),
    }
    return Wanted(**(plain | more))


async def fetch(handler: Handler, one: Wanted, *, most: int = 1000, resolves: str = "93.184.216.34") -> bytes:
    async def resolve(host: str, port: int) -> list[str]:
        return [resolves]

    sources = Sources(
        whatsapp_url="https://graph.facebook.com",
        twilio_url="https://api.twilio.com",
        telegram_url="https://api.telegram.org",
        resolve=resolve,
    )
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(handler)) as client:
        return (await sources.fetch(client, one, most=most)).content


def whatsapp_at(address: str, content: bytes = OGG, **more: Any) -> tuple[Handler, list[httpx2.Request]]:
    asked: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        if request.url.host == "graph.facebook.com":
            return httpx2.Response(200, json={"url": address, "mime_type": "audio/ogg", **more})
        return httpx2.Response(200, content=content)

    return handler, asked


@pytest.mark.parametrize(
    "address",
    ["https://lookaside.fbsbx.com/m?mid=1", "https://x.fbcdn.net/1", "https://media.facebook.com/1"],
)
async def test_whatsapp_is_asked_with_the_token_for_the_address_and_then_there(address: str) -> None:
    handler, asked = whatsapp_at(address)
    assert await fetch(handler, wanted("whatsapp")) == OGG
    assert [one.headers["authorization"] for one in asked] == ["Bearer 7:token"] * 2


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.test/1",
        "https://fbsbx.com.evil.test/1",
        "https://evilfbsbx.com/1",
        "http://lookaside.fbsbx.com/1",
        "https://a@lookaside.fbsbx.com/1",
        "https://lookaside.fbsbx.com:8443/1",
        "https://[::1",
        "file:///etc/passwd",
    ],
)
async def test_the_token_goes_to_no_host_but_metas(address: str) -> None:
    handler, asked = whatsapp_at(address)
    with pytest.raises(Refused):
        await fetch(handler, wanted("whatsapp"))
    assert len(asked) == 1


async def test_a_size_that_is_told_is_believed_before_anything_is_read() -> None:
    handler, asked = whatsapp_at("https://x.fbsbx.com/1", file_size=1001)
    with pytest.raises(Refused, match="too large"):
        await fetch(handler, wanted("whatsapp"))
    assert len(asked) == 1


async def test_bytes_are_counted_whatever_size_was_told() -> None:
    handler, _ = whatsapp_at("https://x.fbsbx.com/1", content=OGG * 100, file_size=10)
    with pytest.raises(Refused, match="too large"):
        await fetch(handler, wanted("whatsapp"))


async def test_twilio_is_asked_with_the_login_and_its_redirect_without_at_the_address_that_was_checked() -> (
    None
):
    asked: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        if request.url.host == "api.twilio.com":
            return httpx2.Response(307, headers={"location": "https://cdn.test/media?signed=1"})
        return httpx2.Response(200, content=OGG)

    assert await fetch(handler, wanted("twilio", "https://api.twilio.com/Media/ME1")) == OGG
    first, second = asked
    assert first.headers["authorization"].startswith("Basic ")
    assert "authorization" not in second.headers
    assert (second.url.host, second.headers["host"]) == ("93.184.216.34", "cdn.test")


@pytest.mark.parametrize("resolves", ["127.0.0.1", "10.0.0.8", "169.254.169.254", "::1", "192.168.1.1"])
async def test_a_redirect_into_a_private_network_is_not_followed(resolves: str) -> None:
    asked: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(302, headers={"location": "https://cdn.test/1"})

    with pytest.raises(Refused):
        await fetch(handler, wanted("twilio", "https://api.twilio.com/Media/ME1"), resolves=resolves)
    assert len(asked) == 1


async def test_one_redirect_is_followed_and_only_to_https() -> None:
    def again(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(302, headers={"location": "https://cdn.test/1"})

    def plain(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(302, headers={"location": "http://cdn.test/1"})

    one = wanted("twilio", "https://api.twilio.com/Media/ME1")
    with pytest.raises(NotNow, match="302"):
        await fetch(again, one)
    with pytest.raises(Refused, match="https"):
        await fetch(plain, one)


@pytest.mark.parametrize(
    "address", ["https://evil.test/1", "https://twilio.com.evil.test/", "http://api.twilio.com/"]
)
async def test_twilios_login_goes_to_twilio_alone(address: str) -> None:
    with pytest.raises(Refused):
        await fetch(lambda _: httpx2.Response(200, content=OGG), wanted("twilio", address))


@pytest.mark.parametrize(
    "path", ["../x", "voice/../../bot8:other/getMe", "voice/f.oga?x=1", "//evil\n", 7, None]
)
async def test_a_path_that_telegram_would_not_give_is_refused(path: object) -> None:
    answer = {"ok": True, "result": {"file_path": path}}
    with pytest.raises(Refused):
        await fetch(lambda _: httpx2.Response(200, json=answer), wanted("telegram"))


async def test_telegrams_file_is_read_under_the_bots_address() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/bot7:token/getFile":
            return httpx2.Response(200, json={"ok": True, "result": {"file_path": "voice/file_1.oga"}})
        assert request.url.path == "/file/bot7:token/voice/file_1.oga"
        return httpx2.Response(200, content=OGG)

    assert await fetch(handler, wanted("telegram")) == OGG


@pytest.mark.parametrize(
    ("status", "comes"), [(400, Gone), (401, Gone), (403, Gone), (404, Gone), (410, Gone), (429, NotNow), (500, NotNow), (302, NotNow)]
)  # fmt: skip
async def test_what_a_status_means(status: int, comes: type[Exception]) -> None:
    with pytest.raises(comes):
        await fetch(lambda _: httpx2.Response(status, json={}), wanted("telegram"))


async def test_what_goes_wrong_says_nothing_of_the_address() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError(f"no way to {request.url}")

    with pytest.raises(NotNow) as raised:
        await fetch(handler, wanted("telegram"))
    assert "token" not in str(raised.value)


@pytest.mark.parametrize("channel", ["generic", "sim"])
async def test_of_other_channels_nothing_is_fetched(channel: str) -> None:
    with pytest.raises(Gone):
        await fetch(lambda _: httpx2.Response(200, content=OGG), wanted(channel, "https://api.twilio.com/1"))


# Types


@pytest.mark.parametrize(
    ("content", "mime"),
    [
        (OGG, "audio/ogg"),
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", "audio/wav"),
        (b"RIFX\0\0\0\0WAVE", None),
        (b"\0\0\0\x18ftypM4A ", "audio/mp4"),
        (b"<svg onload=", None),
        (b"<html>", None),
        (b"", None),
        (b"GIF89a", None),
    ],
)
def test_the_first_bytes_tell_the_type(content: bytes, mime: str | None) -> None:
    assert type_of(content) == mime
    assert mime is None or any(mime in types for types in TYPES.values())


def test_types_are_read_without_parameters_and_by_their_plain_names() -> None:
    assert plain_type("Audio/OGG; codecs=opus") == "audio/ogg"
    assert plain_type("audio/mp3") == "audio/mpeg"
    assert plain_type("application/octet-stream") is plain_type(None) is plain_type("") is None


# What becomes of a part


class Shelf:
    """services.ingest.ports.Media of one part."""

    def __init__(self) -> None:
        self.came: list[tuple[object, ...]] = []

    async def claim(self, *, most: int) -> list[Wanted]:
        return []

    async def store(self, wanted: Wanted, content: bytes) -> None:
        self.came.append(("stored", content))

    async def end(self, wanted: Wanted, *, state: str, reason: str) -> None:
        self.came.append((state, reason))

    async def later(self, wanted: Wanted, *, reason: str, pause: timedelta) -> None:
        self.came.append(("later", pause))


async def becomes(answer: httpx2.Response, one: Wanted) -> tuple[object, ...]:
    shelf = Shelf()
    sources = Sources(whatsapp_url="", twilio_url="https://api.twilio.com", telegram_url="")
    limits = {PartKind.AUDIO: 1000, PartKind.IMAGE: 1000}
    fetching = MediaFetching(media=shelf, sources=sources, limits=limits, pace=Pace(pauses=(1.0, 5.0)))
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: answer)) as client:
        await fetching._one(client, one)
    (came,) = shelf.came
    return came


URL = "https://api.twilio.com/Media/ME1"


@pytest.mark.parametrize(
    ("answer", "more", "came"),
    [
        (httpx2.Response(200, content=OGG), {}, ("stored", OGG)),
        (httpx2.Response(200, content=PNG), {"kind": PartKind.IMAGE, "mime": None}, ("stored", PNG)),
        (httpx2.Response(200, content=PNG), {}, ("refused", "its first bytes are of another type")),
        (httpx2.Response(200, content=b"<svg>"), {"kind": PartKind.IMAGE, "mime": "image/png"}, ("refused", "its first bytes are of another type")),
        (httpx2.Response(200, content=PNG), {"kind": PartKind.IMAGE, "mime": "image/svg+xml"}, ("refused", "a type that is not taken")),
        (httpx2.Response(200, content=OGG, headers={"content-type": "text/html"}), {}, ("refused", "a type that is not taken")),
        (httpx2.Response(200, content=OGG), {"kind": PartKind.VIDEO}, ("refused", "too large")),
        (httpx2.Response(200, content=OGG * 100), {}, ("refused", "too large")),
        (httpx2.Response(404), {}, ("failed", "answered with 404")),
        (httpx2.Response(503), {}, ("later", timedelta(seconds=1))),
        (httpx2.Response(503), {"tries": 4}, ("later", timedelta(seconds=5))),
        (httpx2.Response(503), {"tries": 5}, ("failed", "answered with 503")),
        (httpx2.Response(200, content=OGG), {"secrets": Secrets()}, ("failed", "the account has no secret for requests of ours")),
        (httpx2.Response(200, content=OGG), {"settings": Settings()}, ("failed", "the account's settings can't be read")),
    ],
)  # fmt: skip
async def test_what_becomes_of_a_part(
    answer: httpx2.Response, more: dict[str, Any], came: tuple[object, ...]
) -> None:
    assert await becomes(answer, wanted("twilio", URL, **more)) == came
