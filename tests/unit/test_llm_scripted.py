"""A scripted model answers by its script and by nothing else."""

import pytest

from shared.llm.port import (
    UNTOLD,
    Answer,
    AssistantCalls,
    FailureKind,
    Finish,
    ModelFailure,
    Request,
    ToolCall,
    Usage,
    UserText,
)
from shared.llm.scripted import ScriptedModel, by_conversation, in_order, read


def asking(customer: str = "", *earlier: ToolCall) -> Request:
    before = (AssistantCalls(text=None, calls=earlier),) if earlier else ()
    return Request(system="", messages=(UserText(text="Hello"), *before), tools=(), customer=customer)


@pytest.mark.parametrize(
    ("item", "answer"),
    [
        ({"text": "Hi"}, Answer(text="Hi")),
        ({"text": ""}, Answer(text="")),
        ({"finish": "length"}, Answer(text=None, finish=Finish.LENGTH)),
        ({"text": "I have", "finish": "length"}, Answer(text="I have", finish=Finish.LENGTH)),
        ({"finish": "refusal"}, Answer(text=None, finish=Finish.REFUSAL)),
        (
            {"text": "Hi", "usage": {"input": 9}, "model": "m"},
            Answer(text="Hi", usage=Usage(input=9), model="m"),
        ),
        ({"text": "Hi", "usage": None}, Answer(text="Hi", usage=UNTOLD)),
        (
            {"calls": [{"name": "book", "arguments": {"at": 10}}]},
            Answer(
                text=None, calls=(ToolCall(id="", name="book", arguments='{"at":10}'),), finish=Finish.TOOLS
            ),
        ),
        (
            {"calls": [{"name": "book", "arguments": '{"at": '}]},
            Answer(
                text=None, calls=(ToolCall(id="", name="book", arguments='{"at": '),), finish=Finish.TOOLS
            ),
        ),
    ],
)
def test_the_simplest_form_of_an_answer(item: dict, answer: Answer) -> None:
    assert read(item) == answer


@pytest.mark.parametrize("kind", FailureKind)
async def test_a_failure_is_raised_as_its_kind(kind: FailureKind) -> None:
    model = ScriptedModel(in_order([{"failure": kind.value}]))
    with pytest.raises(ModelFailure) as caught:
        await model.complete(asking(), timeout_s=1)
    assert caught.value.kind is kind


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"txt": "Hi"},
        {"finish": "done"},
        {"failure": "rain"},
        {"calls": [{"name": "book"}], "finish": "length"},
    ],
)
def test_a_script_with_a_mistake_in_it_is_refused_before_anybody_asks(item: dict) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        in_order([item])


async def test_answers_come_in_order_and_one_call_too_many_is_seen() -> None:
    model = ScriptedModel(in_order([{"text": "one"}, {"text": "two"}]))
    assert [(await model.complete(asking(), timeout_s=1)).text for _ in range(2)] == ["one", "two"]
    with pytest.raises(ModelFailure, match="no more answers"):
        await model.complete(asking(), timeout_s=1)


async def test_conversations_go_on_where_they_were_however_they_interleave() -> None:
    scripts = {"ana": [{"text": "a1"}, {"text": "a2"}], "dan": [{"text": "d1"}]}
    model = ScriptedModel(by_conversation(scripts))
    said = [(await model.complete(asking(who), timeout_s=1)).text for who in ("ana", "dan", "ana")]
    assert said == ["a1", "d1", "a2"]
    with pytest.raises(ModelFailure):
        await model.complete(asking("somebody else"), timeout_s=1)


async def test_a_script_may_look_at_the_request() -> None:
    model = ScriptedModel(lambda request: Answer(text=f"you are {request.customer}"))
    answer = await model.complete(asking("ana"), timeout_s=1)
    assert (answer.text, answer.model) == ("you are ana", "scripted")


async def test_every_call_of_a_turn_has_an_id_of_its_own() -> None:
    call = {"name": "book", "id": "1"}
    model = ScriptedModel(in_order([{"calls": [call, call]}]))
    answer = await model.complete(asking("", ToolCall(id="1", name="book", arguments="{}")), timeout_s=1)
    assert len({"1", *(each.id for each in answer.calls)}) == 3
