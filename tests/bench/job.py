"""What a worker process is told when it starts, and what all contestants' jobs share."""

from pathlib import Path
from typing import Self

from pydantic_settings import BaseSettings, SettingsConfigDict

from tests.bench.marks import FIRST_STAGE, LAST_STAGE

STAGES = range(FIRST_STAGE, LAST_STAGE + 1)
BODY = "Bună ziua! Aș vrea o programare la control săptămâna viitoare, dacă se poate după ora 16. " * 5
"""About 500 bytes, as a long customer message."""
META_SECRET = "the app secret of the bench"
"""Signs WhatsApp's webhooks."""
SEEN_SCHEMA = "CREATE TABLE seen (stage smallint, number bigint, PRIMARY KEY (number, stage))"
"""The light job's one table."""

_PREFIX = "LEEWAY_BENCH_"


class JobSettings(BaseSettings):
    """Where the servers are, whose run it is, and where to leave marks.

    Travels in the environment, since the peers' own command lines start their workers.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX)

    amqp_url: str
    database_url: str
    run: str
    marks: Path

    @classmethod
    def told(cls) -> Self:
        """What this process was told."""
        return cls()  # type: ignore[call-arg]  # from the environment

    def environment(self) -> dict[str, str]:
        """The variables that a worker reads this from; it is given no others."""
        return {f"{_PREFIX}{name.upper()}": str(value) for name, value in self}


def queue_of(run: str, stage: int) -> str:
    """The queue that feeds a stage."""
    return f"{run}.stage{stage}"
