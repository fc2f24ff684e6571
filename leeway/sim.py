"""`leeway sim`: chat with the bot as a customer, on an installation of its own."""

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop

from leeway.business_settings import business_settings
from leeway.businesses import NewBusiness
from leeway.one_process import DEMO, one_process, running
from leeway.simulator import screen
from leeway.simulator.commands import LEVELS, Quit, obey, set_levels, set_mode
from leeway.simulator.lines import REDRAWN, Lines, terminal_kept
from leeway.simulator.session import ROUNDS, Session
from leeway.terminal import console
from shared.autonomy import Mode
from shared.clock import Shift
from shared.errors import LeewayError
from shared.locales import available
from shared.packs import Pack, load_packs
from shared.phones import e164
from shared.settings import Settings, Simulation, load_settings
from shared.telemetry.logs import configure_logs

NUMBER: Final = "+40700000010"
LOOK_EVERY_S: Final = 0.5
NAMES: Final = {"clinic": DEMO.name, "expenses": "Demo Expenses"}

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog="[bold]Examples[/]\n\nleeway sim — then write, or /help\n\n"
    "leeway sim --pack expenses --level 3 --level delete_expense=2\n\n"
    "AUTONOMY=3 leeway sim --pack expenses\n\nLLM=openai:MODEL leeway sim --mode suggest --locale ro\n\n"
    "printf 'Book a cleaning tomorrow at 10\\nYES\\n' | leeway sim"
)
def sim(
    *,
    pack: Annotated[str, typer.Option(help="clinic or expenses, or another installed one.")] = "clinic",
    locale: Annotated[str, typer.Option(help="The business's first language: en, ro.")] = "en",
    mode: Annotated[Mode | None, typer.Option(help="What becomes of replies (else auto).")] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N | TOOL=N", help="0 to 4, for all tools or for one; again for more (else AUTONOMY)."
        ),
    ] = None,
    number: Annotated[str, typer.Option("--as", help="Your telephone number.")] = NUMBER,
    data: Annotated[
        Path | None, typer.Option(help="Keep everything in this directory.", file_okay=False)
    ] = None,
) -> None:
    """Chat as a customer, with the real services in one process; /help in the chat lists the dials."""
    packs = load_packs()
    if pack not in packs:
        raise typer.BadParameter(f"there is no pack {pack!r}; there are: {', '.join(sorted(packs))}")
    if locale not in available():
        raise typer.BadParameter(f"there is no locale {locale!r}; there are: {', '.join(available())}")
    if (telephone := e164(number)) is None:
        raise typer.BadParameter(f"{number!r} is no telephone number like {NUMBER}")
    levels = _levels(level or [], packs[pack])
    settings = load_settings()
    configure_logs(level="error", service="sim")
    wanted = _Wanted(pack=pack, locale=locale, mode=mode, levels=levels, number=telephone, data=data)
    with terminal_kept():
        try:
            uvloop.run(_simulate(settings, packs, wanted))
        except asyncio.CancelledError:
            raise typer.Exit(128 + signal.SIGTERM) from None
        except KeyboardInterrupt:
            raise typer.Exit(128 + signal.SIGINT) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The command line, read. `mode` None and a tool without a level: as they are."""

    pack: str
    locale: str
    mode: Mode | None
    levels: Mapping[str, int]
    number: str
    data: Path | None


def _levels(told: Sequence[str], pack: Pack) -> dict[str, int]:
    """Each tool's level: of AUTONOMY, then of the options for all tools, then of those for one. Raises BadParameter."""
    tools = [tool.name for tool in pack.tools]
    everywhere = [("AUTONOMY", autonomy)] if (autonomy := Simulation().autonomy) is not None else []
    everywhere += [("--level", one) for one in told if "=" not in one]
    levels: dict[str, int] = {}
    for source, text in everywhere:
        levels = dict.fromkeys(tools, _level(source, text))
    for one in told:
        tool, equals, text = one.partition("=")
        if equals and tool not in tools:
            raise typer.BadParameter(
                f"pack {pack.name} has no tool {tool!r}; it has: {', '.join(sorted(tools))}"
            )
        if equals:
            levels[tool] = _level(f"--level {tool}", text)
    return levels


def _level(source: str, text: str) -> int:
    if text.strip() not in LEVELS:
        raise typer.BadParameter(f"{source} takes a level from 0 to 4, not {text[:40]!r}")
    return int(text)


async def _simulate(settings: Settings, packs: Mapping[str, Pack], wanted: _Wanted) -> None:
    this = asyncio.current_task()
    assert this is not None, "uvloop.run makes one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)  # Postgres is stopped then too
    shift = Shift()
    with _directory(wanted.data) as directory, _starting() as started:
        async with (
            one_process(
                settings,
                directory,
                demo=_demo(wanted),
                keeps=wanted.data is not None,
                shift=shift,
                rounds=ROUNDS,
            ) as installation,
            running(installation),
            business_settings(installation.parts.settings) as dials,
        ):
            session = Session(
                installation, packs=packs, pack=wanted.pack, shift=shift, dials=dials, locale=wanted.locale, number=wanted.number,
            )  # fmt: skip
            await session.begin()
            if wanted.mode is not None:
                await set_mode(session, wanted.mode)
            await set_levels(session, wanted.levels)
            started()
            try:
                await _chat(session, Lines(), llm=settings.llm)
            finally:
                await session.close()
    if wanted.data is not None and console.is_terminal:
        screen.note(f"kept in {wanted.data}")


async def _chat(session: Session, lines: Lines, *, llm: str) -> None:
    """One line after another, each when nothing more comes of the one before."""
    if lines.is_typed:
        name = NAMES.get(session.pack.name, session.slug)
        screen.line(
            f"You are a customer of {name}, {session.number}; the model is {llm}. /help says what else you can do."
        )
    while (line := await _next(session, lines)) is not None:
        if not line.strip():
            continue
        try:
            if line.startswith("/") and not line.startswith("//"):
                await obey(session, line)
            else:
                await session.write(line[1:] if line.startswith("//") else line)
        except Quit:
            return
        except LeewayError as error:
            screen.line(str(error), "red")
    if lines.is_typed:
        console.print()  # after Ctrl-D the cursor stands behind the prompt


async def _next(session: Session, lines: Lines) -> str | None:
    """The next line; what happens meanwhile is shown above it."""
    prompt = "you> " if session.number == NUMBER else f"{session.number}> "
    asked = lines.ask(prompt)
    while lines.is_typed:
        done, _ = await asyncio.wait([asked], timeout=LOOK_EVERY_S)
        if done:
            break
        if await session.record.look():
            sys.stdout.write(REDRAWN)
            await session.show_news()
            sys.stdout.write(f"{prompt}{lines.typed_so_far()}")
            sys.stdout.flush()
    return await asked


def _demo(wanted: _Wanted) -> NewBusiness:
    others = [one for one in available() if one != wanted.locale]
    return replace(
        DEMO,
        slug=f"demo-{wanted.pack}",
        name=NAMES.get(wanted.pack, f"Demo {wanted.pack}"),
        pack=wanted.pack,
        locales=(wanted.locale, *others),
        mode=wanted.mode or Mode.AUTO,
        window_ms=0,  # each line is a whole message
    )


@contextlib.contextmanager
def _directory(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="leeway-sim-") as directory:
        yield Path(directory)


@contextlib.contextmanager
def _starting() -> Iterator[Callable[[], None]]:
    """A sign of life, on a terminal, until it is called off."""
    status = console.status("Starting PostgreSQL and the services…")
    status.start()
    try:
        yield status.stop
    finally:
        status.stop()
