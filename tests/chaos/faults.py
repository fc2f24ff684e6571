"""What breaks: processes, their connections, and the servers under them."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.support.servers import Servers
from tests.support.stack import Running, Stack

STOPPED_MAX_S = 3.0


@dataclass
class Faults:
    """Breaks things one after another until told to stop; whatever dies is started again at once."""

    stack: Stack
    servers: Servers
    chance: random.Random
    pause_s: float
    done: Counter[str] = field(default_factory=Counter)

    async def supervise(self) -> None:
        """As `leeway up --stack` or a container engine does."""
        while True:
            for one in self.stack.every():
                if not one.is_running:
                    one.kill()
                    one.start()
            await asyncio.sleep(0.1)

    async def run(self, *, seconds: float) -> None:
        """At least each of the servers' faults once, each process killed at least once, in a seeded order."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        must = [*self._of_processes(), *self._of_servers()]
        self.chance.shuffle(must)
        while must or clock() < until:
            await asyncio.sleep(self.chance.uniform(0.3, 1.0) * self.pause_s)
            name, fault = must.pop() if must else self.chance.choice(self._of_processes())
            await fault()
            self.done[name] += 1

    def _of_processes(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        faults: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        for one in self.stack.every():
            faults += [(f"kill {one.name}", lambda one=one: self._kill(one))] * 2
        some = self.chance.choice(self.stack.every())
        return [*faults, (f"stop {some.name} for a while", lambda: self._stop(some))]

    def _of_servers(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        rabbitmq, postgres, stack = self.servers.rabbitmq, self.servers.postgres, self.stack
        return [
            ("restart RabbitMQ hard", lambda: rabbitmq.restart(hard=True)),
            ("restart Postgres hard", lambda: postgres.restart(hard=True)),
            ("restart Postgres", postgres.restart),
            ("close RabbitMQ's connections", lambda: rabbitmq.force_close_connections(stack.amqp_url)),
            ("end Postgres' sessions", self._end_sessions),
        ]

    async def _end_sessions(self) -> None:
        await self.servers.postgres.force_close_connections(self.stack.database_url)

    async def _kill(self, one: Running) -> None:
        one.kill()

    async def _stop(self, one: Running) -> None:
        if one.is_running:
            one.send(signal.SIGSTOP)
            await asyncio.sleep(self.chance.uniform(0.5, STOPPED_MAX_S))
            if one.is_running:
                one.send(signal.SIGCONT)
