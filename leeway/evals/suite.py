"""Plays the scripts that were chosen: against each model those that are about models, the others once and with none."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Final

from leeway.evals.expected import Class
from leeway.evals.findings import Finding
from leeway.evals.model import NoModel, PlayedModel
from leeway.evals.playing import SETTLED_WITHIN_S, Played, Player
from leeway.evals.reading import BadScript, Loaded
from leeway.evals.record import Row
from leeway.evals.script import FIRST_GROUPS, MODEL_GROUPS
from leeway.evals.stage import Stage, stage
from shared.errors import Misconfigured
from shared.llm.configured import configured_model
from shared.llm.mock import PROVIDER as MOCK
from shared.llm.mock import MockModel
from shared.llm.port import Model
from shared.packs import Pack
from shared.settings import Settings

A_MODEL_SETTLES_WITHIN_S: Final = 180.0

Tell = Callable[[Played, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was asked for: empty means all."""

    groups: Sequence[str] = ()
    cases: Sequence[str] = ()
    packs: Sequence[str] = ()
    replay: bool = False
    repeat: int = 1

    def of(self, scripts: Sequence[Loaded]) -> list[Loaded]:
        """The scripts chosen, group by group. Raises BadScript for a name that none has."""
        _refuse_unknown("script", self.cases, {one.script.id for one in scripts})
        _refuse_unknown("group", self.groups, {one.script.group for one in scripts})
        _refuse_unknown("pack", self.packs, {one.script.pack for one in scripts})
        chosen = [one for one in scripts if self._takes(one)]
        if not chosen:
            raise BadScript("No script is chosen by all of that together.")
        places = {name: place for place, name in enumerate(FIRST_GROUPS)}
        return sorted(chosen, key=lambda one: (places.get(one.script.group, len(places)), one.script.group))

    def _takes(self, one: Loaded) -> bool:
        """A replay plays what has answers; elsewhere what must fail is not played."""
        in_this_mode = one.fixture is not None if self.replay else not one.script.deliberate
        return in_this_mode and all(
            not wanted or name in wanted
            for wanted, name in (
                (self.groups, one.script.group),
                (self.cases, one.script.id),
                (self.packs, one.script.pack),
            )
        )


@dataclass(slots=True, kw_only=True)
class Tries:
    """A script, played as often as was asked."""

    loaded: Loaded
    plays: list[Played] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Each time: pass^k."""
        return all(play.passed for play in self.plays)

    @property
    def failed(self) -> list[Finding]:
        return [finding for play in self.plays for finding in play.failed]

    @property
    def deliberate(self) -> bool:
        return bool(self.loaded.script.deliberate)


@dataclass(slots=True, kw_only=True)
class Run:
    """Scripts played with one model, or with none that is named. `skipped` says why it was not."""

    name: str
    tries: list[Tries] = field(default_factory=list)
    skipped: str | None = None

    @property
    def calls(self) -> list[Row]:
        return [call for tries in self.tries for play in tries.plays for call in play.calls]

    @property
    def answered_as(self) -> list[str]:
        return sorted({call["model_answered"] for call in self.calls if call["model_answered"]})

    @property
    def cost_usd(self) -> Decimal | None:
        """None where the cost of a call is not known."""
        costs = [call["cost_usd"] for call in self.calls]
        return None if any(cost is None for cost in costs) else sum(costs, Decimal(0))

    def latency_ms(self, percent: int) -> int | None:
        """The nearest rank among the calls that ended."""
        ended = sorted(call["latency_ms"] for call in self.calls if call["latency_ms"] is not None)
        return ended[max(0, -(-len(ended) * percent // 100) - 1)] if ended else None

    def groups(self) -> dict[str, tuple[int, int]]:
        """Group → how many passed, of how many; what must fail is not among them."""
        found: dict[str, tuple[int, int]] = {}
        for tries in self.tries:
            if not tries.deliberate:
                passed, total = found.get(tries.loaded.script.group, (0, 0))
                found[tries.loaded.script.group] = (passed + tries.passed, total + 1)
        return found

    def failures(self, cls: Class) -> int:
        return sum(one.cls is cls for tries in self.tries if not tries.deliberate for one in tries.failed)


@dataclass(slots=True, kw_only=True)
class Report:
    """What an evaluation came to."""

    choice: Choice
    engine: str
    models: list[Run] = field(default_factory=list)
    pipeline: Run | None = None  # of groups that are about no model; of a replay, everything

    @property
    def runs(self) -> list[Run]:
        return [*self.models, *([self.pipeline] if self.pipeline else [])]

    @property
    def tries(self) -> list[Tries]:
        return [tries for run in self.runs for tries in run.tries]

    @property
    def ok(self) -> bool:
        """Something was played, everything passed, and what must fail failed as it must."""
        return bool(self.tries) and all(tries.passed for tries in self.tries)


async def evaluate(
    settings: Settings,
    packs: Mapping[str, Pack],
    scripts: Sequence[Loaded],
    *,
    choice: Choice,
    models: Sequence[str],
    engine: str,
    tell: Tell,
) -> Report:
    """Play them. `tell` hears of each play when it is over, with the name of its run."""
    report = Report(choice=choice, engine=engine)
    async with stage(settings, packs) as played_on:
        suite = _Suite(played_on, choice, tell)
        if choice.replay:
            report.pipeline = Run(name="replay")
            await suite.play(scripts, PlayedModel(NoModel()), report.pipeline)
            return report
        about_models = [one for one in scripts if one.script.group in MODEL_GROUPS]
        for name in models if about_models else ():
            report.models.append(await suite.against(name, settings, about_models))
        if others := [one for one in scripts if one.script.group not in MODEL_GROUPS]:
            report.pipeline = Run(name="pipeline")
            await suite.play(others, PlayedModel(MockModel(packs)), report.pipeline)
    return report


class _Suite:
    def __init__(self, played_on: Stage, choice: Choice, tell: Tell) -> None:
        self._stage = played_on
        self._choice = choice
        self._tell = tell
        self._serial = count(1)

    async def against(self, name: str, settings: Settings, scripts: Sequence[Loaded]) -> Run:
        """The scripts with this model; without its key, the run says so."""
        run = Run(name=name)
        try:
            model = await configured_model(settings.model_copy(update={"llm": name}), self._stage.packs)
        except Misconfigured as error:
            run.skipped = str(error)
            return run
        try:
            await self.play(scripts, PlayedModel(model), run, within_s=_within_s(model))
        finally:
            await model.close()
        return run

    async def play(
        self,
        scripts: Iterable[Loaded],
        model: PlayedModel,
        run: Run,
        *,
        within_s: float = SETTLED_WITHIN_S,
    ) -> None:
        await self._stage.hire(model)
        player = Player(self._stage, replay=self._choice.replay, settled_within_s=within_s)
        for loaded in scripts:
            tries = Tries(loaded=loaded)
            run.tries.append(tries)
            for _ in range(self._choice.repeat):
                played = await player.play(loaded, slug=f"{loaded.script.id}-{next(self._serial)}")
                tries.plays.append(played)
                self._tell(played, run.name)


def _within_s(model: Model) -> float:
    return SETTLED_WITHIN_S if model.provider == MOCK else A_MODEL_SETTLES_WITHIN_S


def _refuse_unknown(what: str, wanted: Sequence[str], known: set[str]) -> None:
    if unknown := [one for one in wanted if one not in known]:
        raise BadScript(f"There is no {what} {', '.join(unknown)}; there are {', '.join(sorted(known))}.")
