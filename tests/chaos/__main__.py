"""python -m tests.chaos [--short] [--seed N]: the chaos suite, or a few minutes of it. Exit code 1 when something was lost."""

import argparse
import asyncio
import secrets
import sys

from tests.chaos.suite import Plan, Report, chaos
from tests.support.servers import private_servers

SHORT = {"messages": 2_000, "conversations": 300, "seconds": 120.0, "pause_s": 4.0, "settle_s": 120.0}
WHOLE = {"messages": 10_000, "conversations": 1_000, "seconds": 480.0, "pause_s": 5.0, "settle_s": 180.0}


async def run(plan: Plan) -> Report:
    async with private_servers(durable=True) as servers:
        print(f"{servers.postgres.description}; {servers.rabbitmq.description}", flush=True)  # noqa: T201
        return await chaos(plan, servers)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a few minutes of it")
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run, to repeat its faults")
    asked = parser.parse_args()
    seed = asked.seed if asked.seed is not None else secrets.randbelow(1_000_000)
    print(f"seed {seed} (again: --seed {seed})", flush=True)  # noqa: T201
    report = asyncio.run(run(Plan(seed=seed, **(SHORT if asked.short else WHOLE))))  # type: ignore[arg-type]
    print(report)  # noqa: T201
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
