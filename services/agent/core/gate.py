"""May this tool run for this turn? Shut by default: what is unknown, unclassified or unreadable is refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from shared.autonomy import Asked, Mode, Ruling, decide
from shared.packs import Tool, ToolKind


class Code(StrEnum):
    """Why a call does not run, for the model and for people."""

    UNKNOWN_TOOL = "unknown_tool"
    NOT_PERMITTED_AT_LEVEL = "not_permitted_at_level"
    AUTONOMY_OFF = "autonomy_off"
    ONE_ACTION_AT_A_TIME = "one_action_at_a_time"
    WAITING_FOR_OPERATOR = "waiting_for_operator"
    DECLINED_BY_CUSTOMER = "declined_by_customer"
    DECLINED_BY_OPERATOR = "declined_by_operator"
    BAD_ARGUMENTS = "bad_arguments"
    CHECK_FAILED = "check_failed"
    PROMPT_TOO_LONG = "prompt_too_long"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSet:
    """What a business set for a tool. `level` is what is stored, readable or not; `asked` None: as the pack says."""

    level: object
    asked: Asked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dials:
    """Both dials as they stand: the strictest mode, and the levels that the business set, by tool."""

    mode: Mode
    levels: Mapping[str, LevelSet] = field(default_factory=dict)

    def level(self, tool: Tool) -> object:
        """The level of a tool: the business's, else the pack's."""
        setting = self.levels.get(tool.name)
        return tool.level if setting is None else setting.level

    def asked(self, tool: Tool) -> Asked:
        setting = self.levels.get(tool.name)
        return tool.asked if setting is None or setting.asked is None else setting.asked


@dataclass(frozen=True, slots=True)
class Allow:
    """It runs in the turn."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody must be asked: the customer so many times, and after that an operator where `asked` says so.

    No confirmation is needed where the operator alone is asked.
    """

    confirmations: int
    asked: Asked = Asked.CUSTOMER


@dataclass(frozen=True, slots=True)
class Deny:
    code: Code


Passage = Allow | Ask | Deny


def rule(tool: Tool | None, dials: Dials) -> Passage:
    """What the dials and the tool's floor say to a call. A floor holds at every level; nobody is asked about a read."""
    if tool is None:
        return Deny(Code.UNKNOWN_TOOL)
    if dials.mode is Mode.OFF:
        return Deny(Code.AUTONOMY_OFF)
    ruling = decide(dials.level(tool), tool.risk)
    asks = ruling is Ruling.ASK or tool.floor > 0
    if ruling is Ruling.DENY or (asks and tool.kind is ToolKind.READ):
        return Deny(Code.NOT_PERMITTED_AT_LEVEL)
    if ruling is Ruling.ALLOW:
        return Ask(tool.floor) if tool.floor else Allow()
    asked = dials.asked(tool)
    if asked is Asked.OPERATOR:
        return Ask(tool.floor, Asked.BOTH) if tool.floor else Ask(0, Asked.OPERATOR)
    return Ask(max(tool.floor, 1), asked)


def holds_the_reply(tool: Tool | None, dials: Dials) -> bool:
    """Level 0: a turn in which this tool was called, run or denied, goes out as a draft whatever the mode."""
    return tool is not None and dials.level(tool) == 0 and dials.level(tool) is not False


def why(tool: Tool | None, dials: Dials, passage: Passage) -> dict[str, object]:
    """What the passage was decided by, for the record and for people."""
    reasons: dict[str, object] = {"mode": dials.mode.value}
    if tool is not None:
        level = dials.level(tool)
        reasons |= {
            "level": level if isinstance(level, int) else None,
            "level_from": "business" if tool.name in dials.levels else "pack",
            "risk": tool.risk.value if tool.risk else None,
            "floor": tool.floor,
        }
    match passage:
        case Ask(confirmations=confirmations, asked=asked):
            reasons |= {"ruling": "ask", "confirmations": confirmations, "asked": asked.value}
        case Deny(code=code):
            reasons |= {"ruling": "deny", "code": code.value}
        case Allow():
            reasons["ruling"] = "allow"
    return reasons
