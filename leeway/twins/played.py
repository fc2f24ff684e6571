"""A twin beside `leeway up`: served on a port of its own with its page, and connected to the demo business."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.routing import Mount

from leeway.accounts import accounts_of
from leeway.one_process import OneProcess
from leeway.twins.page import Page
from leeway.twins.telephones import PLAYED, Playing, TwinName
from leeway.twins.twin import serving
from shared.clock import SystemClock
from shared.settings import Settings
from shared.telemetry.health import callable_host


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """`settings` name the twin as the provider; `page` is where one chats. Without a twin: as they were, and none."""

    settings: Settings
    page: str | None = None
    playing: Playing | None = None

    async def connect(self, installation: OneProcess, url: str) -> None:
        """Give the demo business the twin's account, and the twin the account's webhook."""
        if self.playing is None:
            return
        async with accounts_of(installation.parts.settings) as accounts:
            await accounts.renew(installation.business, self.playing.account)
        self.playing.twin.webhook = (
            f"{url}/hooks/{self.playing.account.channel}/{self.playing.account.address}"
        )


@asynccontextmanager
async def played(settings: Settings, name: TwinName | None) -> AsyncIterator[Played]:
    """The twin for as long as the context lasts."""
    if name is None:
        yield Played(settings=settings)
        return
    playing = PLAYED[name](SystemClock())
    app = Starlette(routes=[*Page(playing.telephones).routes, Mount("/", playing.twin.app)])
    try:
        async with serving(app) as url:
            # the public URL is what Twilio's signature covers: here we are called where we listen
            here = f"http://{callable_host(settings.host)}:{settings.port}"
            told = settings.model_copy(update={f"{name}_url": url, "public_base_url": here})
            yield Played(settings=told, page=f"{url}/chat", playing=playing)
    finally:
        await playing.twin.close()
