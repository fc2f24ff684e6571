"""`leeway policy`: how freely each tool may run, why, and what each level would come to."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from leeway.business_settings import Change, Row, business_settings
from leeway.installation import DIRECTORY, Data, the_one_meant
from leeway.operators import AsJson, By, actor, jsonable
from leeway.setting_values import tell_changes
from leeway.terminal import console, plain, raw_line
from services.agent.core.gate import Allow, Ask, Deny, Dials, LevelSet, Passage, rule
from shared.autonomy import Asked, Mode, Risk, decide
from shared.errors import Misconfigured
from shared.packs import Pack, Tool, load_packs
from shared.settings import Settings

LEVELS: Final = range(5)

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="How freely each tool may run: see it, raise or lower it.",
    epilog="[bold]Examples[/]\n\nleeway policy show corner-clinic\n\nleeway policy show --pack clinic --json\n\n"
    "leeway policy set corner-clinic book_appointment 2 --asked both\n\n"
    "leeway policy reset corner-clinic book_appointment",
)

Slug = Annotated[str, typer.Argument(help="The business's short name.", show_default=False)]
ToolName = Annotated[
    str, typer.Argument(metavar="TOOL", help="As `leeway policy show` names it.", show_default=False)
]


@app.command()
def show(
    slug: Annotated[
        str | None, typer.Argument(help="The business; without one, a pack's own levels.")
    ] = None,
    *,
    pack: Annotated[str, typer.Option(help="Which pack, without a business.")] = "clinic",
    as_json: AsJson = False,
    data: Data = DIRECTORY,
) -> None:
    """Every tool: risk, level and where it comes from, floor, who is asked, what a call comes to and why; the matrix."""
    packs = load_packs()
    business, levels = (
        (None, ()) if slug is None else asyncio.run(_policy(the_one_meant(data).settings, slug))
    )
    name = business["pack"] if business else pack
    if name not in packs:
        raise Misconfigured(f"There is no pack {name!r}; there are: {', '.join(sorted(packs))}.")
    mode = Mode(business["mode"]) if business else Mode.SUGGEST
    found = policy(packs[name], mode=mode, levels=levels) | {"business": slug}
    if as_json:
        raw_line(json.dumps(found, default=jsonable))
    else:
        _print(found)


@app.command("set")
def set_(
    slug: Slug,
    tool: ToolName,
    level: Annotated[int, typer.Argument(min=0, max=4, help="0 to 4.", show_default=False)],
    *,
    asked: Annotated[
        Asked | None, typer.Option(help="Who is asked where it asks; else as it was, or as the pack says.")
    ] = None,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Set one tool's level. It holds from the next call on, also for what waits already."""
    changes = asyncio.run(_set(the_one_meant(data).settings, slug, tool, level, asked, by=actor(by)))
    tell_changes(f"{slug} {tool}", changes)


@app.command()
def reset(slug: Slug, tool: ToolName, *, by: By = None, data: Data = DIRECTORY) -> None:
    """Back to the pack's own level."""
    changes = asyncio.run(_reset(the_one_meant(data).settings, slug, tool, by=actor(by)))
    tell_changes(f"{slug} {tool}", changes)


def policy(pack: Pack, *, mode: Mode, levels: Sequence[Row] = ()) -> dict[str, Any]:
    """What a pack's tools come to at a mode, with the levels that a business set."""
    dials = Dials(
        mode=mode,
        levels={
            row["tool"]: LevelSet(level=row["level"], asked=Asked(row["asked"]) if row["asked"] else None)
            for row in levels
        },
    )
    set_by = {row["tool"]: row for row in levels}
    return {
        "pack": pack.name,
        "mode": mode.value,
        "matrix": {risk.value: {str(level): decide(level, risk).value for level in LEVELS} for risk in Risk},
        "tools": [_values(tool, dials, set_by.get(tool.name)) for tool in pack.tools],
    }


