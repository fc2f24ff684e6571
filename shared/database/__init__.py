"""The one door to Postgres: pool, named queries, roles, time-outs, and the driver's errors in our own words."""

from shared.database.pool import Database, Tenant, Transaction, connect, open_pool
from shared.database.queries import Queries, load_queries, queries_of

__all__ = [
    "Database", "Queries", "Tenant", "Transaction", "connect", "load_queries", "open_pool", "queries_of",
]  # fmt: skip
