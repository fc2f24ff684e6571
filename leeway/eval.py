"""`leeway eval`: play conversation scripts through the real services, and show what models and pipeline came to."""

import asyncio
import json
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop

from leeway.evals.playing import Played
from leeway.evals.reading import BadScript, Loaded, load_all
from leeway.evals.report import Heading, as_junit, as_object
from leeway.evals.suite import Choice, Report, evaluate
from leeway.evals.tables import show, trace
from leeway.terminal import errors, raw_line
from services.agent.core.prompt import VERSION as PROMPT_VERSION
from shared.clock import SystemClock
from shared.errors import Misconfigured
from shared.llm.configured import parse
from shared.packs import Pack, load_packs
from shared.settings import load_settings
from shared.telemetry.logs import configure_logs

ENGINES: Final = ("tool_loop",)
USAGE: Final = 2
_ROOT: Final = Path(__file__).parents[1]

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog="[bold]Examples[/]\n\n"
    "leeway eval — all scripts, with the model that LLM names\n\n"
    "leeway eval --replay — offline, on stored answers, for CI: 0 when exactly what must fail failed\n\n"
    "leeway eval --models gemini:gemini-2.5-flash,deepseek:deepseek-chat --repeat 3\n\n"
    "leeway eval --case cn-01,bk-02 --trace\n\n"
    "Exit codes: 0 everything passed, 1 something failed, 2 the command line or a script was wrong."
)
def run(
    *,
    models: Annotated[
        str, typer.Option(help="Which, as in LLM=…, with commas; else LLM's.", show_default=False)
    ] = "",
    engine: Annotated[str, typer.Option(help="How turns are understood.")] = ENGINES[0],
    group: Annotated[str, typer.Option(help="Of these groups alone.", show_default=False)] = "",
    case: Annotated[
        str, typer.Option(envvar="EVAL_CASES", help="These scripts alone, by id.", show_default=False)
    ] = "",
    pack: Annotated[str, typer.Option(help="Of these packs alone.", show_default=False)] = "",
    folder: Annotated[
        list[Path] | None, typer.Option("--dir", help="Scripts of this folder instead of the packs'.")
    ] = None,
    traced: Annotated[
        bool, typer.Option("--trace", envvar="EVAL_TRACE", help="Show each conversation with its decisions.")
    ] = False,
    repeat: Annotated[
        int, typer.Option(min=1, max=100, help="Play each so often; it must pass each time.")
    ] = 1,
    replay: Annotated[bool, typer.Option("--replay", help="Stored answers instead of a model.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object, for programs.")] = False,
    junit: Annotated[
        Path | None, typer.Option(help="Write JUnit XML there.", dir_okay=False, show_default=False)
    ] = None,
) -> None:
    """Play conversation scripts through the real services, and show what models and pipeline came to."""
    packs = load_packs()
    choice = Choice(
        groups=_names(group), cases=_names(case), packs=_names(pack), replay=replay, repeat=repeat
    )
    asked = _models(models, replay=replay)
    _refuse_engine(engine)
    scripts = _chosen(packs, folder or [], choice)
    configure_logs(level="error", service="eval")
    try:
        report = uvloop.run(_evaluate(packs, scripts, choice, asked, engine, traced=traced and not as_json))
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None
    heading = Heading(at=SystemClock().now(), commit=_commit(), prompt_version=PROMPT_VERSION)
    if junit is not None:
        junit.write_text(as_junit(report), encoding="utf-8")
    if as_json:
        raw_line(json.dumps(as_object(report, heading), ensure_ascii=False, indent=2))
    else:
        show(report, heading)
    raise typer.Exit(0 if report.ok else 1)


async def _evaluate(
    packs: dict[str, Pack],
    scripts: Sequence[Loaded],
    choice: Choice,
    models: Sequence[str],
    engine: str,
    *,
    traced: bool,
) -> Report:
    this = asyncio.current_task()
    assert this is not None, "uvloop.run makes one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)  # Postgres is stopped then too
    status = errors.status("Starting PostgreSQL and the services…")  # shown on a terminal only

    def tell(played: Played, name: str) -> None:
        status.update(f"{name}: {played.loaded.script.id}")
        if traced:
            trace(played, name)

    with status:
        return await evaluate(
            load_settings(), packs, scripts, choice=choice, models=models, engine=engine, tell=tell
        )


def _chosen(packs: dict[str, Pack], folders: Sequence[Path], choice: Choice) -> list[Loaded]:
    try:
        return choice.of(load_all(packs, folders))
    except BadScript as error:
        errors.print(f"leeway: {error}", markup=False)
        raise typer.Exit(USAGE) from None


def _models(text: str, *, replay: bool) -> list[str]:
    """The models to ask. Raises BadParameter for one that can't be meant."""
    names = _names(text) or [load_settings().llm]
    if replay and text:
        raise typer.BadParameter("a replay asks no model; leave --models out, or --replay")
    for name in names:
        try:
            parse(name)
        except Misconfigured as error:
            raise typer.BadParameter(f"--models {name.partition(':')[0]}: {error}") from None
    return names


def _refuse_engine(name: str) -> None:
    if name not in ENGINES:
        raise typer.BadParameter(f"--engine: only {', '.join(ENGINES)} can be evaluated so far")


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def _commit() -> str:
    """The commit that this runs from; `unknown` outside a repository."""
    git = shutil.which("git")
    if git is None or not (_ROOT / ".git").exists():
        return "unknown"
    told = subprocess.run(  # noqa: S603  no shell; git by its whole path, constant words
        [git, "-C", str(_ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "unknown"
