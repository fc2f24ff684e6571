"""How much may be under way at once in this process. Taken before a claim, so that nothing claimed has to wait."""

import asyncio


class Slots:
    """A bound on work under way. Not a lock: the one loop that claims asks for room, takes it, and tasks give it back."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._used = 0
        self._changed = asyncio.Event()
        self._changed.set()

    @property
    def used(self) -> int:
        return self._used

    @property
    def free(self) -> int:
        return self.size - self._used

    async def room(self) -> int:
        """Wait until at least one is free; how many are."""
        while self._used >= self.size:
            self._changed.clear()
            await self._changed.wait()
        return self.size - self._used

    async def idle(self) -> None:
        """Wait until none is in use."""
        while self._used:
            self._changed.clear()
            await self._changed.wait()

    def take(self) -> None:
        self._used += 1

    def give_back(self) -> None:
        assert self._used > 0, "a slot was given back twice"
        self._used -= 1
        self._changed.set()
