"""Who answers for the model: the source, a script in its place, or nobody in time."""

import asyncio

import pytest

from leeway.evals.model import NoModel, PlayedModel
from shared.llm.port import ModelFailure, Request, UserText
from shared.llm.scripted import ScriptedModel, in_order

REQUEST = Request(system="", messages=[UserText(text="Hello")], tools=[])


async def asked(model: PlayedModel) -> str | None:
    return (await model.complete(REQUEST, timeout_s=1)).text


async def test_the_source_answers_unless_answers_are_given() -> None:
    model = PlayedModel(ScriptedModel(in_order([{"text": "one"}, {"text": "two"}])))
    assert await asked(model) == "one"
    model.give([{"text": "mine"}])
    assert await asked(model) == "mine"
    model.give(None)
    assert await asked(model) == "two"
    assert model.told() is None
    assert (model.provider, model.name) == ("scripted", "scripted")


async def test_a_call_too_many_is_refused_and_told() -> None:
    model = PlayedModel(NoModel())
    model.give([{"text": "mine"}])
    await asked(model)
    with pytest.raises(ModelFailure):
        await asked(model)
    assert model.told() == "the model was asked 1 times more than there are answers"


async def test_an_answer_that_nobody_asked_for_is_told() -> None:
    model = PlayedModel(NoModel())
    model.give([{"text": "one"}, {"text": "two"}])
    await asked(model)
    assert model.told() == "1 of the answers were not asked for"


async def test_a_failure_is_given_as_one() -> None:
    model = PlayedModel(NoModel())
    model.give([{"failure": "server"}])
    with pytest.raises(ModelFailure, match="server"):
        await asked(model)


async def test_without_a_model_every_call_is_refused() -> None:
    with pytest.raises(ModelFailure):
        await asked(PlayedModel(NoModel()))


async def test_one_call_hangs_and_the_next_is_answered() -> None:
    model = PlayedModel(NoModel())
    model.give([{"text": "mine"}])
    hung = model.hang()
    call = asyncio.create_task(asked(model))
    await hung.wait()
    assert await asked(model) == "mine"
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_it_outlives_the_workers_that_ask_it() -> None:
    class Source(NoModel):
        closed = False

        async def close(self) -> None:
            self.closed = True

    source = Source()
    await PlayedModel(source).close()
    assert not source.closed
