"""Every provider through the real openai client and real HTTP: each enforces its own rules, all must be told the same."""

import asyncio
import contextlib
import json
import logging
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from decimal import Decimal

import pytest
from pydantic import SecretStr
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from shared.llm.costs import price_source
from shared.llm.endpoint import EndpointModel
from shared.llm.port import (
    Answer,
    AssistantCalls,
    FailureKind,
    Finish,
    Message,
    ModelFailure,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserText,
)
from shared.telemetry.health import server
from tests.support.llm_providers import KEY, PROVIDERS, Provider, Wanted

WITHIN_S = 20
FIND_SLOTS = ToolSpec(
    name="find_slots",
    description="Free times",
    parameters={
        "additionalProperties": False,
        "properties": {
            "day": {"maxLength": 10, "pattern": r"^20\d\d-\d\d-\d\d$", "type": "string"},
            "dentist": {"anyOf": [{"maxLength": 80, "type": "string"}, {"type": "null"}], "default": None},
            "limit": {"default": 3, "minimum": 1, "type": "integer"},
        },
        "required": ["day"],
        "type": "object",
    },
)
HOURS = ToolSpec(
    name="opening_hours",
    description="When we are open",
    parameters={"additionalProperties": False, "properties": {}, "type": "object"},
)
QUESTION = Request(
    system="You answer for a dentist.",
    messages=(UserText(text="Aș dori o programare luni."),),
    tools=(FIND_SLOTS, HOURS),
    cache_key="acme:1",
    customer="a-hash",
)
CHAT = [name for name in PROVIDERS if name != "openai"]

every_provider = pytest.mark.parametrize("name", PROVIDERS)
every_chat = pytest.mark.parametrize("name", CHAT)


class House:
    """One server for all tests of the module, in which the provider of the moment answers."""

    address = ""
    provider: Provider | None = None

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        assert self.provider is not None, "nobody lives here now"
        await self.provider(scope, receive, send)


HOUSE = House()


@pytest.fixture(scope="module", autouse=True)
async def house() -> AsyncIterator[None]:
    http = server(HOUSE, host="127.0.0.1", port=0)
    serving = asyncio.ensure_future(http.serve())
    while not http.started:
        await asyncio.sleep(0)
    HOUSE.address = http.address
    yield
    http.should_exit = True
    await serving


@contextlib.asynccontextmanager
async def asked(provider: Provider, *, model: str | None = None) -> AsyncIterator[EndpointModel]:
    """The configured model of a provider that serves on a free port."""
    provider.model = model or provider.model
    HOUSE.provider = provider
    endpoint = EndpointModel(
        provider.profile,
        provider.model,
        api_key=SecretStr(KEY),
        slots=4,
        base_url=f"{HOUSE.address}/v1",
    )
    try:
        yield endpoint
    finally:
        await endpoint.close()


async def answer_of(provider: Provider, response: Response, request: Request = QUESTION) -> Answer:
    provider.answers.append(response)
    async with asked(provider) as model:
        return await model.complete(request, timeout_s=WITHIN_S)


async def failure_of(provider: Provider, *responses: Response) -> ModelFailure:
    provider.answers += responses
    async with asked(provider) as model:
        with pytest.raises(ModelFailure) as caught:
            await model.complete(QUESTION, timeout_s=WITHIN_S)
    return caught.value


def after(request: Request, answer: Answer, *results: str) -> Request:
    """The next request of the turn: the answer as it came, and a result for each of its calls."""
    told: list[Message] = [AssistantCalls(text=answer.text, calls=answer.calls, raw=answer.raw)]
    told += [
        ToolResult(call_id=call.id, name=call.name, content=result)
        for call, result in zip(answer.calls, results, strict=True)
    ]
    return replace(request, messages=(*request.messages, *told))


# A conversation with tools

