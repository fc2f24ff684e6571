"""`leeway business`: make a tenant, look at one, change its dials."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from leeway.business_settings import Change, business_settings
from leeway.businesses import NewBusiness, as_owner, seed_pack
from leeway.installation import DIRECTORY, Data, the_one_meant
from leeway.operators import By, actor
from leeway.setting_values import dollars, quiet_hours, seconds, tell_changes
from leeway.terminal import console, raw_line, shown
from shared.autonomy import Mode
from shared.clock import SystemClock
from shared.database import open_pool
from shared.errors import Misconfigured
from shared.locales import load
from shared.packs import load_packs
from shared.secrets import vault_of
from shared.settings import Settings

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="Make a business, look at it, change its dials.",
    epilog="[bold]Examples[/]\n\n"
    "leeway business create corner-clinic --name 'Corner Clinic' --pack clinic --demo-data\n\n"
    "leeway business set corner-clinic --mode auto --day-cap 2.50\n\nleeway business show corner-clinic --json",
)


Slug = Annotated[str, typer.Argument(help="Its short name: a-z, 0-9 and -.", show_default=False)]


@app.command()
def create(
    slug: Slug,
    *,
    name: Annotated[str, typer.Option(help="As customers know it.", show_default=False)],
    pack: Annotated[str, typer.Option(help="What it does: the tools and wording it gets.")] = "clinic",
    locale: Annotated[
        list[str] | None,
        typer.Option(help="Its languages, the first is the default; en and ro if none is named."),
    ] = None,
    time_zone: Annotated[str, typer.Option(help="As in the IANA list.")] = "Europe/Bucharest",
    mode: Annotated[Mode, typer.Option(help="What becomes of replies.")] = Mode.SUGGEST,
    demo_data: Annotated[
        bool, typer.Option("--demo-data", help="Fill it with the pack's demo data.")
    ] = False,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Make a business. It starts in suggest: replies become drafts until you raise it."""
    business = NewBusiness(
        slug=slug,
        name=name,
        mode=mode,
        pack=pack,
        locales=tuple(locale or ("en", "ro")),
        time_zone=time_zone,
    )
    _check(business)
    asyncio.run(_create(the_one_meant(data).settings, business, demo_data=demo_data, by=actor(by)))
    console.print(f"Made {slug}, in mode {mode}. Next: leeway channel add {slug} --help", markup=False)


@app.command()
def show(
    slug: Slug,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    data: Data = DIRECTORY,
) -> None:
    """Its settings and channel accounts; secrets are never shown."""
    found = asyncio.run(_show(the_one_meant(data).settings, slug))
    if as_json:
        raw_line(json.dumps(found, default=str))
        return
    accounts = found.pop("accounts")
    for key, value in found.items():
        text = ", ".join(value) if isinstance(value, list) else "not set" if value is None else str(value)
        console.print(f"{key:<20} {shown(text)}", markup=False, soft_wrap=True)
    for one in accounts:
        mode = f", {one['mode']}" if one["mode"] else ""
        told = f"{one['channel']} {one['address']} ({one['state']}{mode})"
        callback = f" → {one['callback_url']}" if one["callback_url"] else ""
        console.print(f"{'channel account':<20} {shown(told + callback)}", markup=False, soft_wrap=True)


@app.command("set")
def set_(
    slug: Slug,
    *,
    mode: Annotated[Mode | None, typer.Option(help="off, suggest or auto; holds at once.")] = None,
    name: Annotated[str | None, typer.Option(help="As customers know it.")] = None,
    window_ms: Annotated[
        int | None, typer.Option(min=0, max=10_000, help="How long fragments are gathered into one turn.")
    ] = None,
    stale_after: Annotated[
        str | None, typer.Option(help="Older messages are not answered: 90s, 30m, 1h.")
    ] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Most messages of one customer in 10 minutes.")
    ] = None,
    takeover_quiet: Annotated[
        int | None,
        typer.Option(
            min=1, max=100_000, help="Minutes after the owner's last own message until the bot answers."
        ),
    ] = None,
    day_cap: Annotated[str | None, typer.Option(help="US dollars a local day, or none.")] = None,
    turn_cap: Annotated[str | None, typer.Option(help="US dollars an answer, or none.")] = None,
    conversation_cap: Annotated[
        str | None, typer.Option(help="US dollars a conversation in 24 hours, or none.")
    ] = None,
    approval_hours: Annotated[
        int | None, typer.Option(min=1, max=168, help="What nobody approves in so many is declined.")
    ] = None,
    handoff_remind: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Opening minutes until operators are reminded.")
    ] = None,
    handoff_tell: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Opening minutes until the customer is told.")
    ] = None,
    quiet: Annotated[
        str | None, typer.Option(help="When reminders wait, local time: 21:00-08:00, or none.")
    ] = None,
    reminder_hours: Annotated[
        int | None, typer.Option(min=0, max=168, help="How long before; 0: no reminders.")
    ] = None,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Change what is named; the rest stays. Each change is in the audit log."""
    plain = {
        "mode": mode.value if mode else None,
        "name": name,
        "window_ms": window_ms,
        "stale_after_s": seconds(stale_after),
        "rate_per_10_min": rate,
        "takeover_quiet_min": takeover_quiet,
        "approval_hours": approval_hours,
        "handoff_remind_min": handoff_remind,
        "handoff_tell_min": handoff_tell,
        "reminder_hours": reminder_hours,
    }
    wanted: dict[str, Any] = {key: value for key, value in plain.items() if value is not None}
    caps = {"day_cap_usd": day_cap, "turn_cap_usd": turn_cap, "conversation_cap_usd": conversation_cap}
    wanted |= {key: dollars(text) for key, text in caps.items() if text is not None}
    wanted |= quiet_hours(quiet)
    if not wanted:
        raise typer.BadParameter("name something to change, for example --mode; see --help")
    changes = asyncio.run(_set(the_one_meant(data).settings, slug, wanted, by=actor(by)))
    tell_changes(slug, changes)


def _check(business: NewBusiness) -> None:
    """Raises Misconfigured for what the database or a service would refuse later."""
    packs = load_packs()
    if business.pack not in packs:
        raise Misconfigured(f"There is no pack {business.pack!r}; there are: {', '.join(sorted(packs))}.")
    for locale in business.locales:
        load(locale)
    try:
        ZoneInfo(business.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Misconfigured(f"There is no time zone {business.time_zone!r}; try Europe/Bucharest.") from error


async def _create(settings: Settings, business: NewBusiness, *, demo_data: bool, by: str) -> None:
    async with as_owner(settings, vault_of(settings)) as businesses:
        made = await businesses.create_new(business, by=by)
    if demo_data:
        url = settings.database_url.get_secret_value()
        database = await open_pool(url, size=1, timeouts=settings.timeouts)
        try:
            await seed_pack(database, load_packs()[business.pack], made, SystemClock())
        finally:
            await database.close()


async def _show(settings: Settings, slug: str) -> dict[str, Any]:
    async with as_owner(settings, vault_of(settings)) as businesses:
        return await businesses.show(slug)


async def _set(settings: Settings, slug: str, wanted: Mapping[str, Any], *, by: str) -> Sequence[Change]:
    async with business_settings(settings) as dials:
        return await dials.change(slug, wanted, by=by)
