"""The shape of the code: imports flow one way, technology has one door, cores are pure, and the checks really bite."""

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shared.autonomy import Risk
from shared.packs import ToolKind, load_packs

ROOT = Path(__file__).parents[2]
PACKAGES = ("leeway", "services", "packs", "shared")
STAGES = ("ingest", "guard", "agent", "dispatch")
BIN = Path(sys.executable).parent
FUNCTION_LINES_MAX = 60
LONG_FUNCTIONS = {  # what reads as a list, from top to bottom
    "leeway/business.py:set_": "one option a setting",
    "leeway/channel/add.py:add": "one option a setting",
    "services/agent/wiring.py:wire": "the stage's parts, each once",
    "services/dispatch/wiring.py:wire": "the stage's parts, each once",
}


@cache
def python_files() -> tuple[Path, ...]:
    return tuple(path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def comes_from(imported: str, module: str) -> bool:
    return imported == module or imported.startswith(f"{module}.")


def configuration() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


# Import rules


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "lint-imports", "--no-cache", "--config", "pyproject.toml"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_the_import_contracts_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


# Each contract by its name, with imports that it must refuse: (module, the line put into it)
VIOLATIONS: dict[str, list[tuple[str, str]]] = {
    "leeway → services → packs → shared, never upwards": [
        ("shared/ids.py", "import packs.clinic.rules"),
        ("shared/work/slots.py", "import services.guard.ports"),
        ("packs/clinic/rules.py", "import services.agent.ports"),
        ("services/guard/handler.py", "import leeway.telephone"),
    ],
    "stages never import each other": [
        ("services/guard/handler.py", "import services.agent.ports"),
        ("services/dispatch/core/split.py", "import services.ingest.core.events"),
        ("services/console/desk.py", "import services.agent.ports"),
    ],
    "inside a stage: wiring, then handler and adapters, then ports, then core": [
        ("services/guard/core/signs.py", "import services.guard.ports"),
        ("services/ingest/ports.py", "import services.ingest.handler"),
        ("services/agent/handler.py", "import services.agent.adapters.rows"),
        ("services/dispatch/handler.py", "import services.dispatch.wiring"),
        ("services/console/desk.py", "import services.console.adapters.postgres_desk"),
        ("services/console/core/drafts.py", "import services.console.ports"),
    ],
    "one door for aio_pika": [
        ("shared/work/retry.py", "import aio_pika"),
        ("services/guard/ports.py", "import aiormq"),
    ],
    "one door for asyncpg": [
        ("services/ingest/adapters/postgres_inbox.py", "import asyncpg"),
        ("packs/clinic/operations.py", "import asyncpg"),
    ],
    "one door for openai": [("services/agent/engines/calling.py", "import openai")],
    "the core does no I/O": [
        ("services/agent/core/gate.py", "import asyncio"),
        ("services/guard/core/signs.py", "import shared.clock"),
        ("services/dispatch/core/split.py", "import httpx2"),
        ("shared/tickets.py", "import shared.settings"),
        ("services/console/core/handoffs.py", "import shared.work.retry"),
        ("shared/audit.py", "import shared.clock"),
        ("shared/evidence.py", "import structlog"),
        ("leeway/evals/invariants.py", "import asyncio"),
    ],
}


def test_every_contract_has_violations_to_try() -> None:
    contracts = {one["name"] for one in configuration()["tool"]["importlinter"]["contracts"]}
    assert contracts <= set(VIOLATIONS), f"try the new ones too: {contracts - set(VIOLATIONS)}"
    assert set(VIOLATIONS) <= contracts


def test_each_contract_refuses_its_violations(tmp_path: Path) -> None:
    """All of them put into one copy of the tree: every contract breaks, and names each import."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for violations in VIOLATIONS.values():
        for path, line in violations:
            source = tmp_path / path
            source.write_text(f"{source.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    said = lint_imports(tmp_path).stdout
    broken = dict(re.findall(r"^(.+?) (BROKEN|KEPT)$", said, flags=re.MULTILINE))
    for contract, violations in VIOLATIONS.items():
        assert broken[contract] == "BROKEN"
        chapter = said.split(contract)[-1]
        for path, line in violations:
            importer = path.removesuffix(".py").replace("/", ".")
            imported = line.removeprefix("import ")
            assert re.search(rf"{re.escape(importer)} (->|→) {re.escape(imported)}", chapter), (
                contract,
                path,
                line,
            )


# One door for each technology: also for the modules that no contract names

DOORS = {
    "aio_pika": ("shared/broker/",),
    "aiormq": ("shared/broker/",),
    "asyncpg": ("shared/database/",),
    "openai": ("shared/llm/",),
    "genai_prices": ("shared/llm/",),
    "fastapi": ("services/ingest/", "shared/llm/", "leeway/"),
    "starlette": ("services/", "shared/llm/", "shared/telemetry/", "shared/work/process.py", "leeway/twins/"),
    "uvicorn": ("shared/telemetry/", "shared/llm/", "leeway/"),
    "pydantic_settings": ("shared/settings.py",),
    "prometheus_client": ("shared/telemetry/",),
    "opentelemetry": ("shared/telemetry/traces/otel.py",),
    "cryptography": ("shared/secrets.py",),
    "phonenumbers": ("shared/phones.py",),
    "uuid_utils": ("shared/ids.py",),
    "typer": ("leeway/",),
    "rich": ("leeway/",),
    "ruamel": ("leeway/evals/",),
}


@pytest.mark.parametrize("technology", DOORS)
def test_a_technology_is_imported_behind_its_door_only(technology: str) -> None:
    outside = [
        name_of(path)
        for path in python_files()
        if any(comes_from(imported, technology) for imported in imports_of(path))
        and not name_of(path).startswith(DOORS[technology])
    ]
    assert not outside


def test_handlers_and_ports_know_no_technology() -> None:
    technology = {*DOORS, "httpx2", "shared.database", "shared.broker.rabbit", "shared.broker.memory"}
    for stage in STAGES:
        for room in ("handler", "ports"):
            path = ROOT / "services" / stage / f"{room}.py"
            found = [one for one in imports_of(path) if any(comes_from(one, each) for each in technology)]
            assert not found, name_of(path)


def test_every_stage_has_the_same_rooms() -> None:
    rooms = {"__init__.py", "__main__.py", "handler.py", "ports.py", "wiring.py", "core", "adapters"}
    for stage in STAGES:
        found = {path.name for path in (ROOT / "services" / stage).iterdir()}
        assert rooms <= found, stage


def test_a_stage_says_what_it_reads_publishes_and_promises() -> None:
    for stage in STAGES:
        said = ast.get_docstring(tree_of(ROOT / "services" / stage / "__init__.py")) or ""
        for word in ("Reads", "Publishes", "Promises"):
            assert f"\n{word} " in f"\n{said}", stage


# Cores

PURE = [
    *(path for path in python_files() if re.match(r"services/\w+/core/", name_of(path))),
    *(path for path in python_files() if re.match(r"packs/\w+/(rules|amounts)\.py", name_of(path))),
    *(
        ROOT / "shared" / name
        for name in (
            "audit.py",
            "digest.py",
            "tickets.py",
            "autonomy.py",
            "errors.py",
            "messages.py",
            "supersede.py",
            "words.py",
            "text.py",
        )
    ),
]
NOT_PURE = (
    "asyncio", "asyncpg", "aio_pika", "openai", "httpx2", "fastapi", "structlog", "logging", "random", "secrets",
    "socket", "subprocess", "threading", "time", "os", "shared.clock", "shared.database", "shared.broker",
    "shared.work", "shared.settings", "shared.telemetry",
)  # fmt: skip


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_a_core_waits_for_nothing_and_asks_nobody(path: Path) -> None:
    waiting = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
    assert not [node.lineno for node in ast.walk(tree_of(path)) if isinstance(node, waiting)]
    assert not [one for one in imports_of(path) if any(comes_from(one, each) for each in NOT_PURE)]
    calls = {ast.unparse(node.func) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)}
    asked = {
        "datetime.now",
        "datetime.utcnow",
        "datetime.today",
        "date.today",
        "open",
        "print",
        "new_id",
        "random_token",
    }
    assert not calls & asked


def test_there_are_no_excuses_in_a_core() -> None:
    for path in PURE:
        assert "type: ignore" not in path.read_text(encoding="utf-8"), name_of(path)
        assert "noqa" not in path.read_text(encoding="utf-8"), name_of(path)


# Bans


def ruff(source: str, *, file: str = "services/guard/made_up.py") -> list[str]:
    """The codes of ruff's findings in a module that could stand there."""
    done = subprocess.run(
        [BIN / "ruff", "check", "--output-format", "json", "--stdin-filename", file, "-"],
        cwd=ROOT, input=source, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return [finding["code"] for finding in json.loads(done.stdout)]


BANNED = {
    "datetime.datetime.now": "import datetime\n\nAT = datetime.datetime.now(datetime.UTC)\n",
    "datetime.datetime.utcnow": "import datetime\n\nAT = datetime.datetime.utcnow()\n",
    "time.time": "import time\n\nAT = time.time()\n",
    "uuid.uuid4": "from uuid import uuid4\n\nID = uuid4()\n",
    "os.environ": "import os\n\nHOME = os.environ['HOME']\n",
    "os.getenv": "import os\n\nHOME = os.getenv('HOME')\n",
    "asyncio.gather": "import asyncio\n\n\nasync def both() -> None:\n    await asyncio.gather()\n",
    "unittest.mock": "from unittest.mock import Mock\n\nFAKE = Mock()\n",
}


@pytest.mark.parametrize("banned", BANNED)
def test_a_banned_call_is_found(banned: str) -> None:
    assert "TID251" in ruff(BANNED[banned])


def test_every_ban_is_tried_and_says_why() -> None:
    bans = configuration()["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert set(bans) == set(BANNED)
    assert all(ban["msg"] for ban in bans.values())


def test_an_ignore_names_its_code() -> None:
    bare = re.compile(r"#\s*(noqa(?!:)|type:\s*ignore(?!\[))")
    found = [name_of(path) for path in python_files() if bare.search(path.read_text(encoding="utf-8"))]
    assert not found


# Sizes


def functions() -> Iterator[tuple[str, int]]:
    for path in python_files():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield f"{name_of(path)}:{node.name}", node.end_lineno - node.lineno + 1


def test_a_function_fits_on_a_screen() -> None:
    long = {name for name, lines in functions() if lines >= FUNCTION_LINES_MAX}
    assert long == set(LONG_FUNCTIONS), "shorten it, or take an exception that is no longer one off the list"


def test_every_module_says_what_it_is() -> None:
    silent = [
        name_of(path)
        for path in python_files()
        if tree_of(path).body and not ast.get_docstring(tree_of(path))
    ]
    assert not silent


# Tools


def all_tools() -> list[Any]:
    return [
        pytest.param(tool, id=f"{pack.name}.{tool.name}")
        for pack in load_packs().values()
        for tool in pack.tools
    ]


@pytest.mark.parametrize("tool", all_tools())
def test_a_tool_declares_its_risk_and_says_in_one_line_what_a_wrong_call_costs(tool: Any) -> None:
    assert isinstance(tool.risk, Risk)
    assert tool.wrong_call_costs.strip()
    assert "\n" not in tool.wrong_call_costs
    assert tool.description.strip()
    assert tool.level in range(5)


@pytest.mark.parametrize("tool", all_tools())
def test_a_tool_has_what_its_kind_needs(tool: Any) -> None:
    if tool.kind is ToolKind.READ:
        assert tool.read is not None
        assert tool.risk is Risk.READ
    else:
        assert tool.risk is not Risk.READ
        assert tool.example
        for need in ("check", "execute", "word_prompt", "word_done", "word_refusal"):
            assert getattr(tool, need) is not None, need


@pytest.mark.parametrize("tool", all_tools())
def test_a_tool_s_arguments_refuse_unknown_fields_and_name_nobody(tool: Any) -> None:
    schema = tool.arguments.model_json_schema()
    assert schema["additionalProperties"] is False
    assert not set(schema.get("properties", {})) & {"customer", "customer_id", "business", "phone", "user_id"}


# SQL


def sql_files() -> list[Path]:
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.sql"))]
    return [path for path in found if path.parent.name != "migrations" and path.name != "schema.sql"]


ONE_ROW = {"lock_row", "lock_action", "commit_full", "give_up", "book"}  # these lock the rows of one thing


@pytest.mark.parametrize("path", sql_files(), ids=name_of)
def test_rows_are_locked_in_one_order_everywhere(path: Path) -> None:
    """Two statements that lock the same rows in other orders wait for each other."""
    for query in re.split(r"^-- name: ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name = query.split("\n", 1)[0]
        for found in re.finditer(r"\bfor (no key )?update\b", query):
            before = query[: found.start()].rsplit("select", 1)[-1]
            assert "order by" in before or name in ONE_ROW, (name_of(path), name)


@pytest.mark.parametrize("path", sql_files(), ids=name_of)
def test_no_statement_notifies(path: Path) -> None:
    """NOTIFY takes one lock for the whole server until the commit is flushed."""
    assert not re.search(r"\bnotify\b|pg_notify", path.read_text(encoding="utf-8"), flags=re.IGNORECASE)


def test_a_lease_s_token_is_random_and_never_counted() -> None:
    source = (ROOT / "services/agent/adapters/postgres_turns.py").read_text(encoding="utf-8")
    assert "random_token()" in source
    assert "uuid4" in (ROOT / "shared/ids.py").read_text(encoding="utf-8").split("def random_token")[1]


def test_tokens_of_leases_do_not_repeat_nor_tell_the_time() -> None:
    from shared.ids import new_id, random_token

    tokens = {random_token() for _ in range(1_000)}
    assert len(tokens) == 1_000
    assert {token.version for token in tokens} == {4}
    assert new_id().version == 7
