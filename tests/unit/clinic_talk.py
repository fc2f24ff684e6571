"""A conversation with the clinic's mock model, as turns would lead it: the real tools over a fake diary."""

import json
from collections.abc import Sequence

from packs.clinic import PACK
from packs.clinic.facts import Busy
from packs.clinic.prompt import prompt_facts
from shared.llm.port import (
    Answer,
    AssistantCalls,
    AssistantText,
    Finish,
    Message,
    Request,
    ToolResult,
    ToolSpec,
    UserText,
)
from shared.packs import Established, Proposal, ToolContext
from tests.unit.clinic_demo import Booked, context

TOOLS = {tool.name: tool for tool in PACK.tools}
SPECS = [
    ToolSpec(name=tool.name, description=tool.description, parameters=tool.arguments.model_json_schema())
    for tool in PACK.tools
]


class Talk:
    """A conversation with the mock: `called` is what it asked of the tools, `said` our last text."""

    def __init__(
        self,
        locale: str = "en",
        taken: Sequence[Busy] = (),
        mine: Sequence[Booked] = (),
        name: str | None = None,
    ) -> None:
        self.messages: list[Message] = []
        self.called: list[tuple[str, dict[str, str]]] = []
        self._locale, self._taken, self._mine, self._name = locale, taken, mine, name

    @property
    def said(self) -> str:
        last = self.messages[-1]
        assert isinstance(last, AssistantText)
        return last.text

    @property
    def asked(self) -> list[tuple[str, dict[str, str]]]:
        """The calls that would change something."""
        return [(name, arguments) for name, arguments in self.called if TOOLS[name].check]

    async def hear(self, *texts: str) -> str:
        """One turn: what the customer writes, the calls that follow, and our answer."""
        self.messages += [UserText(text=text) for text in texts]
        working = list(self.messages)
        for _ in range(4):
            answer = await self._answer(working)
            if answer.text is not None:
                return self.say(answer.text)
            working += [AssistantCalls(text=None, calls=answer.calls)]
            prompt = await self._run(answer, working, "\n".join(texts))
            if prompt:
                return self.say(prompt)
        raise AssertionError("four calls and no answer")

    def say(self, text: str) -> str:
        """Something that our side says."""
        self.messages.append(AssistantText(text=text))
        return text

    def _context(self, said: str = "") -> ToolContext:
        return context(locale=self._locale, taken=self._taken, mine=self._mine, name=self._name, said=said)

    async def _answer(self, messages: Sequence[Message]) -> Answer:
        system = f"You are the assistant.\n\n{await prompt_facts(self._context())}\n\nRules follow."
        answer = PACK.mock_answer(Request(system=system, messages=messages, tools=SPECS))
        assert answer.finish is (Finish.TOOLS if answer.calls else Finish.END)
        return answer

    async def _run(self, answer: Answer, working: list[Message], said: str) -> str | None:
        (call,) = answer.calls
        self.called.append((call.name, json.loads(call.arguments)))
        tool = TOOLS[call.name]
        arguments = tool.arguments.model_validate_json(call.arguments)
        run = tool.read or tool.check
        assert run
        outcome = await run(self._context(said), arguments)
        if isinstance(outcome, Proposal):
            assert tool.word_prompt
            return f"{tool.word_prompt(outcome.shown, self._locale)} Reply YES to confirm or NO to leave it."
        told = (
            dict(outcome.data)
            if isinstance(outcome, Established)
            else {"error": outcome.code, **outcome.detail}
        )
        working.append(ToolResult(call_id=call.id, name=call.name, content=json.dumps(told)))
        return None
