"""`leeway secrets`: what a new installation of the stack must keep to itself, made once, each in a file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from leeway.keys import make_once, new_password
from leeway.terminal import console
from shared.errors import Misconfigured
from shared.secrets import new_key
from shared.settings import SECRET_FILES

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """One file. With --groups a container reads it if it is in the `group`; docker-compose.yml says which ones are."""

    name: str
    make: Callable[[], str]
    group: int


SECRETS: Final = (
    Secret(name="LEEWAY_SECRET_KEY", make=new_key, group=10011),
    Secret(name="LEEWAY_DATABASE_PASSWORD", make=new_password, group=10012),
    Secret(name="LEEWAY_AMQP_PASSWORD", make=new_password, group=10013),
    Secret(name="POSTGRES_MONITOR_PASSWORD", make=new_password, group=10014),
    Secret(name="GRAFANA_PASSWORD", make=new_password, group=10015),
)


@app.command(
    epilog="[bold]Examples[/]\n\nleeway secrets — what docker compose does before anything else\n\n"
    "docker compose exec ingest cat /run/leeway/LEEWAY_SECRET_KEY — to keep with the back-ups of the database",
)
def secrets(
    *,
    directory: Annotated[
        Path, typer.Option(help="Where the files are kept.", file_okay=False)
    ] = SECRET_FILES[0],
    groups: Annotated[
        bool,
        typer.Option(
            "--groups", help="Each for a group of its own, as the stack needs it; else for you alone."
        ),
    ] = False,
) -> None:
    """Make the key and passwords that are not there yet; what is there stays. A value in the environment wins over a file."""
    try:
        made = [
            one.name
            for one in SECRETS
            if make_once(directory / one.name, one.make, group=one.group if groups else None)
        ]
    except OSError as error:
        raise Misconfigured(f"{directory}: {error.strerror}.") from error
    for name in made:
        console.print(f"made {name}")
    if "LEEWAY_SECRET_KEY" in made:
        console.print(
            f"Keep a copy of {directory / 'LEEWAY_SECRET_KEY'} apart from the database: "
            "without it nobody can read the secrets of channels in a back-up.",
            markup=False,
            soft_wrap=True,
        )
    if not made:
        console.print("Nothing to do: all secrets are there.")
