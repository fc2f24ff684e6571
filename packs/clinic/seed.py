"""The demo clinic's own data."""

import json
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Final

from shared.ids import BusinessId
from shared.packs import Sql

_FILE: Final = Path(__file__).parent / "seed.toml"


async def seed(sql: Sql, business: BusinessId, *, now: datetime) -> None:
    """One statement; for a business that has a clinic already it changes nothing."""
    document = json.dumps(tomllib.loads(_FILE.read_text(encoding="utf-8")))
    await sql.fetch("clinic.seed", business, document, now)
