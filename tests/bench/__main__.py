"""`python -m tests.bench`: runs the contestants against two servers and prints the ratios."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from tests.bench.contestants import ENTRIES
from tests.bench.model import Report, as_json
from tests.bench.rounds import FULL, PLAIN, run
from tests.bench.servers import ServerNotFoundError, Urls, find_servers
from tests.bench.table import show

REPEATS_MAX = 9
PLAIN_WIDTH = 150
"""Columns when no terminal tells."""


def main() -> None:
    """Parses, runs, prints; exit status 1 when a contestant failed."""
    chosen = _parser().parse_args()
    try:
        report = asyncio.run(_run(chosen))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit("stopped before the end: nothing to report")
    except ServerNotFoundError as error:
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
    servers = await find_servers(
        Urls(chosen.amqp_url, chosen.database_url),
        broker_pid=chosen.broker_pid,
        database_pid=chosen.database_pid,
    )
    return await run(
        {name: entry for name, entry in ENTRIES.items() if not chosen.only or name in chosen.only},
        servers,
        repeats=chosen.repeats,
        lengths=FULL if chosen.full else PLAIN,
        tell=Console(stderr=True, highlight=False, markup=False).print,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--amqp-url", required=True)
    parser.add_argument("--database-url", required=True)
    parser.add_argument("--broker-pid", type=int, help="the broker's process, when its port does not tell")
    parser.add_argument(
        "--database-pid", type=int, help="Postgres's first process, when asking does not tell"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every repeat here")
    parser.add_argument("--full", action="store_true", help="longer runs: some 20 minutes instead of 4")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(ENTRIES), help="these contestants")
    parser.add_argument("--repeats", type=int, default=3, choices=range(1, REPEATS_MAX + 1))
    return parser


if __name__ == "__main__":
    main()
