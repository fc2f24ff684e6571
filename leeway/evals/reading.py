"""Reads scripts and fixtures from YAML. What is wrong is told by file and line, one sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from leeway.evals.script import Fixture, Script
from shared.database import load_queries
from shared.database.queries import Queries
from shared.errors import LeewayError
from shared.llm.scripted import read as read_answer
from shared.packs import Pack

FOLDER: Final = "scripts"
REPLAY: Final = "replay"
DELIBERATE: Final = "deliberate"
STORE: Final = "store.sql"
FILE_BYTES_MAX: Final = 256 * 1024

Model = TypeVar("Model", bound=BaseModel)


class BadScript(LeewayError):
    """A file is no script, or a selection names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A script with where it comes from, and its fixture where it has one."""

    script: Script
    path: Path
    fixture: Fixture | None


def load_all(packs: Mapping[str, Pack], folders: Sequence[Path] = ()) -> list[Loaded]:
    """Every script of these folders, else of the installed packs, by id. Raises BadScript."""
    chosen = list(folders) or [folder for pack in packs.values() if (folder := folder_of(pack)).is_dir()]
    found: dict[str, Loaded] = {}
    for folder in chosen:
        if not folder.is_dir():
            raise BadScript(f"{folder} is no folder.")
        for loaded in load_folder(folder):
            before = found.setdefault(loaded.script.id, loaded)
            if before is not loaded:
                raise BadScript(f"{loaded.path}:1: {before.path} has the id {loaded.script.id} already.")
            _refuse_unknown_pack(loaded, packs)
    if not found:
        raise BadScript(f"No scripts in {', '.join(map(str, chosen)) or 'the installed packs'}.")
    return list(found.values())


def folder_of(pack: Pack) -> Path:
    """Where a pack keeps its scripts: beside its migrations."""
    return pack.migrations.parent / FOLDER


def load_folder(folder: Path) -> list[Loaded]:
    """The folder's scripts, those that must fail last. A fixture has the script's file name, in `replay`. Raises BadScript."""
    loaded, fixtures = [], {path.stem: path for path in sorted((folder / REPLAY).glob("*.yaml"))}
    for path in [*sorted(folder.glob("*.yaml")), *sorted((folder / DELIBERATE).glob("*.yaml"))]:
        script = read_script(path)
        fixture_path = fixtures.pop(path.stem, None)
        fixture = read_fixture(fixture_path) if fixture_path else None
        if fixture_path and fixture and fixture.script != script.id:
            raise BadScript(f"{fixture_path}:1: is beside script {script.id}, and says {fixture.script}.")
        loaded.append(Loaded(script=script, path=path, fixture=fixture))
    if fixtures:
        raise BadScript(f"{next(iter(fixtures.values()))}:1: there is no script of that file name.")
    return loaded


def read_script(path: Path) -> Script:
    """Raises BadScript."""
    content = _content(path)
    script = _validated(path, content, Script)
    for number, step in enumerate(script.steps):
        _check_answers(path, content, step.answers or (), ("steps", number, "answers"))
    return script


def read_fixture(path: Path) -> Fixture:
    """Raises BadScript."""
    content = _content(path)
    fixture = _validated(path, content, Fixture)
    for number, answers in fixture.answers.items():
        _check_answers(path, content, answers, ("answers", number))
    return fixture


def _content(path: Path) -> Any:
    """The document with the places of its parts."""
    try:
        data = path.read_bytes()
        if len(data) > FILE_BYTES_MAX:
            raise BadScript(f"{path}:1: is longer than {FILE_BYTES_MAX} bytes.")
        content = YAML(typ="rt", pure=True).load(data.decode())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise BadScript(f"{path}:{line}: {error.problem or error.context or 'no YAML'}.") from None
    except (YAMLError, UnicodeDecodeError, OSError) as error:
        raise BadScript(f"{path}:1: can't be read: {' '.join(str(error).split())}.") from None
    if not isinstance(content, dict):
        raise BadScript(f"{path}:1: is not a mapping of a script's fields.")
    return content


def _validated(path: Path, content: Any, model: type[Model]) -> Model:
    try:
        return model.model_validate(_plain(content))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        # The deepest: of a union, the member that was meant.
        first = max(errors, key=lambda one: len(one["loc"]))
        what = first["msg"].removeprefix("Value error, ")
        where = ".".join(str(part) for part in first["loc"])
        raise BadScript(f"{path}:{line_of(content, first['loc'])}: {where or 'script'}: {what}.") from None


def _check_answers(
    path: Path, content: Any, answers: Sequence[Mapping[str, Any]], at: tuple[Any, ...]
) -> None:
    for number, answer in enumerate(answers):
        try:
            read_answer(answer)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            line = line_of(content, (*at, number))
            raise BadScript(f"{path}:{line}: no scripted answer: {error}.") from None


def line_of(content: Any, at: Sequence[Any]) -> int:
    """The line, from 1, of the deepest part that is there on the way to a place."""
    line = content.lc.line + 1 if hasattr(content, "lc") else 1
    for part in at:
        try:
            places: Any = content.lc  # ruamel's
            if isinstance(content, dict) and part in content:
                line = places.key(part)[0] + 1
            elif isinstance(content, list) and isinstance(part, int) and part < len(content):
                line = places.item(part)[0] + 1
            else:
                continue  # a part of the form, not of the document: which member of a union it was held against
        except (AttributeError, KeyError, TypeError):
            return line
        content = content[part]
    return line


def _plain(value: Any) -> Any:
    """The document as plain values; what YAML takes for a date is its text."""
    if isinstance(value, dict):
        return {_key(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return str(value)


def _key(key: Any) -> Any:
    return int(key) if isinstance(key, int) and not isinstance(key, bool) else str(key)


def _refuse_unknown_pack(loaded: Loaded, packs: Mapping[str, Pack]) -> None:
    pack = packs.get(loaded.script.pack)
    if pack is None:
        raise BadScript(
            f"{loaded.path}:1: no installed pack is called {loaded.script.pack}; there are {', '.join(sorted(packs))}."
        )
    _refuse_unknown_things(loaded, pack)
    known = {tool.name for tool in pack.tools}
    if unknown := sorted(set(loaded.script.settings.levels) - known):
        raise BadScript(f"{loaded.path}:1: pack {pack.name} has no tool {', '.join(unknown)}.")


def _refuse_unknown_things(loaded: Loaded, pack: Pack) -> None:
    """What a script does to the pack's tables, or reads of them, has a statement in the pack's store.sql."""
    script = loaded.script
    wanted = {f"add_{thing}" for thing in script.store}
    wanted |= {f"all_{thing}" for thing in (*script.end.store, *script.end.counts)}
    for staff in (step.staff for step in script.steps if step.staff):
        wanted |= {f"add_{thing}" for thing in staff.add} | {f"change_{thing}" for thing in staff.change}
    prefix = f"{pack.name}."
    there = {name.removeprefix(prefix) for name in store_queries(pack)} if wanted else set()
    if unknown := sorted(wanted - there):
        raise BadScript(f"{loaded.path}:1: {STORE} of pack {pack.name} has no {', '.join(unknown)}.")


def store_queries(pack: Pack) -> Queries:
    """What the pack's scripts do to its tables and read of them. Raises BadScript where the pack has no such file."""
    path = folder_of(pack) / STORE
    try:
        return load_queries(path, prefix=f"{pack.name}.")
    except FileNotFoundError:
        raise BadScript(f"Pack {pack.name} has no {path}.") from None
