"""`python -m tests.adversarial [--seed N] [--turns N]`: a run by itself, with its figures."""

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

from shared.telemetry.logs import configure_logs
from tests.adversarial.play import play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--turns", type=int, default=10_000)
    given = parser.parse_args()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    configure_logs(level="error", service="adversarial")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="leeway-adversarial-") as directory:
        played = asyncio.run(play(Path(directory), seed=seed, turns=given.turns))
    print(f"seed {seed}: {played.turns} turns, {played.messages} messages, {played.calls} model calls, "
          f"{sum(played.receipts.values())} receipts, {played.handoffs} handoffs, {time.perf_counter() - began:.0f} s")  # fmt: skip
    print(f"receipts: {dict(played.receipts)}")
    print(f"outcomes: {dict(played.outcomes.most_common())}")


if __name__ == "__main__":
    main()
