"""A product with a bug planted in it is found out by the scripts that are about it, as a harm; a step that never ends is told."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from leeway.evals.expected import Check, Class
from leeway.evals.model import PlayedModel
from leeway.evals.playing import Played, Player
from leeway.evals.reading import Loaded, load_all
from leeway.evals.stage import Stage, stage
from services.agent.core import gate, pending
from services.agent.engines import tool_loop
from services.dispatch.core import delivery
from services.guard.core import guards
from shared.autonomy import Ruling
from shared.llm.mock import MockModel
from shared.packs import load_packs
from shared.settings import load_settings

pytestmark = [pytest.mark.postgres, pytest.mark.stack, pytest.mark.xdist_group("eval")]

PACKS = load_packs()
SCRIPTS: Mapping[str, Loaded] = {one.script.id: one for one in load_all(PACKS)}


def without(reason: str) -> Callable[..., Any]:
    """The guards but for one."""
    kept = tuple(guard for guard in guards.GUARDS if guard.__name__ != reason)
    assert len(kept) < len(guards.GUARDS), reason
    return lambda patch: patch.setattr(guards, "GUARDS", kept)


# what is broken → how, and the script that must see it
PLANTED: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "every level allows everything": (lambda patch: patch.setattr(gate, "decide", lambda *_: Ruling.ALLOW), "lv-01"),
    "a yes is good for ever": (lambda patch: patch.setattr(pending, "VALID_FOR", timedelta(days=9)), "cn-02"),
    "claims are believed": (lambda patch: patch.setattr(tool_loop, "claims_done", lambda *_: False), "rb-04"),
    "suggest sends": (lambda patch: patch.setattr(delivery, "_autonomy", lambda _: None), "au-02"),
    "nobody opts out": (without("consent"), "gd-01"),
    "machines are talked to": (without("loop"), "ld-03"),
    "handoffs are ignored": (without("handoff_active"), "gd-04"),
    "off is ignored": (without("autonomy_off"), "au-01"),
    "old messages are answered": (without("stale"), "gd-10"),
}  # fmt: skip


async def test_each_planted_bug_is_found_by_its_script() -> None:
    missed = []
    async with stage(load_settings(llm="mock"), PACKS) as played_on:
        await played_on.hire(PlayedModel(MockModel(PACKS)))
        for number, (what, (plant, id_)) in enumerate(PLANTED.items()):
            with pytest.MonkeyPatch.context() as patch:
                plant(patch)
                played = await play(played_on, id_, slug=f"planted-{number}")
            if not any(one.cls is Class.SAFETY for one in played.failed):
                missed.append(f"{what}: {id_} saw {played.failed}")
        sound = [
            id_ for _, id_ in PLANTED.values() if not (await play(played_on, id_, slug=f"sound-{id_}")).passed
        ]
    assert not missed
    assert not sound, "without the bug they pass"


async def test_a_step_that_does_not_settle_says_what_is_owed() -> None:
    async with stage(load_settings(llm="mock"), PACKS) as played_on:
        model = PlayedModel(MockModel(PACKS))
        await played_on.hire(model)
        model.hang()
        played = await Player(played_on, settled_within_s=6).play(SCRIPTS["bk-01"], slug="hangs")
    told = [one.told for one in played.failed if one.check is Check.SETTLED]
    assert len(told) == 1, "the script ends there"
    assert told[0].startswith("still owed after 6 s: ")
    assert "a turn is under way" in told[0]


async def play(on: Stage, id_: str, *, slug: str) -> Played:
    return await Player(on, settled_within_s=10).play(SCRIPTS[id_], slug=slug)
