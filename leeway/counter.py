"""A person of the business, at the desk of an installation in this process."""

from collections.abc import Mapping

from leeway.one_process import OneProcess
from services.console.adapters.postgres_desk import PostgresRecord
from services.console.adapters.rehearsal import PackRehearsal
from services.console.adapters.rings import BrokerRings
from services.console.desk import Desk
from shared.packs import Pack


def desk_of(installation: OneProcess, packs: Mapping[str, Pack]) -> Desk:
    """The desk that operators have, on the installation's own database and broker."""
    parts = installation.parts
    return Desk(
        PostgresRecord(parts.database),
        rehearsal=PackRehearsal(parts.database, packs),
        rings=BrokerRings(parts.broker),
    )
