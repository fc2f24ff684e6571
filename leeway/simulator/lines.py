"""Lines of standard input, as they come: typed by a person, or piped by a script."""

import asyncio
import contextlib
import os
import queue
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

REDRAWN: Final = "\r\x1b[K"


class Lines:
    """One reader, in a thread of its own that nobody waits for at the end."""

    def __init__(self) -> None:
        self.is_typed = sys.stdin.isatty() and sys.stdout.isatty()
        self._wanted: queue.SimpleQueue[tuple[str, asyncio.Future[str | None]]] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, prompt: str) -> "asyncio.Future[str | None]":
        """The next line without its end; None when there is none. The prompt is for people."""
        future: asyncio.Future[str | None] = self._loop.create_future()
        self._wanted.put((prompt if self.is_typed else "", future))
        return future

    def typed_so_far(self) -> str:
        if not self.is_typed or "readline" not in sys.modules:
            return ""
        return str(sys.modules["readline"].get_line_buffer())

    def _read(self) -> None:
        while True:
            prompt, future = self._wanted.get()
            line = self._line(prompt)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_give, future, line)

    def _line(self, prompt: str) -> str | None:
        if self.is_typed:
            try:
                return input(prompt)
            except EOFError:
                return None
        read = sys.stdin.readline()
        return read.rstrip("\r\n") if read else None


def _give(future: "asyncio.Future[str | None]", line: str | None) -> None:
    if not future.done():
        future.set_result(line)


@contextlib.contextmanager
def terminal_kept() -> Iterator[None]:
    """Whatever bytes come in are text; and the terminal is afterwards as it was, also when the reader was cut off."""
    if sys.stdin is None:  # it was closed before we began: nobody types
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115  it stays open for as long as the process lives
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]  # a real stdin is a TextIOWrapper
    if not sys.stdin.isatty():
        yield
        return
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415  imported for its effect: input() can then edit lines
    kept = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, kept)
