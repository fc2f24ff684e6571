"""All logs of a test run, scanned at its end for what people said and who they are: the run fails if any of it is found.

Each test process writes its lines to a file of the run's directory, and the logs of service processes are linked there. What to look
for is learnt while the tests run: whatever stood in a test's database, and what tests send.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

import structlog

from shared.telemetry.logs import processors

VARIABLE = "LEEWAY_TEST_LOGS"  # the run's directory, for its workers
TEXT_CHARS_MIN = 12
TEXT_CHARS_MAX = 1_000  # logs cut longer ones off
NAME_CHARS_MIN = 3
NUMBER_DIGITS_MIN = 7
SHOWN_MAX = 10

# What tests use for themselves stands in no database as it is.
ALWAYS = (
    "sk-TEST-123",
    "EAAG-TEST",
    "tw-TEST",
    "Ana Pop",
    "Ana Test",
    "Maria Test",
    "Ana Popescu",
    "Ion Ionescu",
)
NUMBERS = r"\+?(40|0) ?7(00|40) ?[0-9]{3} ?[0-9]{3}|\+?407999[0-9]{5}"  # the fictional ones
SAID = """
    select distinct body as said from leeway.inbound_message where length(body) >= $1
    union select distinct body from leeway.outbound where length(body) >= $1
    union select distinct edited_to from leeway.inbound_message where length(edited_to) >= $1
    union select distinct words from leeway.media_part where length(words) >= $1
    union select name from leeway.customer union select phone from leeway.customer
    union select user_id from leeway.channel_identity"""

_learnt: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A line of a log that holds what no log may hold."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {masked(self.what)}"


class Lines:
    """Where the lines of one test process go: its file, and what the test that runs now captures."""

    def __init__(self, *, owner: bool) -> None:
        self.owner = owner  # of the directory: scans it in the end, when all others have ended
        self._file = (directory() / f"tests-{os.getpid()}.log").open("a", encoding="utf-8", buffering=1)

    def write(self, text: str) -> None:
        if not self._file.closed:
            self._file.write(text)
        sys.stdout.write(text)

    def flush(self) -> None:
        sys.stdout.flush()

    def end(self) -> list[Leak]:
        """What the owner finds. The directory stays only where there is something to be seen in it."""
        self._file.close()
        if not self.owner:
            return []
        leaks = scan(directory())
        if not leaks:
            shutil.rmtree(directory(), ignore_errors=True)
        return leaks


def begin() -> Lines:
    """In every process of the run: from now on its lines go to a file as well, masked as a service's are, and of all levels."""
    owner = VARIABLE not in os.environ  # noqa: TID251  inherited by the run's workers
    if owner:
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="leeway-test-logs-")  # noqa: TID251
    lines = Lines(owner=owner)
    structlog.configure(
        processors=[*processors(service="tests"), structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", lines)),
    )
    learn(ALWAYS)
    return lines


def directory() -> Path:
    return Path(os.environ[VARIABLE])  # noqa: TID251  as above


def keep(log: Path) -> None:
    """A service's log, which outlives the test's directory."""
    if VARIABLE in os.environ:  # noqa: TID251  as above
        link = directory() / f"{log.stem}-{log.stat().st_ino}.log"
        if not link.exists():
            os.link(log, link)


def learn(words: Iterable[str | None]) -> None:
    """Texts, names and numbers that no log of this run may hold. What is too short or too ordinary to tell is left out."""
    _remember({form for word in words if word for form in _forms(word)})


def learn_secrets(*secrets: str) -> None:
    """Each as it is: keys and tokens tell by themselves."""
    _remember(set(secrets))


def _remember(forms: set[str]) -> None:
    new = forms - _learnt
    if not new or VARIABLE not in os.environ:  # noqa: TID251  as above
        return
    _learnt.update(new)
    with (directory() / f"tests-{os.getpid()}.words").open("a", encoding="utf-8") as file:
        file.writelines(f"{form}\n" for form in sorted(new))


async def learn_from(connection: Any) -> None:
    """What people said, and who they are, of a test's database."""
    learn(row["said"] for row in await connection.fetch(SAID, TEXT_CHARS_MIN))


def scan(where: Path) -> list[Leak]:
    """Every line of the directory's logs that holds something learnt, each once."""
    words = where / "words"
    learnt = {
        line for path in where.glob("*.words") for line in path.read_text(encoding="utf-8").splitlines()
    }
    logs = sorted(where.glob("*.log"))
    if not learnt or not logs:
        return []
    words.write_text("".join(f"{one}\n" for one in sorted(learnt)), encoding="utf-8")
    names = [path.name for path in logs]
    return [*_grep(where, "-wF", "-f", words.name, *names), *_grep(where, "-wE", "-e", NUMBERS, *names)]


def report(leaks: list[Leak]) -> list[str]:
    """The findings as lines for people, which don't repeat what was found."""
    kinds = {(leak.file.split("-")[0], leak.what): leak for leak in reversed(leaks)}
    shown = [str(leak) for leak in list(kinds.values())[:SHOWN_MAX]]
    return [
        f"logs of this run hold what people said or who they are, {len(leaks)} times, in {directory()}:",
        *shown,
    ]


def masked(text: str) -> str:
    """Enough of it to find it in the tests."""
    return f"{text[:4]}… ({len(text)} characters)"


def _forms(word: str) -> Iterable[str]:
    """The word as logs would write it: line by line, plain and as JSON."""
    for line in word.splitlines():
        stripped = line.strip()
        if len(stripped) <= TEXT_CHARS_MAX and _tells(stripped):
            yield stripped
            yield json.dumps(stripped)[1:-1]


def _tells(word: str) -> bool:
    """Whether it is somebody's wherever it is found."""
    if len(re.sub(r"\D", "", word)) >= NUMBER_DIGITS_MIN and re.fullmatch(r"\+?[\d\s().-]+", word):
        return True
    if " " in word or not word.isascii():
        return len(word) >= TEXT_CHARS_MIN
    return word in ALWAYS or bool(re.fullmatch(rf"[A-Z][a-z]{{{NAME_CHARS_MIN - 1},}}", word))


def _grep(where: Path, *words: str) -> list[Leak]:
    """By the system's grep, which looks for thousands of words at once."""
    environment = {"LC_ALL": "C.UTF-8", "PATH": os.defpath}
    found = subprocess.run(
        ["grep", "-Hnao", *words],
        check=False,
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if found.returncode > 1:
        raise RuntimeError(found.stderr)
    lines = [line.split(":", maxsplit=2) for line in found.stdout.splitlines()]
    return [Leak(file=file, line=int(number), what=what) for file, number, what in lines]
