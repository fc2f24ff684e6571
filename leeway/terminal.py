"""What commands print: through rich, plain when piped. Text from outside can't steer the terminal."""

import shutil
import sys
import unicodedata
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH_MAX = 100  # longer lines are hard to read, however wide the window
_KEPT = {"\n", "\t"}

console = Console(highlight=False, soft_wrap=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def shown(text: str) -> str:
    """The text with control and format characters made visible: what a customer wrote moves no cursor."""
    return "".join(
        one if one in _KEPT or unicodedata.category(one) not in ("Cc", "Cf", "Cs") else f"\\u{ord(one):04x}"
        for one in text
    )


def raw_line(text: str) -> None:
    """A line for programs, as it is: neither wrapped nor coloured, and there at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def plain(text: str, style: str = "") -> Text:
    """Text from outside as rich takes it: no markup is read in it."""
    return Text(shown(text), style=style)


def lasting(seconds: float) -> str:
    """How long that is, in the unit that people would say it in."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86_400:.0f} days"


def paragraph(text: Text, *, first: Text | None = None, indent: int = 0) -> None:
    """Print a text wrapped under itself, after `first`, without trailing blanks in a file."""
    head = first or Text(" " * indent)
    for line in text.wrap(console, width() - indent):
        line.rstrip()
        printed = Text().append_text(head).append_text(line)  # else the head's style would be the line's
        printed.rstrip()
        console.print(printed, no_wrap=True)
        head = Text(" " * indent)


def width() -> int:
    return min(console.width, WIDTH_MAX)


def program() -> str:
    """How the command is called from here: by its name where that finds it, else by its place."""
    here = Path(sys.argv[0])
    found = shutil.which(here.name)
    return here.name if found and Path(found).resolve() == here.resolve() else str(here)
