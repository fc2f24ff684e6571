"""The pack's words, one file a language. A language is data alone: a file more in ``wording/``."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

FALLBACK: Final = "en"
_FOLDER: Final = Path(__file__).parent / "wording"


@cache
def languages() -> tuple[str, ...]:
    """Every language there is a file for."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def language(locale: str) -> str:
    """The language to answer a locale in ("ro-RO" → "ro"); English where there is no file."""
    wanted = locale.replace("_", "-").partition("-")[0].lower()
    return wanted if wanted in languages() else FALLBACK


def words(locale: str) -> Mapping[str, Any]:
    """The wording file of a locale's language."""
    return _load(language(locale))


@cache
def _load(known: str) -> Mapping[str, Any]:
    return tomllib.loads((_FOLDER / f"{known}.toml").read_text(encoding="utf-8"))
