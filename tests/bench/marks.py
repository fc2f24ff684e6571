"""How a message's way is followed without touching broker or database: marks in one file.

Every worker appends 20 bytes a message after its commit (some microseconds); the bench reads them. Times are
of the monotonic clock, which all processes of one machine share.
"""

import os
import struct
import time
from collections.abc import Iterable
from pathlib import Path

RECORD = struct.Struct("<iqq")
FIRST_STAGE = 1
LAST_STAGE = 4


class MarkWriter:
    """Appends marks; safe from several threads and processes, since an append of few bytes is one write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def mark(self, stage: int, numbers: Iterable[int]) -> None:
        """Notes that the stage has committed these messages just now. Only the two outer stages are noted."""
        if stage in {FIRST_STAGE, LAST_STAGE}:
            now = time.monotonic_ns()
            os.write(self._file, b"".join(RECORD.pack(stage, number, now) for number in numbers))


class MarkReader:
    """Follows the file as it grows. The first mark of a message and stage counts, repeats do not."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("rb")
        self._rest = b""
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}

    def poll(self) -> None:
        """Takes in what was appended since."""
        data = self._rest + self._file.read()
        whole = len(data) - len(data) % RECORD.size
        self._rest = data[whole:]
        for stage, number, at_ns in RECORD.iter_unpack(data[:whole]):
            (self.first if stage == FIRST_STAGE else self.last).setdefault(number, at_ns)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