FIRST: list[Wanted] = [
    ("c1", "find_slots", {"day": "2026-12-07", "dentist": None}),
    ("c2", "opening_hours", {}),
]
SECOND: list[Wanted] = [("c1", "find_slots", {"day": "2026-12-08"})]  # an id that was taken before


@every_provider
async def test_two_rounds_of_tools_and_an_answer_keep_every_rule(name: str) -> None:
    provider = PROVIDERS[name]()
    first = FIRST[:1] if name in ("openai", "openai-chat") else FIRST  # they are asked for one call at a time
    async with asked(provider) as model:
        provider.answers = [provider.calls(*first)]
        one = await model.complete(QUESTION, timeout_s=WITHIN_S)
        assert one.finish is Finish.TOOLS
        assert [(call.name, json.loads(call.arguments)) for call in one.calls] == [
            (tool, arguments) for _, tool, arguments in first
        ]
        request = after(QUESTION, one, *['{"slots":[]}', '{"error":"not_allowed"}'][: len(first)])

        second = SECOND if name != "openai" else [("c9", *SECOND[0][1:])]
        provider.answers = [provider.calls(*second)]
        two = await model.complete(request, timeout_s=WITHIN_S)
        request = after(request, two, '{"slots":["10:00"]}')

        provider.answers = [provider.says("Luni e plin, marți la 10:00 e liber.")]
        three = await model.complete(request, timeout_s=WITHIN_S)
    assert (three.text, three.finish) == ("Luni e plin, marți la 10:00 e liber.", Finish.END)
    assert len(provider.asked) == 3, "nothing had to be said twice"


@every_chat
@pytest.mark.parametrize("ids", [("", ""), ("x", "x"), (None, None)])
async def test_calls_without_ids_of_their_own_are_answered_each_by_its_own(
    name: str, ids: tuple[str, str]
) -> None:
    provider = PROVIDERS[name]()
    wanted = [(ids[0], "find_slots", {"day": "2026-12-07"}), (ids[1], "find_slots", {"day": "2026-12-08"})]
    async with asked(provider) as model:
        provider.answers = [provider.calls(*wanted), provider.says("ok")]
        one = await model.complete(QUESTION, timeout_s=WITHIN_S)
        await model.complete(after(QUESTION, one, '"seven"', '"eight"'), timeout_s=WITHIN_S)
    sent = provider.asked[1]["messages"]
    calls = next(message["tool_calls"] for message in sent if message.get("tool_calls"))
    results = {message["tool_call_id"]: message["content"] for message in sent if message["role"] == "tool"}
    told = {json.loads(call["function"]["arguments"])["day"]: results[call["id"]] for call in calls}
    assert told == {"2026-12-07": '"seven"', "2026-12-08": '"eight"'}


async def test_thinking_goes_back_even_when_it_is_empty_and_is_never_said() -> None:
    provider = PROVIDERS["deepseek"]()
    async with asked(provider) as model:
        for thought in ("", "abc"):
            provider.adorn = lambda message, thought=thought: message | {"reasoning_content": thought}
            provider.answers = [provider.calls(*SECOND), provider.says("Free at 10.")]
            one = await model.complete(QUESTION, timeout_s=WITHIN_S)
            two = await model.complete(after(QUESTION, one, "{}"), timeout_s=WITHIN_S)
            assert (one.text, two.text) == (None, "Free at 10.")


@every_chat
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<think>She wants Monday.</think>\n\nFree at 10.", "Free at 10."),
        ("She wants Monday.</think>Free at 10.", "Free at 10."),
        ("<think>She wants Monday, so", None),
        ([{"type": "thinking", "thinking": [{"text": "Hm."}]}, {"type": "text", "text": "Free."}], "Free."),
        ([{"type": "reasoning", "text": "Hm."}], None),
    ],
)
async def test_thinking_inside_the_content_is_no_part_of_the_text(
    name: str, content: object, text: str | None
) -> None:
    provider = PROVIDERS[name]()
    assert (await answer_of(provider, provider.says(content))).text == text


