"""How tests ask the judge: one process for a session."""

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".oracles" / "bin" / "python"
JUDGE = ROOT / "tests" / "oracles" / "judge.py"


class Judge:
    """The vendors' packages, one case after another."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, judge: str, **case: Any) -> Any:
        """The verdict; bytes travel as base64. An exception of the vendor's is `{"raised": its class}`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        sent = {name: base64.b64encode(value).decode() if isinstance(value, bytes) else value for name, value in case.items()}  # fmt: skip
        self._process.stdin.write(json.dumps({"judge": judge, **sent}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the judge ended over a case for {judge}"
        return json.loads(answer)


@contextmanager
def the_judge() -> Iterator[Judge]:
    """Raises FileNotFoundError, with what to do, where the environment is not there."""
    if not PYTHON.exists():
        raise FileNotFoundError(
            "the vendors' packages are not installed: `make test` makes .oracles/ for them"
        )
    process = subprocess.Popen(
        [PYTHON, "-I", "-W", "ignore", JUDGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )  # fmt: skip
    try:
        yield Judge(process)
    finally:
        process.communicate()
