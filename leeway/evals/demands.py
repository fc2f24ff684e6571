"""What may happen without anybody's yes, and what may not: the rules of autonomy once more, in other words.

Scripts judge the product by this page, so it shares no code with the gate. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shared.packs import Tool, ToolKind

# risk → what each level from 0 to 4 lets happen: n(ever), a(sked first), f(reely)
_FREEDOM: Final[Mapping[str, str]] = {"read": "fffff", "write": "nnaff", "irreversible": "nnaaf"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What must have been before a tool's receipt. `never`: there must be none."""

    confirmations: int = 0
    approval: bool = False
    never: bool = False


def demands(tool: Tool | None, *, level: int | None, asked: str | None) -> Demands:
    """By the level that the business set (None: the pack's) and whom it asks (None: whom the pack asks)."""
    if tool is None or tool.kind is ToolKind.READ:
        return Demands(never=True)
    at = tool.level if level is None else level
    freedom = _FREEDOM[tool.risk.value if tool.risk else "irreversible"][at] if 0 <= at <= 4 else "n"
    whom = asked or tool.asked.value
    if freedom == "n":
        return Demands(never=True)
    if freedom == "f":
        return Demands(confirmations=tool.floor)
    if whom == "operator":
        return Demands(confirmations=tool.floor, approval=True)
    return Demands(confirmations=max(1, tool.floor), approval=whom == "both")
