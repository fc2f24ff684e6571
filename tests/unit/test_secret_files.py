"""Keys and passwords that an installation makes for itself: once, whole, and readable for few."""

import os
import stat
import threading
from collections import Counter
from pathlib import Path

import pytest

from leeway.keys import make_once, secret_key
from leeway.secret_files import SECRETS
from shared.secrets import Vault
from tests.support.commands import environment, leeway

NAMES = [one.name for one in SECRETS]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names_in(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


async def test_what_is_missing_is_made_and_what_is_there_stays(tmp_path: Path) -> None:
    words = ("secrets", "--directory", ".")
    (tmp_path / "GRAFANA_PASSWORD").write_text("chosen")
    first = await leeway(*words, cwd=tmp_path, env=environment())
    assert first.code == 0, first.err
    assert [line for line in first.out.splitlines() if line.startswith("made ")] == [
        f"made {name}" for name in NAMES if name != "GRAFANA_PASSWORD"
    ]
    assert "Keep a copy of LEEWAY_SECRET_KEY" in first.out
    made = {name: (tmp_path / name).read_text() for name in NAMES}
    assert made["GRAFANA_PASSWORD"] == "chosen"
    Vault(made["LEEWAY_SECRET_KEY"])  # a key it is
    assert len(set(made.values())) == len(NAMES)
    assert all(mode(tmp_path / name) == 0o600 for name in NAMES if name != "GRAFANA_PASSWORD")
    assert not any(value in first.out for value in made.values())

    again = await leeway(*words, cwd=tmp_path, env=environment())
    assert again.out == "Nothing to do: all secrets are there.\n"
    assert {name: (tmp_path / name).read_text() for name in NAMES} == made
    assert names_in(tmp_path) == sorted(NAMES)  # nothing unfinished is left


async def test_where_nothing_can_be_written_is_one_line(tmp_path: Path) -> None:
    ended = await leeway("secrets", "--directory", "absent", cwd=tmp_path, env=environment())
    assert (ended.code, ended.out, ended.err) == (1, "", "leeway: absent: No such file or directory.\n")


def test_a_group_may_read_it_and_nobody_else(tmp_path: Path) -> None:
    assert make_once(tmp_path / "secret", lambda: "x", group=os.getgid())
    assert mode(tmp_path / "secret") == 0o440
    assert (tmp_path / "secret").stat().st_gid == os.getgid()


def test_each_secret_has_a_group_of_its_own() -> None:
    assert max(Counter(one.group for one in SECRETS).values()) == 1


def test_of_many_that_make_it_at_once_one_does(tmp_path: Path) -> None:
    start, made = threading.Barrier(8), []

    def make(number: int) -> None:
        start.wait(10)
        made.append(make_once(tmp_path / "secret", lambda: str(number)))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(made) == [False] * 7 + [True]
    assert names_in(tmp_path) == ["secret"]


def test_one_that_could_not_be_made_leaves_nothing(tmp_path: Path) -> None:
    def fails() -> str:
        raise RuntimeError("no chance today")

    with pytest.raises(RuntimeError):
        make_once(tmp_path / "secret", fails)
    assert names_in(tmp_path) == []


def test_an_embedded_installation_keeps_its_key(tmp_path: Path) -> None:
    key = secret_key(tmp_path)
    assert secret_key(tmp_path) == key
    assert mode(tmp_path / "secret.key") == 0o600