def _values(tool: Tool, dials: Dials, setting: Row | None) -> dict[str, Any]:
    passage = rule(tool, dials)
    return {
        "name": tool.name,
        "kind": tool.kind.value,
        "risk": (tool.risk or Risk.IRREVERSIBLE).value,
        "level": dials.level(tool),
        "level_from": "business" if setting else "pack",
        "set_by": setting["set_by"] if setting else None,
        "set_at": setting["set_at"] if setting else None,
        "floor": tool.floor,
        "asked": passage.asked.value if isinstance(passage, Ask) else None,
        "confirmations": passage.confirmations if isinstance(passage, Ask) else 0,
        "results": _result(passage),
        "why": _why(tool, dials, passage),
        "wrong_call_costs": tool.wrong_call_costs,
        "who_may": tool.who_may,
    }


def _result(passage: Passage) -> str:
    match passage:
        case Allow():
            return "allow"
        case Ask():
            return "ask"
        case Deny():
            return "deny"


def _why(tool: Tool, dials: Dials, passage: Passage) -> str:
    level, risk = dials.level(tool), tool.risk or Risk.IRREVERSIBLE
    ruling = decide(level, tool.risk).value
    at = f"level {level} says {ruling} to {risk.value}" + ("" if tool.risk else " (it has no class)")
    match passage:
        case Deny(code=code):
            return "the mode is off" if dials.mode is Mode.OFF else f"{at} ({code.value})"
        case Allow():
            return f"{at}, and no floor forbids it"
        case Ask(confirmations=0):
            return f"{at}; an operator is asked"
        case Ask(confirmations=confirmations, asked=asked):
            times = "once" if confirmations == 1 else f"{confirmations} times"
            floor = f"; its floor is {tool.floor} at every level" if tool.floor else ""
            then = ", then an operator" if asked is Asked.BOTH else ""
            return f"{at}{floor}: the customer is asked {times}{then}"


def _print(found: Mapping[str, Any]) -> None:
    whose = f"{found['business']}, " if found["business"] else "As it comes: "
    console.print(f"{whose}pack {found['pack']}, mode {found['mode']}", markup=False)
    for tool in found["tools"]:
        source = f"set by {tool['set_by']} {tool['set_at']:%Y-%m-%d}" if tool["set_by"] else "the pack's"
        console.print()
        head = plain(f"{tool['name']}  ", style="bold").append_text(_coloured(tool["results"]))
        console.print(head.append_text(plain(f"  {tool['why']}")), soft_wrap=True)
        about = (
            f"risk {tool['risk']}, level {tool['level']} ({source}), floor {tool['floor']}; {tool['who_may']}"
        )
        console.print(plain(f"    {about}", style="dim"), soft_wrap=True)
        console.print(
            plain(f"    a wrong call costs: {tool['wrong_call_costs']}", style="dim"), soft_wrap=True
        )
    console.print()
    console.print(_matrix(found["matrix"]))
    console.print("At level 0 a turn that calls the tool becomes a draft as well.", style="dim")


def _matrix(matrix: Mapping[str, Mapping[str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("risk")
    for level in LEVELS:
        table.add_column(f"level {level}")
    for risk, rulings in matrix.items():
        table.add_row(risk, *(_coloured(rulings[str(level)]) for level in LEVELS))
    return table


def _coloured(ruling: str) -> Text:
    return Text(ruling, style={"allow": "green", "ask": "yellow", "deny": "red"}[ruling])


async def _policy(settings: Settings, slug: str) -> tuple[Row, Sequence[Row]]:
    async with business_settings(settings) as dials:
        return await dials.policy(slug)


async def _set(
    settings: Settings, slug: str, tool: str, level: int, asked: Asked | None, *, by: str
) -> Sequence[Change]:
    async with business_settings(settings) as dials:
        return await dials.set_level(slug, tool, level, asked, packs=load_packs(), by=by)


async def _reset(settings: Settings, slug: str, tool: str, *, by: str) -> Sequence[Change]:
    async with business_settings(settings) as dials:
        return await dials.reset_level(slug, tool, by=by)
