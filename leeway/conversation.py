"""`leeway conversation`: a conversation's whole story, and its own mode."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from rich.text import Text

from leeway.business_settings import Change, business_settings
from leeway.installation import DIRECTORY, Data, the_one_meant
from leeway.operators import (
    WATCH_EVERY_S,
    AsJson,
    By,
    Office,
    OwnMode,
    Watch,
    actor,
    jsonable,
    not_found,
    one_line,
    run,
    until_interrupted,
)
from leeway.setting_values import tell_changes
from leeway.story import Event, Story, story_of
from leeway.terminal import console, plain, raw_line
from shared.autonomy import Mode, strictest
from shared.ids import ConversationId
from shared.settings import Settings

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="One conversation: all that happened in it, and its own mode.",
    epilog="[bold]Examples[/]\n\nleeway conversation show demo-clinic:+40700000010\n\n"
    "leeway conversation show 019a3f2c-4b1d --watch\n\nleeway conversation mode 019a3f2c-4b1d suggest",
)

Which = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Its id, the beginning of it (6 characters or more), or BUSINESS:NUMBER.",
        show_default=False,
    ),
]


@app.command()
def show(id_: Which, *, as_json: AsJson = False, watch: Watch = False, data: Data = DIRECTORY) -> None:
    """Messages with verdicts, turns, model and tool calls, what waited for a yes, receipts, replies, decisions, cost."""

    async def work(here: Office) -> None:
        conversation = await _found(here, id_)
        story = await _story(here, conversation)
        if as_json and not watch:
            raw_line(json.dumps(_values(story), default=jsonable))
            return
        printer = _Printer(as_json=as_json)
        printer.head(story)
        printer.new(story)
        if not watch:
            printer.cost(story)
        while watch:
            await asyncio.sleep(WATCH_EVERY_S)
            printer.new(await _story(here, conversation))

    until_interrupted(lambda: run(data, work))


@app.command()
def mode(
    id_: Which,
    wanted: Annotated[
        OwnMode,
        typer.Argument(metavar="MODE", help="off, suggest, auto, or inherit.", show_default=False),
    ],
    *,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Let the bot do less in this conversation than in its business: the strictest mode wins."""

    async def work(here: Office) -> ConversationId:
        return await _found(here, id_)

    conversation = run(data, work)
    changes = asyncio.run(_mode(the_one_meant(data).settings, conversation, wanted.mode, by=actor(by)))
    tell_changes(f"conversation {conversation}", changes)


class _Printer:
    """Prints each event once, and again when it changed."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._printed: set[tuple[Any, ...]] = set()
        self._zone = ZoneInfo("UTC")

    def head(self, story: Story) -> None:
        whose = story.whose
        self._zone = ZoneInfo(whose["time_zone"])
        if self._as_json:
            return
        person = f"{whose['name']} ({whose['address']})" if whose["name"] else whose["address"]
        console.print(
            plain(
                f"{whose['business']}  {one_line(person)} on {whose['channel']} {whose['account']}",
                style="bold",
            ),
            soft_wrap=True,
        )
        console.print(
            plain(f"conversation {whose['conversation']}, {_standing(story)}", style="dim"), soft_wrap=True
        )

    def new(self, story: Story) -> None:
        for event in story.events:
            key = (event.kind, event.order, event.head, event.below)
            if key in self._printed:
                continue
            self._printed.add(key)
            if self._as_json:
                raw_line(json.dumps(event.values, default=jsonable))
            else:
                console.print(self._text(event), soft_wrap=True)

    def cost(self, story: Story) -> None:
        cost = story.cost
        unknown = f"; {cost.unknown} of unknown cost are not in it" if cost.unknown else ""
        console.print(f"{cost.calls} model calls, ${cost.usd.normalize():f}{unknown}", style="dim")

    def _text(self, event: Event) -> Text:
        when = f"{event.at.astimezone(self._zone):%d %b %H:%M:%S}"
        text = Text(f"{when}  ", style="dim").append_text(Text(f"{event.kind:<9}", style="cyan"))
        whole = Text().append_text(text).append_text(plain(event.head))
        for line in event.below:
            whole.append_text(Text(f"\n{'':<26}")).append_text(plain(line, style="dim"))
        return whole


def _standing(story: Story) -> str:
    whose = story.whose
    modes = (
        Mode(one) if one else None for one in (whose["business_mode"], whose["account_mode"], whose["mode"])
    )
    said = [
        "people answer" if whose["state"] == "handoff" else "the bot answers",
        f"mode {strictest(*modes)}",
    ]
    if whose["opted_out_at"]:
        said.append("opted out")
    if whose["unguarded"]:
        said.append(f"{whose['unguarded']} messages not judged yet")
    return ", ".join(said)


def _values(story: Story) -> dict[str, Any]:
    return dict(story.whose) | {
        "events": [one.values for one in story.events],
        "model_calls": story.cost.calls,
        "cost_usd": story.cost.usd,
        "calls_of_unknown_cost": story.cost.unknown,
    }


async def _found(here: Office, name: str) -> ConversationId:
    conversation = await here.waiting.find_conversation(name)
    if conversation is None:
        raise not_found("conversation", name, see="leeway conversation show --help")
    return conversation


async def _story(here: Office, conversation: ConversationId) -> Story:
    story = await story_of(here.database, conversation)
    if story is None:
        raise not_found("conversation", str(conversation), see="leeway handoffs list")
    return story


async def _mode(
    settings: Settings, conversation: ConversationId, wanted: Mode | None, *, by: str
) -> Sequence[Change]:
    async with business_settings(settings) as dials:
        return await dials.conversation_mode(conversation, wanted, by=by)