async def test_nulls_that_openai_had_to_give_do_not_reach_the_tool() -> None:
    provider = PROVIDERS["openai"]()
    told = provider.calls(("c1", "find_slots", {"day": "2026-12-07", "dentist": None, "limit": None}))
    answer = await answer_of(provider, told)
    assert json.loads(answer.calls[0].arguments) == {"day": "2026-12-07", "dentist": None}


@every_provider
@pytest.mark.parametrize("arguments", ['{"date": "2026-12-07", ', "{appointment: 17}", "[]", "7"])
async def test_broken_arguments_are_handed_on_as_they_came_and_repaired_by_nobody(
    name: str, arguments: str
) -> None:
    provider = PROVIDERS[name]()
    body = json.loads(provider.calls(("c1", "find_slots", {"MARK": 1})).body)
    text = json.dumps(body).replace(json.dumps(json.dumps({"MARK": 1})), json.dumps(arguments))
    answer = await answer_of(provider, JSONResponse(json.loads(text)))
    assert answer.calls == (ToolCall(id="c1", name="find_slots", arguments=arguments),)


@every_provider
async def test_a_tool_that_is_not_there_is_handed_on_by_its_name(name: str) -> None:
    provider = PROVIDERS[name]()
    answer = await answer_of(provider, provider.calls(("c1", "bookAppointmentV2", {})))
    assert [call.name for call in answer.calls] == ["bookAppointmentV2"]


@every_provider
async def test_a_request_without_tools_breaks_no_rule_either(name: str) -> None:
    provider = PROVIDERS[name]()
    answer = await answer_of(provider, provider.says("Hi"), replace(QUESTION, tools=()))
    assert (answer.text, len(provider.asked)) == ("Hi", 1)


# Endings


@every_provider
@pytest.mark.parametrize(
    ("ending", "finish"),
    [
        (lambda provider: provider.cut("Bună, am"), Finish.LENGTH),
        (lambda provider: provider.filtered(), Finish.FILTER),
        (lambda provider: provider.refuses(), Finish.REFUSAL),
        (lambda provider: provider.says(None), Finish.END),
    ],
    ids=["cut off", "filtered", "refused", "empty"],
)
async def test_how_an_answer_ended_is_told(
    name: str, ending: Callable[[Provider], Response], finish: Finish
) -> None:
    provider = PROVIDERS[name]()
    answer = await answer_of(provider, ending(provider))
    assert (answer.finish, answer.calls) == (finish, ())


@every_provider
async def test_half_a_call_of_an_answer_that_was_cut_off_is_none(name: str) -> None:
    provider = PROVIDERS[name]()
    body = json.loads(provider.calls(*SECOND).body)
    if "choices" in body:
        body["choices"][0]["finish_reason"] = "length"
    else:
        body |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    answer = await answer_of(provider, JSONResponse(body))
    assert (answer.finish, answer.calls) == (Finish.LENGTH, ())


@pytest.mark.parametrize("reason", ["SAFETY", "content_filter: PROHIBITED_CONTENT", "RECITATION"])
async def test_gemini_s_own_words_for_a_filter_are_known(reason: str) -> None:
    provider = PROVIDERS["gemini"]()
    assert (await answer_of(provider, provider.says(None, reason=reason))).finish is Finish.FILTER


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gemini", "function_call_filter: MALFORMED_FUNCTION_CALL"),
        ("gemini", "MALFORMED_FUNCTION_CALL"),
        ("deepseek", "insufficient_system_resource"),
        ("openai-compatible", "abort"),
    ],
)
async def test_an_answer_that_broke_off_is_worth_another_try(name: str, reason: str) -> None:
    provider = PROVIDERS[name]()
    assert (await failure_of(provider, provider.says(None, reason=reason))).kind is FailureKind.BAD_ANSWER


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "m"}}, FailureKind.SERVER),
        ({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "m"}}, FailureKind.RATE),
        ({"status": "failed", "error": None}, FailureKind.BAD_ANSWER),
        ({"status": "in_progress", "output": []}, FailureKind.BAD_ANSWER),
        ({"status": "cancelled", "output": []}, FailureKind.BAD_ANSWER),
        ({"status": "completed"}, FailureKind.BAD_ANSWER),
        ({"status": "completed", "output": [7]}, FailureKind.BAD_ANSWER),
        ({"output": [{"type": "function_call", "call_id": "a"}]}, FailureKind.BAD_ANSWER),
    ],
)
async def test_a_response_that_is_none(body: dict, kind: FailureKind) -> None:
    failed = await failure_of(PROVIDERS["openai"](), JSONResponse(body | {"usage": {"input_tokens": 9}}))
    assert (failed.kind, failed.usage.input) == (kind, 9)


