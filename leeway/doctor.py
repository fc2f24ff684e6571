"""`leeway doctor`: what is wrong with this installation, and what to do about it."""

import json
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.text import Text

from leeway.doctor_broker import broker_findings
from leeway.doctor_database import database_findings
from leeway.doctor_finding import STYLES, Finding, Health, fix, note, ok
from leeway.doctor_http import traces_findings, webhook_findings
from leeway.installation import DIRECTORY, Data, the_one_meant
from leeway.operators import AsJson
from leeway.terminal import console, raw_line, shown
from shared.clock import SystemClock
from shared.errors import LeewayError, Misconfigured
from shared.llm.configured import ACCEPTED, configured_model
from shared.llm.costs import price_source
from shared.llm.retirement import retirement
from shared.packs import load_packs
from shared.secrets import new_key, vault_of
from shared.settings import Settings
from shared.telemetry.logs import configure_logs

WORDS_WIDTH: Final = 15
DISK_FREE_MIN_BYTES: Final = 1024**3

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog="[bold]Examples[/]\n\nleeway doctor — exit code 1 when something needs fixing\n\n"
    "leeway doctor --json — a list of health (ok, note, FIX), what, said\n\n"
    "echo LEEWAY_SECRET_KEY=$(leeway doctor --new-key) >> .env"
)
def doctor(
    *,
    fresh_key: Annotated[bool, typer.Option("--new-key", help="Print a fresh LEEWAY_SECRET_KEY.")] = False,
    as_json: AsJson = False,
    data: Data = DIRECTORY,
) -> None:
    """Look at all that an installation needs; each line says ok, or what to do. Nothing is changed, no model is asked."""
    if fresh_key:
        raw_line(new_key())
        return
    configure_logs(level="error", service="doctor")
    found = uvloop.run(_examine(data, aloud=not as_json))
    if as_json:
        raw_line(
            json.dumps(
                [{"health": one.health.value, "what": one.what, "said": shown(one.said)} for one in found]
            )
        )
    if any(one.health is Health.FIX for one in found):
        raise typer.Exit(1)


async def _examine(data: Path, *, aloud: bool) -> Sequence[Finding]:
    """Closed in order also when the reader goes away between two lines (`leeway doctor | head`)."""
    found = []
    async with aclosing(_findings(data)) as findings:
        async for finding in findings:
            found.append(finding)
            if aloud:
                line = Text().append(f"{finding.health:<5}", style=STYLES[finding.health])
                line.append(f"{finding.what:<{WORDS_WIDTH}}").append(shown(finding.said))
                console.print(line, soft_wrap=True)
    return found


async def _findings(data: Path) -> AsyncGenerator[Finding]:
    try:
        installation = the_one_meant(data)
    except Misconfigured as error:
        yield fix("configuration", str(error))
        return
    settings = installation.settings
    said = f"the `leeway up` on {data}" if installation.embedded else "from the environment and .env"
    yield ok("configuration", said)
    times = settings.timeouts
    yield ok(
        "time-outs", f"nest (drain {times.drain:g} s, so the stop signal's grace must be {times.grace:g} s)"
    )
    yield _secret_key(settings)
    if installation.embedded:
        yield _disk(data)
    parts = (
        _model(settings),
        database_findings(settings),
        broker_findings(installation),
        webhook_findings(settings),
        traces_findings(settings),
    )
    for part in parts:
        async with aclosing(part):
            async for finding in part:
                yield finding


def _secret_key(settings: Settings) -> Finding:
    try:
        vault_of(settings)
    except Misconfigured as error:
        return fix("secret key", str(error))
    return ok("secret key", "well formed; keep a copy apart from the database's back-ups")


def _disk(data: Path) -> Finding:
    free = shutil.disk_usage(data).free
    said = f"{free / 1024**3:.1f} GiB free for {data}"
    return ok("disk", said) if free >= DISK_FREE_MIN_BYTES else fix("disk", f"{said}: make room")


async def _model(settings: Settings) -> AsyncGenerator[Finding]:
    try:
        model = await configured_model(settings, load_packs())
    except LeewayError as error:
        yield fix("model", str(error))
        return
    await model.close()
    if model.provider == "mock":
        yield note("model", f"the rule-based stand-in; for a real one: {ACCEPTED}")
        return
    yield ok("model", f"{model.provider}:{model.name} (not called)")
    if ends := retirement(model.name, SystemClock().now().date()):
        yield note("model", ends)
    if source := price_source(model, answered=model.name):
        yield ok("prices", source)
    else:
        yield note(
            "prices",
            "no price is known: its cost is shown as unknown, and caps are refused; set one in LEEWAY_PRICES",
        )
