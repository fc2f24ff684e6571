"""The command line: exit codes, one line for an error, help with examples, nothing a customer wrote steers a terminal."""

from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

from leeway.cli import COMMANDS, _without_debug, app, sentence
from leeway.terminal import shown
from shared.errors import Misconfigured, Unavailable
from tests.support.commands import environment, leeway

RUNNER = CliRunner(env={"COLUMNS": "80"})


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command: str) -> None:
    ended = RUNNER.invoke(app, [command, "--help"])
    assert ended.exit_code == 0
    assert "Example" in ended.stdout
    assert f"leeway {command}" in ended.stdout
    assert "install-completion" not in ended.stdout


def test_help_lists_every_command() -> None:
    ended = RUNNER.invoke(app, ["--help"])
    assert ended.exit_code == 0
    assert all(f"│ {command} " in ended.stdout for command in COMMANDS)


async def test_a_directory_that_can_not_be_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = await leeway("up", "--data", "file/below", "--port", "0", cwd=tmp_path, env=environment())
    assert ended.code == 1
    assert ended.err == "leeway: file/below can't be written (Not a directory); name another with --data.\n"


@pytest.mark.parametrize(
    "words",
    [["nope"], ["run", "nope"], ["up", "--port", "99999"], ["dead", "retry"], ["dead", "retry", "no-id"], ["dead", "drop"]],
    ids=" ".join,
)  # fmt: skip
def test_a_wrong_command_line_ends_with_2(words: list[str]) -> None:
    assert RUNNER.invoke(app, words).exit_code == 2


@pytest.mark.parametrize(
    "words",
    [["dead", "list"], ["say", "hello"], ["migrate"], ["business", "show", "nobody"]],
    ids=" ".join,
)
async def test_a_failure_is_one_line_and_ends_with_1(words: list[str], tmp_path: Path) -> None:
    ended = await leeway(*words, cwd=tmp_path)
    assert ended.code == 1
    assert ended.out == ""
    (line,) = ended.err.splitlines()
    assert line.startswith("leeway: ")
    assert "leeway up" in line


async def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    ended = await leeway("say", "hello", "--debug", cwd=tmp_path)
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert "Misconfigured" in ended.err


async def test_a_fresh_key_is_all_that_is_printed(tmp_path: Path) -> None:
    ended = await leeway("doctor", "--new-key", cwd=tmp_path)
    assert ended.code == 0
    assert len(ended.out.strip()) == 44
    assert ended.err == ""


def test_the_sentence_of_our_own_errors_is_found_in_a_group() -> None:
    group = ExceptionGroup("tasks", [ValueError("x"), ExceptionGroup("more", [Unavailable("It is\n away.")])])
    assert sentence(group) == "It is away."
    assert sentence(Misconfigured("Set it.")) == "Set it."


def test_a_database_that_lacks_a_table_is_no_bug() -> None:
    error = asyncpg.UndefinedTableError('relation "dead" does not exist')
    assert sentence(error) == (
        'The database lacks what this version needs (relation "dead" does not exist); run: leeway migrate'
    )


def test_anything_else_is_called_a_bug() -> None:
    assert sentence(KeyError("x")) == "this is a bug: KeyError: 'x' (add --debug for the traceback)"


def test_debug_counts_anywhere_but_after_two_dashes() -> None:
    assert _without_debug(["say", "--debug", "hi"]) == (["say", "hi"], True)
    assert _without_debug(["say", "--", "--debug"]) == (["say", "--", "--debug"], False)


def test_control_characters_are_shown_not_sent() -> None:
    assert shown("a\x1b[31mb\u202ec\nd") == "a\\u001b[31mb\\u202ec\nd"
