"""Dispatch as a process for tests: the real one, but a reply that says so kills it in the provider's call."""

import os
import signal

from services.dispatch.__main__ import wired
from services.dispatch.adapters.channels.sim import SimChannel
from services.dispatch.core.outcome import Outcome
from services.dispatch.ports import Claimed
from shared.work.process import main

really_send = SimChannel.send


async def send(self: SimChannel, claimed: Claimed, *, key: str) -> Outcome:
    if "kill dispatch" in claimed.parts[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return await really_send(self, claimed, key=key)


if __name__ == "__main__":
    SimChannel.send = send  # type: ignore[method-assign]
    main("dispatch", wired)
