"""The guard as a process for tests: the real one, but a message that says so kills it."""

import os
import signal
from collections.abc import Sequence
from typing import Any

from services.guard import handler
from services.guard.__main__ import wired
from services.guard.core.verdict import Facts, Judgement, Unjudged
from shared.locales import Locale
from shared.work.process import main

really_judge = handler.judge


def judge(messages: Sequence[Unjudged], facts: Facts, locales: Sequence[Locale], **more: Any) -> Judgement:
    if any("kill the guard" in message.text for message in messages):
        os.kill(os.getpid(), signal.SIGKILL)
    return really_judge(messages, facts, locales, **more)


if __name__ == "__main__":
    handler.judge = judge
    main("guard", wired)
