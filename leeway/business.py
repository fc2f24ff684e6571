"""`leeway business`: make a tenant, look at one, change its dials."""

import asyncio
import json
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from leeway.businesses import NewBusiness, as_owner, seed_pack
from leeway.installation import DIRECTORY, Data, the_one_meant
from leeway.terminal import console, shown
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
    "leeway business set corner-clinic --mode auto\n\nleeway business show corner-clinic --json",
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
    asyncio.run(_create(the_one_meant(data).settings, business, demo_data=demo_data))
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
        print(json.dumps(found, default=str))  # noqa: T201  for programs, as it is
        return
    accounts = found.pop("accounts")
    for key, value in found.items():
        text = ", ".join(value) if isinstance(value, list) else str(value)
        console.print(f"{key:<18} {shown(text)}", markup=False, soft_wrap=True)
    for one in accounts:
        told = f"{one['channel']} {one['address']} ({one['state']})"
        callback = f" → {one['callback_url']}" if one["callback_url"] else ""
        console.print(f"{'channel account':<18} {shown(told + callback)}", markup=False, soft_wrap=True)


@app.command("set")
def set_(
    slug: Slug,
    *,
    mode: Annotated[Mode | None, typer.Option(help="off, suggest or auto; holds at once.")] = None,
    name: Annotated[str | None, typer.Option(help="As customers know it.")] = None,
    window_ms: Annotated[
        int | None, typer.Option(min=0, max=10_000, help="How long fragments are gathered into one turn.")
    ] = None,
    data: Data = DIRECTORY,
) -> None:
    """Change what is named; the rest stays."""
    if mode is None and name is None and window_ms is None:
        raise typer.BadParameter("name something to change: --mode, --name or --window-ms")
    asyncio.run(_set(the_one_meant(data).settings, slug, mode=mode, name=name, window_ms=window_ms))
    console.print(f"{slug} is changed.", markup=False)


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


async def _create(settings: Settings, business: NewBusiness, *, demo_data: bool) -> None:
    async with as_owner(settings, vault_of(settings)) as businesses:
        made = await businesses.create_new(business)
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


async def _set(
    settings: Settings, slug: str, *, mode: Mode | None, name: str | None, window_ms: int | None
) -> None:
    async with as_owner(settings, vault_of(settings)) as businesses:
        await businesses.change(slug, mode=mode, name=name, window_ms=window_ms)