async def test_reasoning_that_nobody_stored_is_not_sent_back_by_its_id() -> None:
    provider = PROVIDERS["openai"]()
    body = json.loads(provider.calls(*SECOND).body)
    del body["output"][0]["encrypted_content"]
    provider.answers = [JSONResponse(body), provider.says("ok")]
    async with asked(provider) as model:
        one = await model.complete(QUESTION, timeout_s=WITHIN_S)
        assert (await model.complete(after(QUESTION, one, "{}"), timeout_s=WITHIN_S)).text == "ok"


@pytest.mark.parametrize(("stored_by", "told_to"), [("deepseek", "openai"), ("openai", "deepseek")])
async def test_an_answer_of_another_interface_is_told_anew(stored_by: str, told_to: str) -> None:
    """The installation's model was changed in the middle of a turn."""
    before, now = PROVIDERS[stored_by](), PROVIDERS[told_to]()
    now.check = lambda body: None
    one = await answer_of(before, before.calls(*SECOND))
    assert (await answer_of(now, now.says("ok"), after(QUESTION, one, "{}"))).text == "ok"


# Tokens and money


@pytest.mark.parametrize(
    ("name", "cached", "dollars"),
    [
        ("openai", 1500, "0.00014"),
        ("openai-chat", 1500, "0.00014"),
        ("gemini", 0, "0.000975"),
        ("deepseek", 1500, None),
        ("anthropic", 0, "0.000275"),
        ("openai-compatible", 0, None),
    ],
)
async def test_tokens_are_read_where_the_provider_keeps_them_and_priced(
    name: str, cached: int, dollars: str | None
) -> None:
    provider = PROVIDERS[name]()
    provider.answers.append(provider.says("Hi"))
    async with asked(provider) as model:
        answer = await model.complete(QUESTION, timeout_s=WITHIN_S)
        price = model.price(answer.usage, model=answer.model)
        source = price_source(model, answered=answer.model)
    assert (answer.usage.input, answer.usage.cached, answer.usage.output) == (2000, cached, 150)
    if dollars is not None:
        assert price == Decimal(dollars)
    assert (price is None, source is None) == (name == "openai-compatible",) * 2


@every_provider
async def test_the_name_that_answered_is_kept(name: str) -> None:
    provider = PROVIDERS[name]()
    provider.answered_as = "another-model-2026-12-01"
    assert (await answer_of(provider, provider.says("Hi"))).model == "another-model-2026-12-01"


@every_provider
async def test_a_usage_that_was_not_told_makes_the_cost_unknown_and_not_nothing(name: str) -> None:
    provider = PROVIDERS[name]()
    provider.answers.append(provider.untold("Hello"))
    async with asked(provider) as model:
        answer = await model.complete(QUESTION, timeout_s=WITHIN_S)
        assert answer.text == "Hello"
        assert not answer.usage.told
        assert model.price(answer.usage, model=answer.model) is None


@every_chat
async def test_a_usage_inside_the_choice_is_found(name: str) -> None:
    provider = PROVIDERS[name]()
    body = json.loads(provider.says("Hello").body)
    body["choices"][0]["usage"] = {"prompt_tokens": 10, "completion_tokens": 5}
    del body["usage"]
    usage = (await answer_of(provider, JSONResponse(body))).usage
    assert (usage.input, usage.output) == (10, 5)


