"""A small page on which one is a customer of a twin: no script, everything escaped, for this machine alone.

What a telephone shows renews itself in a frame, so that a half-written message stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qs, quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from leeway.twins.twin import Delivered

STYLE: Final = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
HOSTS: Final = ("127.0.0.1", "localhost", "::1")
RENEWS_S: Final = 2
BODY_MAX: Final = 64_000
SAFE: Final = {
    "content-security-policy": "default-src 'none'; style-src 'self'; frame-src 'self'; form-action 'self'; "
    "frame-ancestors 'self'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none, a browser would say that a form comes from nowhere
    "cache-control": "no-store",
}


class Telephones(Protocol):
    """The customers of one twin. `people` are their names to show, by a key."""

    title: str
    people: Mapping[str, str]

    def shown(self, key: str) -> Sequence[Delivered]:
        """The business's messages on this telephone, oldest first."""
        ...

    async def write(self, key: str, text: str) -> None: ...

    async def press(self, key: str, delivered: Delivered, title: str) -> None: ...

    async def read(self, key: str, delivered: Delivered) -> None:
        """The customer looks at it."""
        ...


@dataclass(frozen=True, slots=True)
class Line:
    """One message in a chat; `delivered` where it is the business's."""

    text: str
    delivered: Delivered | None = None


class Page:
    """What was said on each telephone, in order, and the requests that look at it and add to it."""

    def __init__(self, telephones: Telephones) -> None:
        self._telephones = telephones
        self._said: dict[str, list[Line]] = {key: [] for key in telephones.people}
        self._read: set[str] = set()

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/chat", self._chat, methods=["GET", "POST"]),
            Route("/chat/messages", self._messages),
            Route("/chat/style.css", self._style),
        ]

    def lines(self, key: str) -> list[Line]:
        """The chat up to now."""
        said = self._said[key]
        known = {line.delivered.id for line in said if line.delivered}
        said += [Line(one.text, one) for one in self._telephones.shown(key) if one.id not in known]
        return said

    async def _chat(self, request: Request) -> Response:
        if (refused := _refused(request)) is not None:
            return refused
        if request.method == "POST":
            return await self._act(request)
        key = request.query_params.get("who", next(iter(self._telephones.people)))
        if key not in self._telephones.people:
            return _html("<p>There is no such customer.</p>", status=404)
        return _html(self._whole(key))

    async def _act(self, request: Request) -> Response:
        """A message or a press, then the chat again."""
        body = await request.body()
        if len(body) > BODY_MAX:
            return _html("<p>That is too long.</p>", status=413)
        form = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
        key = form.get("who", "")
        if key not in self._telephones.people:
            return _html("<p>There is no such customer.</p>", status=404)
        text, pressed = form.get("text", "").strip(), form.get("title", "")
        said = self.lines(key)
        if text:
            said.append(Line(text))
            await self._telephones.write(key, text)
        elif pressed:
            delivered = next(
                (one.delivered for one in said if one.delivered and one.delivered.id == form.get("id")), None
            )
            if delivered is None or pressed not in [title for _, title in delivered.buttons]:
                return _html("<p>There is no such button.</p>", status=404)
            said.append(Line(pressed))
            await self._telephones.press(key, delivered, pressed)
        return RedirectResponse(f"/chat?who={quote(key, safe='')}", status_code=303, headers=SAFE)

    async def _messages(self, request: Request) -> Response:
        if (refused := _refused(request)) is not None:
            return refused
        key = request.query_params.get("who", "")
        if key not in self._telephones.people:
            return _html("<p>There is no such customer.</p>", status=404)
        lines = self.lines(key)
        for line in lines:
            if line.delivered and line.delivered.id not in self._read:
                self._read.add(line.delivered.id)
                await self._telephones.read(key, line.delivered)
        shown = "".join(self._item(key, line) for line in lines)
        inside = f"<ol>{shown}</ol>" if lines else '<p class="empty">Nothing yet. Write something below.</p>'
        return _html(f'<main class="messages">{inside}</main>', renews=True)

    async def _style(self, request: Request) -> Response:
        return _refused(request) or Response(STYLE, media_type="text/css", headers=SAFE)

    def _whole(self, key: str) -> str:
        links = "".join(
            f'<a href="/chat?who={quote(one, safe="")}"{" aria-current=page" if one == key else ""}>{escape(name)}</a>'
            for one, name in self._telephones.people.items()
        )
        return (
            f'<div class="phone"><header><h1>{escape(self._telephones.title)}</h1>'
            f'<nav aria-label="Customer">{links}</nav></header>'
            f'<iframe title="Messages" src="/chat/messages?who={quote(key, safe="")}"></iframe>'
            f'<footer><form method="post" action="/chat"><input type="hidden" name="who" value="{escape(key)}">'
            '<input name="text" aria-label="Message" placeholder="Message" autocomplete="off" required autofocus>'
            "<button>Send</button></form></footer></div>"
        )

    def _item(self, key: str, line: Line) -> str:
        one = line.delivered
        if one is None:
            return f'<li class="mine"><p>{escape(line.text)}</p></li>'
        buttons = "".join(
            f'<button name="title" value="{escape(title)}">{escape(title)}</button>'
            for _, title in one.buttons
        )
        form = (
            '<form class="buttons" method="post" action="/chat" target="_top">'
            f'<input type="hidden" name="who" value="{escape(key)}">'
            f'<input type="hidden" name="id" value="{escape(one.id)}">{buttons}</form>'
        )
        status = "read" if one.id in self._read else "delivered"
        how = f"template {escape(one.template)}, {status}" if one.template else status
        return f"<li><p>{escape(line.text)}</p>{form if buttons else ''}<small>{how}</small></li>"


def _html(inside: str, *, status: int = 200, renews: bool = False) -> HTMLResponse:
    again = f'<meta http-equiv="refresh" content="{RENEWS_S}">' if renews else ""
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A customer of Leeway</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{again}'
        f'<link rel="stylesheet" href="/chat/style.css"></head><body>{inside}</body></html>',
        status_code=status,
        headers=SAFE,
    )


def _refused(request: Request) -> Response | None:
    """Another site's page may neither read this one under a name of its own nor post to it."""
    host = urlsplit(f"//{request.headers.get('host', '')}")
    origin = request.headers.get("origin")
    if host.hostname not in HOSTS or (origin is not None and urlsplit(origin).netloc != host.netloc):
        return Response("This page is for this machine.", status_code=403)
    return None
