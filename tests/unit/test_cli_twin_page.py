"""The page on which one is a customer of a twin: order, escaping, and whom it refuses."""

from collections.abc import AsyncIterator, Sequence

import httpx2
import pytest
from starlette.applications import Starlette

from leeway.twins.page import Page
from leeway.twins.twin import Delivered

NASTY = "<script>alert(1)</script>\"'&"
HERE = "http://127.0.0.1:9000"


class Telephones:
    title = NASTY

    def __init__(self) -> None:
        self.people = {"ana": NASTY, "+40 & co": "Dan"}
        self.there: dict[str, list[Delivered]] = {"ana": [], "+40 & co": []}
        self.did: list[tuple[str, ...]] = []

    def shown(self, key: str) -> Sequence[Delivered]:
        return self.there[key]

    async def write(self, key: str, text: str) -> None:
        self.did.append(("write", key, text))

    async def press(self, key: str, delivered: Delivered, title: str) -> None:
        self.did.append(("press", key, delivered.id, title))

    async def read(self, key: str, delivered: Delivered) -> None:
        self.did.append(("read", key, delivered.id))


@pytest.fixture
def telephones() -> Telephones:
    return Telephones()


@pytest.fixture
async def browser(telephones: Telephones) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=Starlette(routes=Page(telephones).routes))
    async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
        yield client


async def test_what_was_said_stands_in_order_and_escaped(
    browser: httpx2.AsyncClient, telephones: Telephones
) -> None:
    await browser.post("/chat", data={"who": "ana", "text": NASTY})
    reply = Delivered(id="1", to="ana", text=f"reply {NASTY}", buttons=(("yes", NASTY),), template=NASTY)
    telephones.there["ana"].append(reply)
    await browser.post("/chat", data={"who": "ana", "text": "second"})
    page = (await browser.get("/chat/messages", params={"who": "ana"})).text
    assert page.index("alert(1)") < page.index("reply &lt;") < page.index("second")
    whole = (await browser.get("/chat", params={"who": "ana"})).text
    assert "<script" not in page + whole
    assert "who=%2B40%20%26%20co" in whole
    assert telephones.did == [("write", "ana", NASTY), ("write", "ana", "second"), ("read", "ana", "1")]
    await browser.get("/chat/messages", params={"who": "ana"})
    assert telephones.did.count(("read", "ana", "1")) == 1


async def test_a_button_is_pressed_by_who_has_it(browser: httpx2.AsyncClient, telephones: Telephones) -> None:
    telephones.there["ana"].append(Delivered(id="1", to="ana", text="?", buttons=(("a:yes", "Yes"),)))
    pressed = await browser.post("/chat", data={"who": "ana", "id": "1", "title": "Yes"})
    assert pressed.status_code == 303
    assert telephones.did == [("press", "ana", "1", "Yes")]
    for wrong in ({"who": "+40 & co", "id": "1", "title": "Yes"}, {"who": "ana", "id": "1", "title": "No"}):
        assert (await browser.post("/chat", data=wrong)).status_code == 404
    for path in ("/chat", "/chat/messages"):
        assert (await browser.get(path, params={"who": "eve"})).status_code == 404
    assert (await browser.post("/chat", data={"who": "eve", "text": "x"})).status_code == 404
    assert (await browser.post("/chat", data={"who": "ana", "text": "x" * 70_000})).status_code == 413
    assert len(telephones.did) == 1


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example:9000"}]
)
async def test_other_sites_are_refused(
    browser: httpx2.AsyncClient, telephones: Telephones, headers: dict[str, str]
) -> None:
    posted = await browser.post("/chat", data={"who": "ana", "text": "x"}, headers=headers)
    assert (posted.status_code, telephones.did) == (403, [])
    for path in ("/chat", "/chat/messages?who=ana", "/chat/style.css"):
        assert (await browser.get(path, headers=headers)).status_code == 403


async def test_no_script_runs_and_nobody_frames_it(browser: httpx2.AsyncClient) -> None:
    for path in ("/chat", "/chat/messages?who=ana", "/chat/style.css"):
        policy = (await browser.get(path)).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "frame-ancestors 'self'" in policy
    same = await browser.post("/chat", data={"who": "ana", "text": "x"}, headers={"origin": HERE})
    assert same.status_code == 303
