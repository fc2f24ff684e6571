"""`leeway say`: write to a running `leeway up` as a customer, over its signed webhook, and see the answer."""

from typing import Annotated

import httpx2
import typer
import uvloop
from rich.text import Text

from leeway.businesses import as_owner
from leeway.evidence import Evidence, Handled
from leeway.installation import DIRECTORY, Data, Note, the_running_one
from leeway.telephone import Line, Telephone
from leeway.terminal import console, errors, plain
from shared.clock import SystemClock
from shared.database import open_pool
from shared.secrets import vault_of
from shared.settings import Settings

NUMBER = "+40700000010"

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog="[bold]Examples[/]\n\nleeway say 'Book a cleaning tomorrow at 10'\n\nleeway say YES\n\n"
    "leeway say --from +40700000099 'Hello' — a test number: every send to it is refused"
)
def say(
    text: Annotated[str, typer.Argument(help="What the customer writes.", show_default=False)],
    number: Annotated[str, typer.Option("--from", help="The customer's telephone number.")] = NUMBER,
    wait: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 20.0,
    data: Data = DIRECTORY,
) -> None:
    """Write to the demo clinic of a running `leeway up` as a customer, and print its answer."""
    note, settings = the_running_one(data)
    handled = uvloop.run(_say(note, settings, text, number, wait))
    if handled.reply is None:
        errors.print(f"No answer: {handled.reason or handled.outcome or handled.verdict}.", markup=False)
        return
    if handled.reply_state == "draft":
        errors.print(f"Not sent, kept as a draft ({handled.reply_reason}):", markup=False)
    reply = plain(handled.reply)
    for _, title in handled.buttons:
        reply.append_text(Text(f" [{title}]", style="cyan"))
    console.print(reply, soft_wrap=True)


async def _say(note: Note, settings: Settings, text: str, number: str, wait_s: float) -> Handled:
    async with as_owner(settings, vault_of(settings)) as businesses:
        secret = await businesses.inbound_secret("sim", note.sim_address)
        business = await businesses.business_at("sim", note.sim_address)
    database = await open_pool(note.database_url, size=1, timeouts=settings.timeouts)
    clock = SystemClock()
    try:
        async with httpx2.AsyncClient(base_url=note.url, trust_env=False) as client:
            line = Line(
                database=database, clock=clock, address=note.sim_address, secret=secret, client=client
            )
            message = await Telephone(line, number).write(text)
            evidence = Evidence(database, clock=clock, sim_address=note.sim_address, business=business)
            return await evidence.handled(message, within_s=wait_s)
    finally:
        await database.close()
