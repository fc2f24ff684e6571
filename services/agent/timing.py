"""How long turns under way have waited for models: what is left of a turn's time is ours."""

from shared.ids import TurnId


class ModelTime:
    """One a process. A turn's time is forgotten when it is taken."""

    def __init__(self) -> None:
        self._seconds: dict[TurnId, float] = {}

    def add(self, turn: TurnId, seconds: float) -> None:
        self._seconds[turn] = self._seconds.get(turn, 0.0) + seconds

    def take(self, turn: TurnId) -> float:
        """Seconds so far, once."""
        return self._seconds.pop(turn, 0.0)
