"""What `leeway doctor` sees over HTTP: whether LEEWAY_PUBLIC_BASE_URL leads to our ingest, how long its certificate lasts, and
whether somebody takes traces.

Asked from this machine, where no provider is: it tells a proxy, a name or a certificate that is wrong, not a firewall before
them.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import Final
from urllib.parse import urlsplit

import httpx2

from leeway.doctor_finding import Finding, fix, note, ok
from shared.clock import SystemClock
from shared.errors import reason_of
from shared.masking import Masker
from shared.outgoing import http_client
from shared.settings import Settings

NOBODY: Final = (
    "/hooks/generic/nobody-is-called-this."  # no address ends with a dot, so ingest knows none of that name
)
KNOWN_BY: Final = b"no such channel account"  # how ingest says so
ASK_S: Final = 10.0
UNREACHED: Final = (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError)
DAYS_LEFT_MIN: Final = 14
DAY_S: Final = 86_400


async def webhook_findings(settings: Settings) -> AsyncGenerator[Finding]:
    base = settings.public_base_url
    if not base:
        return  # which accounts miss it is told with them
    yield await _way_in(base)
    if base.startswith("https://") and (finding := await _certificate(base)) is not None:
        yield finding


async def traces_findings(settings: Settings) -> AsyncGenerator[Finding]:
    endpoint = settings.otlp_endpoint
    if not endpoint:
        return
    named = Masker().text(endpoint)  # a password may stand in it
    try:
        await _asked(endpoint)  # whatever it answers, it is there
    except UNREACHED as error:
        yield note("traces", f"nobody takes them at {named}: {reason_of(error)}; work goes on, they are lost")
    else:
        yield ok("traces", f"go to {named}")


async def _way_in(base: str) -> Finding:
    try:
        status, said = await _asked(base + NOBODY)
    except UNREACHED as error:
        return fix(
            "webhooks",
            f"{base} can't be reached from here: {reason_of(error)}; look at its name, proxy and certificate",
        )
    if (status, said) == (404, KNOWN_BY):
        return ok("webhooks", f"{base}/hooks leads to our ingest (asked from here)")
    if status == 503:
        return fix("webhooks", f"{base}/hooks answers 503: ingest does not run or has no database")
    return fix(
        "webhooks",
        f"{base}/hooks answers {status} and is not our ingest; let the proxy pass /hooks on, path unchanged",
    )


async def _asked(url: str) -> tuple[int, bytes]:
    """The status, and of what is said no more than we would: an answer may be slow, or without end."""
    said = b""
    async with (
        asyncio.timeout(ASK_S),
        http_client(read_s=ASK_S, connections=1) as client,
        client.stream("GET", url) as answer,
    ):
        async for part in answer.aiter_bytes():
            said += part
            if len(said) > len(KNOWN_BY):
                break
    return answer.status_code, said


async def _certificate(base: str) -> Finding | None:
    """How long it lasts; None where the way in could not be gone either, which was told."""
    parts = urlsplit(base)
    try:
        async with asyncio.timeout(ASK_S):
            _, writer = await asyncio.open_connection(
                parts.hostname, parts.port or 443, ssl=ssl.create_default_context()
            )
    except (OSError, TimeoutError):
        return None
    ends = ssl.cert_time_to_seconds(writer.get_extra_info("peercert")["notAfter"])
    writer.close()
    days = int((ends - SystemClock().now().timestamp()) // DAY_S)
    said = f"the one of {parts.hostname} lasts for {days} days more"
    return ok("certificate", said) if days >= DAYS_LEFT_MIN else note("certificate", f"{said}; renew it")