async def test_a_server_that_read_only_a_part_of_it_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    provider = PROVIDERS["openai-compatible"]()
    provider.usage = {"prompt_tokens": 4096, "completion_tokens": 5}
    long = replace(QUESTION, system="You answer for a dentist. " * 3000)
    assert (await answer_of(provider, provider.says("Hi"), long)).text == "Hi"
    assert "raise its context length" in capsys.readouterr().out


# Failures


@every_provider
@pytest.mark.parametrize(
    "response",
    [
        HTMLResponse("<html>Welcome to nginx</html>"),
        JSONResponse({"choices": [], "usage": None}),
        JSONResponse({"choices": None}),
        JSONResponse({"choices": None, "output": None}),
        Response(""),
        Response("\n\n\n"),
        JSONResponse([{"error": {"code": 503, "message": "busy"}}]),
    ],
    ids=["html", "no choices", "null choices", "null output", "nothing", "blank lines", "a list"],
)
async def test_a_200_without_an_answer_is_a_bad_answer(name: str, response: Response) -> None:
    assert (await failure_of(PROVIDERS[name](), response)).kind is FailureKind.BAD_ANSWER


@every_provider
async def test_a_rate_limit_says_how_long_to_wait(name: str) -> None:
    provider = PROVIDERS[name]()
    failed = await failure_of(provider, provider.error(429, "slow down", code="rate_limit", retry_after="7"))
    assert (failed.kind, failed.retry_after_s, len(provider.asked)) == (FailureKind.RATE, 7.0, 1)


@every_provider
@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (429, "insufficient_quota", "You exceeded your current quota"),
        (400, "invalid_request_error", "Your credit balance is too low to access the API"),
        (400, None, "API key not valid. Please pass a valid API key."),
        (402, None, "Insufficient Balance"),
        (401, None, "Incorrect API key provided"),
    ],
)
async def test_an_empty_account_or_a_wrong_key_is_for_a_person_to_settle_and_is_asked_once(
    name: str, status: int, code: str | None, message: str
) -> None:
    provider = PROVIDERS[name]()
    failed = await failure_of(provider, provider.error(status, message, code=code))
    assert (failed.kind, len(provider.asked)) == (FailureKind.AUTH, 1)


@every_provider
@pytest.mark.parametrize(
    ("status", "kind"), [(500, FailureKind.SERVER), (404, FailureKind.GONE), (422, FailureKind.REFUSED)]
)
async def test_other_failures_are_told_apart(name: str, status: int, kind: FailureKind) -> None:
    provider = PROVIDERS[name]()
    assert (
        await failure_of(provider, provider.error(status, "Internal server error req_011TEST"))
    ).kind is kind


@every_provider
async def test_a_drip_that_never_ends_is_cut_as_a_whole(name: str) -> None:
    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b"\n"
            await asyncio.sleep(0.005)

    provider = PROVIDERS[name]()
    provider.answers.append(StreamingResponse(drip(), media_type="application/json"))
    async with asked(provider) as model:
        with pytest.raises(ModelFailure) as caught:
            await model.complete(QUESTION, timeout_s=0.2)
    assert caught.value.kind is FailureKind.TIMEOUT


REFUSABLE = [
    ("openai", "temperature"),
    ("openai", "reasoning"),
    ("openai", "prompt_cache_key"),
    ("openai-chat", "safety_identifier"),
    ("gemini", "reasoning_effort"),
    ("deepseek", "temperature"),
    ("deepseek", "thinking"),
    ("anthropic", "temperature"),
    ("openai-compatible", "temperature"),
]


