"""The `leeway` command: a table of sub-commands, each a module that is imported when it is asked for."""

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from leeway.terminal import errors
from shared.errors import LeewayError

# A module holds `app`, a Typer of one command or of several.
COMMANDS: Final = {
    "demo": "leeway.demo",
    "sim": "leeway.sim",
    "up": "leeway.up",
    "say": "leeway.say",
    "eval": "leeway.eval",
    "report": "leeway.report",
    "run": "leeway.run",
    "migrate": "leeway.migrate",
    "secrets": "leeway.secret_files",
    "doctor": "leeway.doctor",
    "backup": "leeway.backup",
    "restore": "leeway.restore",
    "drafts": "leeway.drafts",
    "approvals": "leeway.approvals",
    "handoffs": "leeway.handoffs",
    "conversation": "leeway.conversation",
    "policy": "leeway.policy",
    "audit": "leeway.audit",
    "dead": "leeway.dead",
    "business": "leeway.business",
    "channel": "leeway.channel",
    "identities": "leeway.identities",
    "feeds": "leeway.feeds",
}
LACKING: Final = ("42P01", "42703", "3F000")  # PostgreSQL knows no such table, column, schema
DEBUG: Final = "--debug"


class Commands(TyperGroup):
    """Sub-commands by name, loaded one by one: `leeway say` must not pay for what `leeway up` needs."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(import_module(COMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="leeway", cls=Commands, rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False
)


@app.callback(
    invoke_without_command=False,
    no_args_is_help=True,
    epilog="[bold]Examples[/]\n\n"
    "leeway demo — a scripted conversation, explained\n\n"
    "leeway sim — chat with the bot yourself, with every dial at hand\n\n"
    "leeway up — run everything here; then, in another terminal: leeway say 'What is free tomorrow?'\n\n"
    "leeway up --twin whatsapp — the same with a WhatsApp to chat on in a browser\n\n"
    "leeway channel add corner-clinic --channel telegram — connect a real channel; then: leeway channel test\n\n"
    "leeway doctor — what is wrong with this installation, and what to do",
)
def root(
    *,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show the traceback of an error (anywhere on the line).")
    ] = False,
) -> None:
    """A self-hosted messaging agent for small businesses, safe by construction."""


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 the command line was wrong."""
    words, debug = _without_debug(sys.argv[1:])
    try:
        app(words)
    except Exception as error:
        if debug:
            raise
        errors.print(f"leeway: {sentence(error)}", markup=False)
        raise SystemExit(1) from None


def sentence(error: BaseException) -> str:
    """One line for people: our own errors' sentence; of anything else, that it is a bug."""
    ours = next((leaf for leaf in _leaves(error) if isinstance(leaf, LeewayError)), None)
    if ours is not None:
        return " ".join(str(ours).split())
    leaf = next(_leaves(error))
    if getattr(leaf, "sqlstate", None) in LACKING:
        return f"The database lacks what this version needs ({leaf}); run: leeway migrate"
    said = " ".join(f"{type(leaf).__name__}: {leaf}".split())
    return f"this is a bug: {said} (add {DEBUG} for the traceback)"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


def _without_debug(words: list[str]) -> tuple[list[str], bool]:
    """`--debug` counts wherever it stands before a `--`."""
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != DEBUG]
    return kept + words[end:], len(kept) < end
