"""How long quiet hours last. Pure; dispatch lets reminders wait by it, and the agent makes none that would come too late."""

from datetime import UTC, datetime, time, timedelta


def quiet_for(local_now: datetime, begins: time, ends: time) -> timedelta | None:
    """How long the quiet hours last from now; None outside them. They may run over midnight; the same twice is none."""
    at = local_now.time()
    inside = begins <= at < ends if begins <= ends else at >= begins or at < ends
    if not inside:
        return None
    over = local_now.replace(hour=ends.hour, minute=ends.minute, second=0, microsecond=0)
    if over <= local_now:
        over += timedelta(days=1)
    return over.astimezone(UTC) - local_now.astimezone(UTC)