@pytest.mark.parametrize(("name", "parameter"), REFUSABLE)
async def test_a_parameter_that_is_refused_is_left_out_at_once_and_from_then_on(
    name: str, parameter: str
) -> None:
    provider = PROVIDERS[name]()
    provider.fields -= {parameter}
    provider.check = lambda body: None
    provider.answers = [provider.says("one"), provider.says("two")]
    async with asked(provider) as model:
        assert (await model.complete(QUESTION, timeout_s=WITHIN_S)).text == "one"
        assert (await model.complete(QUESTION, timeout_s=WITHIN_S)).text == "two"
    assert [parameter in body for body in provider.asked] == [True, False, False]


async def test_a_strict_schema_that_openai_refuses_goes_out_as_it_is() -> None:
    provider = PROVIDERS["openai"]()
    refusal = provider.error(400, "Invalid schema for function 'find_slots'", param="tools[0].parameters")
    provider.answers = [refusal, provider.says("Hi")]
    provider.check = lambda body: None
    async with asked(provider) as model:
        assert (await model.complete(QUESTION, timeout_s=WITHIN_S)).text == "Hi"
    [tool, _] = provider.asked[1]["tools"]
    assert (tool["strict"], tool["parameters"]) == (False, FIND_SLOTS.parameters)


async def test_a_model_that_cannot_be_told_not_to_think_gets_room_for_it() -> None:
    provider = PROVIDERS["openai"]()
    provider.fields -= {"reasoning", "temperature"}
    provider.check = lambda body: None
    provider.answers = [provider.says("Hi")]
    async with asked(provider) as model:
        await model.complete(QUESTION, timeout_s=WITHIN_S)
        assert model.reasoning_room > 0
    assert provider.asked[-1]["max_output_tokens"] == 600 + model.reasoning_room


@pytest.mark.parametrize(
    ("name", "model", "sent"),
    [
        ("openai", "gpt-4.1-mini", {"temperature": 0.2}),
        ("openai", "gpt-5.6-luna", {"temperature": 0.2, "reasoning": {"effort": "none"}}),
        ("openai", "gpt-5-mini", {"reasoning": {"effort": "minimal"}}),
        ("openai", "o4-mini", {"reasoning": {"effort": "low"}}),
        ("openai-chat", "gpt-6.1-terra", {"temperature": 0.2, "reasoning_effort": "none"}),
        ("openai-chat", "gpt-4o-mini", {"temperature": 0.2}),
        ("gemini", "gemini-2.5-flash-lite", {"temperature": 0.2, "reasoning_effort": "none"}),
        ("gemini", "gemini-3.8-flash", {"reasoning_effort": "low"}),
        ("deepseek", "deepseek-flash", {"temperature": 0.2, "thinking": {"type": "disabled"}}),
        ("anthropic", "claude-haiku-5-5", {"temperature": 0.2}),
    ],
)
async def test_each_model_is_asked_in_its_own_way(name: str, model: str, sent: dict) -> None:
    provider = PROVIDERS[name]()
    provider.check = lambda body: None
    provider.answers = [provider.says("Hi")]
    async with asked(provider, model=model) as endpoint:
        await endpoint.complete(QUESTION, timeout_s=WITHIN_S)
    words = ("temperature", "reasoning", "reasoning_effort", "thinking")
    assert {word: provider.asked[0][word] for word in words if word in provider.asked[0]} == sent


# Secrets


@every_provider
@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
async def test_no_key_and_no_word_of_a_customer_in_a_failure_or_a_log(
    name: str, status: int, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    provider = PROVIDERS[name]()
    provider.answers.append(provider.error(status, f"Incorrect API key: {KEY}", code=KEY, param=KEY))
    async with asked(provider) as model:
        with pytest.raises(ModelFailure) as caught:
            await model.complete(QUESTION, timeout_s=WITHIN_S)
        shown = repr(model) + repr(caught.value) + repr(vars(caught.value)) + caplog.text
    shown += "".join(traceback.format_exception(caught.value)) + "".join(capsys.readouterr())
    assert KEY[:14] not in shown
    assert "programare" not in shown
