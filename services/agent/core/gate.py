"""May this tool run for this turn? Shut by default: what is unknown, unclassified or unreadable is refused."""

from dataclasses import dataclass
from enum import StrEnum

from shared.autonomy import Mode, Ruling, decide
from shared.packs import Tool, ToolKind


class Code(StrEnum):
    """Why a call does not run, for the model and for people."""

    UNKNOWN_TOOL = "unknown_tool"
    NOT_PERMITTED_AT_LEVEL = "not_permitted_at_level"
    AUTONOMY_OFF = "autonomy_off"
    ONE_ACTION_AT_A_TIME = "one_action_at_a_time"
    BAD_ARGUMENTS = "bad_arguments"
    CHECK_FAILED = "check_failed"


@dataclass(frozen=True, slots=True)
class Allow:
    """A read: it runs in the turn."""


@dataclass(frozen=True, slots=True)
class Ask:
    """An action: the customer must confirm it so many times."""

    confirmations: int


@dataclass(frozen=True, slots=True)
class Deny:
    code: Code


Passage = Allow | Ask | Deny


def rule(tool: Tool | None, *, mode: Mode) -> Passage:
    """What the dials say to a call. Every action is asked: no write without a stored confirmation."""
    if tool is None:
        return Deny(Code.UNKNOWN_TOOL)
    if mode is Mode.OFF:
        return Deny(Code.AUTONOMY_OFF)
    ruling = decide(tool.level, tool.risk)
    if ruling is Ruling.DENY:
        return Deny(Code.NOT_PERMITTED_AT_LEVEL)
    if tool.kind is ToolKind.READ and ruling is Ruling.ALLOW:
        return Allow()
    return Ask(max(tool.floor, 1))
