"""Where a part's content is to be had, provider by provider, and on which hosts alone it is asked for.

WhatsApp: developers.facebook.com, Cloud API, Media. Twilio: twilio.com/docs/messaging/api/media-resource; its media are
behind one redirect. Telegram: core.telegram.org/bots/api#getfile. Addresses hold tokens: no error and no log line names one.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx2

from services.ingest.ports import Wanted
from shared.channels.accounts import Twilio, WhatsApp
from shared.channels.traits import ChannelName
from shared.outgoing import NotPublic, Resolve, public_target, resolve
from shared.settings import Settings

META_HOSTS: Final = ("fbsbx.com", "facebook.com", "fbcdn.net")
TWILIO_HOSTS: Final = ("twilio.com",)
GONE: Final = frozenset({400, 401, 403, 404, 410})  # asking again brings nothing else
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
DESCRIPTION_BYTES_MAX: Final = 64 * 1024
_PATH = re.compile(r"[A-Za-z0-9_\-./]{1,512}")


class Refused(Exception):
    """We don't take it; the text says why, and names nobody."""


class Gone(Exception):
    """It can't be had, now or later; the text says why, and names nobody."""


class NotNow(Exception):
    """It could not be had this time; the text says why, and names nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What came, with the type that the provider states."""

    content: bytes
    mime: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The providers' addresses, without a slash at their end."""

    whatsapp_url: str
    twilio_url: str
    telegram_url: str
    resolve: Resolve = resolve

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            whatsapp_url=settings.whatsapp_url,
            twilio_url=settings.twilio_url,
            telegram_url=settings.telegram_url,
        )

    async def fetch(self, client: httpx2.AsyncClient, wanted: Wanted, *, most: int) -> Content:
        """The content, of no more than `most` bytes. Raises Refused, Gone, NotNow."""
        if not wanted.reference:
            raise Gone("no reference")
        if wanted.secrets.outbound is None:
            raise Gone("the account has no secret for requests of ours")
        try:
            match wanted.channel:
                case ChannelName.WHATSAPP:
                    return await self._whatsapp(client, wanted, most)
                case ChannelName.TWILIO:
                    return await self._twilio(client, wanted, most)
                case ChannelName.TELEGRAM:
                    return await self._telegram(client, wanted, most)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise NotNow(type(error).__name__) from None  # its text may hold the address
        raise Gone("nothing is fetched from this channel")

    async def _whatsapp(self, client: httpx2.AsyncClient, wanted: Wanted, most: int) -> Content:
        if not isinstance(wanted.settings, WhatsApp):
            raise Gone("the account's settings can't be read")
        login = {"authorization": f"Bearer {_key(wanted)}"}
        url = f"{self.whatsapp_url}/{wanted.settings.api_version}/{quote(wanted.reference, safe='')}"
        told = await _json(client, client.build_request("GET", url, headers=login))
        address, mime, size = told.get("url"), told.get("mime_type"), told.get("file_size")
        if isinstance(size, int) and size > most:
            raise Refused("too large")
        if not isinstance(address, str) or not _is_at(address, self.whatsapp_url, META_HOSTS):
            raise Refused("not on the provider's hosts")
        found = await _read(client, client.build_request("GET", address, headers=login), most)
        return Content(content=found.content, mime=mime if isinstance(mime, str) else found.mime)

    async def _twilio(self, client: httpx2.AsyncClient, wanted: Wanted, most: int) -> Content:
        settings = wanted.settings
        if not isinstance(settings, Twilio):
            raise Gone("the account's settings can't be read")
        if not _is_at(wanted.reference, self.twilio_url, TWILIO_HOSTS):
            raise Refused("not on the provider's hosts")
        login = httpx2.BasicAuth(settings.api_key_sid or settings.account_sid, _key(wanted))
        asked = client.build_request("GET", wanted.reference)
        answer = await client.send(asked, stream=True, auth=login)
        try:
            if answer.status_code not in REDIRECTS:
                return await _content(answer, most)
            location = str(answer.url.join(answer.headers.get("location", "")))
        finally:
            await answer.aclose()
        return await _read(client, await self._elsewhere(client, location), most)

    async def _elsewhere(self, client: httpx2.AsyncClient, location: str) -> httpx2.Request:
        """The one redirect: without credentials, https, to a public address, connected to as checked."""
        try:
            target = await public_target(location, resolve=self.resolve)
        except NotPublic as error:
            raise Refused(f"redirected to what is {error}") from None
        except OSError:
            raise NotNow("the redirect's host can't be resolved") from None
        return client.build_request(
            "GET", target.url, headers=target.headers, extensions=dict(target.extensions)
        )

    async def _telegram(self, client: httpx2.AsyncClient, wanted: Wanted, most: int) -> Content:
        bot = f"bot{_key(wanted)}"
        asked = client.build_request(
            "POST", f"{self.telegram_url}/{bot}/getFile", json={"file_id": wanted.reference}
        )
        told = await _json(client, asked)
        result = told.get("result")
        file: dict[str, Any] = result if isinstance(result, dict) else {}
        path, size = file.get("file_path"), file.get("file_size")
        if isinstance(size, int) and size > most:
            raise Refused("too large")
        if not isinstance(path, str) or not _PATH.fullmatch(path) or ".." in path:
            raise Refused("a path that none of Telegram's is")
        return await _read(
            client, client.build_request("GET", f"{self.telegram_url}/file/{bot}/{path}"), most
        )


def _key(wanted: Wanted) -> str:
    assert wanted.secrets.outbound is not None, "fetch looked"
    return wanted.secrets.outbound.get_secret_value()


def _is_at(address: str, base: str, domains: tuple[str, ...]) -> bool:
    """Whether an address is at the provider's configured one, or https on a host of its domains."""
    try:
        parts, ours = urlsplit(address), urlsplit(base)
        if (parts.scheme, parts.hostname, parts.port) == (ours.scheme, ours.hostname, ours.port):
            return parts.username is None
        plain = parts.scheme == "https" and parts.username is None and parts.port in (None, 443)
    except ValueError:
        return False
    host = (parts.hostname or "").rstrip(".")
    return plain and any(host == domain or host.endswith(f".{domain}") for domain in domains)


async def _json(client: httpx2.AsyncClient, asked: httpx2.Request) -> Mapping[str, Any]:
    found = await _read(client, asked, DESCRIPTION_BYTES_MAX)
    try:
        told = json.loads(found.content)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise NotNow("an answer that is no JSON object")
    return told


async def _read(client: httpx2.AsyncClient, asked: httpx2.Request, most: int) -> Content:
    answer = await client.send(asked, stream=True)
    try:
        return await _content(answer, most)
    finally:
        await answer.aclose()


async def _content(answer: httpx2.Response, most: int) -> Content:
    """The body, counted while it is read. Redirects are not followed here."""
    if answer.status_code in GONE:
        raise Gone(f"answered with {answer.status_code}")
    if answer.status_code != 200:
        raise NotNow(f"answered with {answer.status_code}")
    content = bytearray()
    async for chunk in answer.aiter_bytes():
        content += chunk
        if len(content) > most:
            raise Refused("too large")
    return Content(content=bytes(content), mime=answer.headers.get("content-type"))
