"""Two families of failure, told apart in one place: try it again, or never try it again.

Unavailable      what we depend on is away (database, broker, provider): hold the work and try again; never an attempt
Unusable         this input can't be worked, now or later: among the dead, with the reason
Misconfigured    what a person set is wrong: said at start, in one message that names the setting
Anything else    is a bug: it counts as an attempt, and ends among the dead
"""


class LeewayError(Exception):
    """The root of our own errors; its text is a sentence for people."""


class Unavailable(LeewayError):
    """The database, the broker or a provider can't be reached just now."""


class Unusable(LeewayError):
    """The input can't be worked, however often it is tried."""


class Misconfigured(LeewayError):
    """A setting is missing, wrong, or at odds with another."""


class Conflict(Unavailable):
    """Two transactions stood in each other's way (40001, 40P01) more often than we are willing to repeat."""


class NotPublished(Unavailable):
    """The broker did not confirm in time, refused, or had no queue for it. The row owes the work anyway."""


class ConstraintRefused(LeewayError):
    """A constraint of the schema refused a write; `constraint` is its name."""

    def __init__(self, constraint: str) -> None:
        super().__init__(f"refused by {constraint}")
        self.constraint = constraint


def reason_of(error: Exception) -> str:
    """What it says of itself; its kind where it says nothing."""
    return str(error) or type(error).__name__


def kind_and_reason(error: Exception) -> str:
    """Both; its kind alone where it says nothing, as a time-out does."""
    return ": ".join(filter(None, (type(error).__name__, str(error))))
