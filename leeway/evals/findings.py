"""What a check found: whether it holds, what it means if not, and one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from leeway.evals.expected import Check, Class


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    check: Check
    holds: bool
    cls: Class
    told: str  # what was expected and what was found
    step: int | None = None  # from 1; None: at the end


def failures(findings: Sequence[Finding]) -> list[Finding]:
    return [one for one in findings if not one.holds]
