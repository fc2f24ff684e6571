"""`python -m tests.bench`: runs the contestants against two servers and prints what they reach.

Without URLs the servers are the bench's own, durable and gone afterwards, brought as those of the tests are.
"""

import argparse
import asyncio
import signal
import sys
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console

from tests.bench.as_json import as_json
from tests.bench.contestants import ENTRIES
from tests.bench.model import Report
from tests.bench.rounds import FULL, PLAIN, run
from tests.bench.servers import ServerNotFoundError, Urls, servers_for
from tests.bench.table import show
from tests.support.nodes import ServersUnavailableError

REPEATS_MAX = 9
PLAIN_WIDTH = 150
"""Columns when no terminal tells."""


def main() -> None:
    """Parses, runs, prints; exit status 1 when a contestant failed."""
    parser = _parser()
    chosen = parser.parse_args()
    if bool(chosen.amqp_url) != bool(chosen.database_url):
        parser.error("give both --amqp-url and --database-url, or neither")
    try:
        report = asyncio.run(_run(chosen))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit("stopped before the end: nothing to report")
    except (ServerNotFoundError, ServersUnavailableError) as error:
        sys.exit(str(error))
    show(report, Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH))
    if chosen.json:
        encoded = msgspec.json.format(msgspec.json.encode(as_json(report)), indent=2)
        chosen.json.write_bytes(encoded + b"\n")
    sys.exit(1 if report.failures else 0)


async def _run(chosen: argparse.Namespace) -> Report:
    task = asyncio.current_task()
    assert task is not None, "inside asyncio.run"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    urls = Urls(chosen.amqp_url, chosen.database_url) if chosen.amqp_url else None
    tell = partial(Console(stderr=True, highlight=False, markup=False).print, soft_wrap=True)
    async with servers_for(urls, broker_pid=chosen.broker_pid, database_pid=chosen.database_pid) as servers:
        tell(servers.description)
        return await run(
            {name: entry for name, entry in ENTRIES.items() if not chosen.only or name in chosen.only},
            servers,
            repeats=chosen.repeats,
            lengths=FULL if chosen.full else PLAIN,
            tell=tell,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--amqp-url", help="a broker to use; without it the bench starts one of its own")
    parser.add_argument("--database-url", help="a Postgres to use, with a user who may make databases")
    parser.add_argument("--broker-pid", type=int, help="the broker's process, when its port does not tell")
    parser.add_argument(
        "--database-pid", type=int, help="Postgres's first process, when asking does not tell"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every repeat here")
    parser.add_argument("--full", action="store_true", help="longer runs: some 28 minutes instead of 11")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(ENTRIES), help="these contestants")
    parser.add_argument("--repeats", type=int, default=3, choices=range(1, REPEATS_MAX + 1))
    return parser


if __name__ == "__main__":
    main()
