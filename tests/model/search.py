"""An explicit-state search of one conversation: three messages, one guard, two agents, two dispatchers, any two faults.

What is decided in code is the product's own: guards and record, take, match and meet, decide, settle. What is decided
in SQL is mirrored in rows.py. Each move is one committed statement (or the provider's call); a fault is a crash, a lease
that lapses under a live worker, or a send given up while its worker lives. Stale looks need no fault: between a look
and its record anything may happen.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from functools import cache
from typing import NamedTuple
from uuid import UUID

from services.agent.core.confirmation import match
from services.agent.core.heard import Heard, take
from services.agent.core.pending import (
    Confirmed,
    Declined,
    NewRequest,
    NoLongerOpen,
    PromptIsTheAnswer,
    Recheck,
    Repeat,
    WaitForPrompt,
    meet,
)
from services.agent.core.turn import Pending, Prompt, PromptState, WaitsFor
from services.dispatch.core import delivery
from services.dispatch.core.outcome import Accepted, GivenBack, OptedOut
from services.dispatch.core.outcome import settle as settled
from services.guard.core.amending import Amended, Concerned, Known, amend
from services.guard.core.guards import in_order, judge
from services.guard.core.record import Case, record
from services.guard.core.record import Row as GuardRow
from services.guard.core.verdict import Facts, Unjudged
from services.guard.core.verdict import Judgement as GuardJudgement
from shared.autonomy import Asked, Mode
from shared.channels.traits import Traits
from shared.ids import (
    AccountId,
    ActionId,
    BusinessId,
    ConversationId,
    MessageId,
    OutboundId,
)
from shared.locales import load
from shared.messages import MessageKind, Verdict
from tests.model import rows
from tests.model.rows import Action, Out, Row

NOW = datetime(2026, 12, 3, 8, tzinfo=UTC)
LOCALES = (load("en"), load("ro"))
REQUEST, YES, OTHER = 0, 1, 2
TEXTS = {REQUEST: "book a cleaning tomorrow at 10", YES: "I confirm"}
OTHERS = {"stop": "STOP", "more": "and where are you?", "edit": "book a cleaning tomorrow at 11"}
FINAL = ("sent", "superseded", "discarded")
PROMPT_STATES = {"sending": PromptState.SENDING, "sent": PromptState.SENT, "unknown": PromptState.UNKNOWN,
                 "queued": PromptState.QUEUED, "draft": PromptState.DRAFT}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the protocol keeps to; each turned off is a planted bug."""

    fencing: bool = True
    guard_compares: bool = True
    guard_subtracts: bool = True
    waits_for_guard: bool = True
    dispatch_compares: bool = True
    order_by_seq: bool = True
    waits_for_sending: bool = True
    superseded_ends_action: bool = True
    edits_end_actions: bool = True
    claims_see_edits: bool = True
    unknown_stays: bool = True
    forward_only: bool = True
    gives_late_calls_back: bool = True
    opt_out_ends_action: bool = True
    opt_out_counts: bool = True
    opts_out: bool = False  # the channel may say of a send that this person opted out
    idempotent: bool = False
    faults: int = 2
    others: tuple[str, ...] = ("stop", "more", "edit")
    messages: int = 3


class Agent(NamedTuple):
    """A turn in a worker's hand: its token, and what it will commit."""

    token: int
    plan: str  # say, ask, execute, finish, repeat, wait
    seq_to: int = 0
    ends: int = 0  # the action that ends with it
    taken: tuple[int, ...] = ()


class Looked(NamedTuple):
    """A guard's or dispatcher's look: the version it saw, and what it will record."""

    version: int
    at: int  # messages seen, or the outbound
    decision: str = ""


class Sending(NamedTuple):
    """A claimed send in a dispatcher's hand."""

    out: int
    attempt: int
    called: bool = False
    late: bool = (
        False  # given up by others meanwhile: more than the 5 s in which a call may begin have passed
    )


class World(NamedTuple):
    come: int = 0  # messages committed, as a mask
    other: str = ""  # what the third message is
    beside: bool = False  # the request was edited when a turn had taken it, or was answering it
    seqs: tuple[int, ...] = (0, 0, 0)
    for_turn: tuple[bool, ...] = (False, False, False)
    row: Row = Row()
    outs: tuple[Out, ...] = ()
    pending: Action | None = None
    actions: int = 0
    executed: int = 0
    attempts: int = 0
    calls: tuple[int, ...] = ()  # the provider's calls, by outbound
    before_claim: tuple[
        int, ...
    ] = ()  # whether the yes was committed when its send was last claimed, by outbound
    tokens: int = 0
    guard: Looked | None = None
    agents: tuple[Agent | None, Agent | None] = (None, None)
    dispatchers: tuple[Looked | Sending | None, Looked | Sending | None] = (None, None)
    faults: int = 0
    gone: bool = False  # the channel said that they opted out


class Violation(Exception):
    """An invariant does not hold; its text says which."""


Move = tuple[str, World]


@dataclass
class Found:
    """What a search came to: how many states, and the first violation with the moves that led there."""

    states: int
    violation: str | None = None
    trace: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)  # what came about on the way, in any state


def search(rules: Rules, *, most: int = 2_000_000) -> Found:
    """Every reachable state, breadth first; then whether all that is owed can be paid from each of them."""
    start = World()
    came_from: dict[World, tuple[World, str] | None] = {start: None}
    paid: list[World] = []
    back: dict[World, list[World]] = {}
    queue = deque([start])
    seen: set[str] = set()
    while queue:
        world = queue.popleft()
        if all_paid(world, rules):
            paid.append(world)
        try:
            check_always(world, rules)
            for name, after in moves(world, rules):
                canonical = _canonical(after, rules)
                seen |= {out.state for out in after.outs} & {"superseded", "unknown", "sent"}
                if after.gone:
                    seen.add("opted out")
                if after.executed:
                    seen.add("executed")
                if canonical.faults == world.faults:
                    back.setdefault(canonical, []).append(world)
                if canonical not in came_from:
                    came_from[canonical] = (world, name)
                    queue.append(canonical)
        except Violation as violation:
            return Found(len(came_from), str(violation), _trace(came_from, world))
        assert len(came_from) <= most, "more states than this search is meant for"
    reached = set(paid)
    queue = deque(paid)
    while queue:
        for world in back.get(queue.popleft(), ()):
            if world not in reached:
                reached.add(world)
                queue.append(world)
    stuck = next((world for world in came_from if world not in reached), None)
    if stuck is not None:
        return Found(
            len(came_from), "stuck: something is owed and nothing can ever pay it", _trace(came_from, stuck)
        )
    return Found(len(came_from), seen=seen)


def _trace(came_from: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    trace = []
    while (before := came_from[world]) is not None:
        world, name = before
        trace.append(name)
    return trace[::-1]


def _canonical(world: World, rules: Rules) -> World:
    """The same for all worlds that go on alike: of versions, tokens and ids only "is it still this one" matters,
    workers of a stage are alike, a look that is stale and a turn without its lease come to nothing, and a reply that
    has reached its end is forgotten."""
    row, pending = world.row, world.pending
    world = _without_idlers(world, rules)
    held = [one for one in world.dispatchers if one is not None]
    in_hand = {one.at if isinstance(one, Looked) else one.out for one in held}
    kept = [
        place
        for place, out in enumerate(world.outs)
        if out.state not in FINAL
        or out.attempt_open
        or place in in_hand
        or (pending and pending.prompt == place)
    ]
    place_of = {place: new for new, place in enumerate(kept)}
    outs = tuple(world.outs[place] for place in kept)
    attempts = [out.attempt for out in outs] + [one.attempt for one in held if isinstance(one, Sending)]
    number = {attempt: new for new, attempt in enumerate(dict.fromkeys((0, *attempts)))}
    guard = world.guard and world.guard._replace(version=0 if world.guard.version == row.version else -1)
    agents = [_agent_alike(agent, row, pending) for agent in world.agents]
    dispatchers = [_dispatcher_alike(one, row, place_of, number) for one in world.dispatchers]
    agents.sort(key=repr)
    dispatchers.sort(key=repr)
    return world._replace(
        row=row._replace(version=0, token=1 if row.token else 0, sending=number.get(row.sending, -1)),
        outs=tuple([out._replace(attempt=number[out.attempt]) for out in outs]),
        calls=tuple([world.calls[place] for place in kept]),
        before_claim=tuple([world.before_claim[place] for place in kept]),
        pending=pending and pending._replace(id=1, prompt=place_of[pending.prompt]),
        actions=1,
        attempts=len(number),
        tokens=1,
        guard=guard,
        agents=(agents[0], agents[1]),
        dispatchers=(dispatchers[0], dispatchers[1]),
    )


def _without_idlers(world: World, rules: Rules) -> World:
    version = world.row.version
    if world.guard is not None and world.guard.version != version and rules.guard_compares:
        world = world._replace(guard=None)
    if rules.fencing:
        one, other = world.agents
        token = world.row.token
        world = world._replace(
            agents=(
                one if one and one.token == token else None,
                other if other and other.token == token else None,
            )
        )
    if rules.dispatch_compares:
        first, second = world.dispatchers
        world = world._replace(
            dispatchers=(
                None if isinstance(first, Looked) and first.version != version else first,
                None if isinstance(second, Looked) and second.version != version else second,
            )
        )
    return world


def _agent_alike(agent: Agent | None, row: Row, pending: Action | None) -> Agent | None:
    if agent is None:
        return None
    ends = 0 if not agent.ends else 1 if pending is not None and agent.ends == pending.id else -1
    return agent._replace(token=1 if agent.token == row.token else -1, ends=ends)


def _dispatcher_alike(
    one: Looked | Sending | None, row: Row, place_of: dict[int, int], number: dict[int, int]
) -> Looked | Sending | None:
    if isinstance(one, Looked):
        return one._replace(version=0 if one.version == row.version else -1, at=place_of[one.at])
    return one and one._replace(out=place_of[one.out], attempt=number[one.attempt])


# What must hold


def check_always(world: World, rules: Rules) -> None:
    if world.executed > 1:
        raise Violation("an action was executed twice")
    if any(calls > 1 for calls in world.calls) and not rules.idempotent:
        raise Violation("a reply was sent twice where the channel takes no key")
    if world.pending is not None and world.outs[world.pending.prompt].state in rows.NOT_OPEN:
        raise Violation("an action is open whose prompt can never be answered")


def all_paid(world: World, rules: Rules) -> bool:
    """Everything came, and no row owes anything."""
    row = world.row
    return (
        world.come == (1 << rules.messages) - 1
        and not (row.unguarded or row.guard_due or row.due or row.sending)
        and (not row.token or row.lapsed)  # a lease that ran out holds nobody up
        and all(out.state not in ("queued", "sending", "unknown") for out in world.outs)
        and world.guard is None
        and world.agents == (None, None)
        and world.dispatchers == (None, None)
    )


# Moves


def moves(world: World, rules: Rules) -> Iterator[Move]:
    yield from _arrivals(world, rules)
    yield from _guard_moves(world, rules)
    for worker in (0, 1):
        if world.agents[worker] is None and worker == 1 and world.agents[0] is None:
            continue  # two idle workers are one
        yield from _agent_moves(world, rules, worker)
    yield from _lease_moves(world, rules)
    for worker in (0, 1):
        if world.dispatchers[worker] is None and worker == 1 and world.dispatchers[0] is None:
            continue
        yield from _dispatch_moves(world, rules, worker)
    yield from _clock_moves(world, rules)


def _arrivals(world: World, rules: Rules) -> Iterator[Move]:
    for message in range(rules.messages):
        if world.come >> message & 1:
            continue
        after = world._replace(come=world.come | 1 << message, row=rows.store(world.row, 1))
        if message == OTHER:
            for other in rules.others:
                yield f"ingest {other}", after._replace(other=other)
        else:
            yield f"ingest {('request', 'yes')[message]}", after


def _guard_moves(world: World, rules: Rules) -> Iterator[Move]:
    row = world.row
    if world.guard is None:
        if row.unguarded:
            yield "guard looks", world._replace(guard=Looked(row.version, world.come))
        return
    look = world.guard
    after = world._replace(guard=None)
    if look.version != row.version and rules.guard_compares:
        yield "guard's look was stale", after
    else:
        yield "guard records", _judged(after, look.at, rules)


def _judged(world: World, seen: int, rules: Rules) -> World:
    row = world.row
    unjudged = tuple(m for m in range(rules.messages) if seen >> m & 1 and not world.seqs[m])
    if not unjudged:
        return world
    live_lease = bool(row.token) and not row.lapsed
    judgement = _judgement(unjudged, world.other, row.opted_out, _about(world, leased=live_lease))
    made = _recorded(row._replace(version=0, token=0, sending=0), live_lease, judgement)
    seqs, for_turn = list(world.seqs), list(world.for_turn)
    for place, (message, verdict) in enumerate(judgement.verdicts):
        seqs[message] = row.guarded_seq + 1 + place
        for_turn[message] = verdict is Verdict.TURN
    if judgement.again is not None:
        for_turn[REQUEST] = judgement.again is Verdict.TURN
    unguarded = row.unguarded - len(unjudged) if rules.guard_subtracts else 0
    after = world._replace(
        seqs=tuple(seqs),
        for_turn=tuple(for_turn),
        beside=world.beside or judgement.beside,
        row=row._replace(
            version=row.version + 1,
            unguarded=max(unguarded, 0),
            guard_due=unguarded > 0,
            guarded_seq=made.guarded_seq,
            customer_seq=made.customer_seq,
            handled_seq=made.handled_seq,
            due=made.due,
            opted_out=made.opted_out,
        ),
    )
    if judgement.spoke:
        after = _end_drafts(after)
    clears = judgement.clears or (judgement.ends_action and rules.edits_end_actions)
    if clears and after.pending is not None:
        after = _unsent(after, after.pending.prompt)._replace(pending=None)
    return after


class About(NamedTuple):
    """What an edit of the request meets."""

    seq: int  # the request's, 0 while it is not judged
    for_turn: bool
    handled_seq: int
    leased: bool
    waits: bool  # the edit was judged before the request came
    unanswered: tuple[int, ...]
    action: bool  # every action of this conversation came from the request


def _about(world: World, *, leased: bool) -> About | None:
    if world.other != "edit":
        return None
    handled = world.row.handled_seq
    owed = tuple(seq for seq, turn in zip(world.seqs, world.for_turn, strict=True) if turn and seq > handled)
    seq = world.seqs[REQUEST]
    waits = bool(world.seqs[OTHER]) and not seq
    return About(seq, world.for_turn[REQUEST], handled, leased, waits, owed, world.pending is not None)


class Judgement(NamedTuple):
    """A judgement in the search's own words; `key` stands for the product's own, kept aside."""

    verdicts: tuple[tuple[int, Verdict], ...]
    again: Verdict | None  # of the request, where it is judged again
    beside: bool
    spoke: bool
    clears: bool
    ends_action: bool
    key: tuple[tuple[int, ...], str, bool, About | None]


class Made(NamedTuple):
    guarded_seq: int
    customer_seq: int
    handled_seq: int
    due: bool
    opted_out: bool


@cache
def _judgement(unjudged: tuple[int, ...], other: str, opted_out: bool, about: About | None) -> Judgement:
    amended, judgement, _ = _judge(unjudged, other, opted_out, about)
    every = (*judgement.again, *judgement.judged)
    return Judgement(
        verdicts=tuple((one.message.int, one.verdict) for one in judgement.judged),
        again=judgement.again[0].verdict if judgement.again else None,
        beside=any(change.edited_to is not None for change in amended.changes),
        spoke=any(one.customer_spoke for one in every),
        clears=any(one.clears_action or one.handoff or one.opt_out for one in every),
        ends_action=amended.clears_action,
        key=(unjudged, other, opted_out, about),
    )


def _unjudged(message: int, other: str) -> Unjudged:
    edits = message == OTHER and other == "edit"
    return Unjudged(
        id=MessageId(UUID(int=message)),
        kind=MessageKind.EDIT if edits else MessageKind.TEXT,
        text=(TEXTS | {OTHER: OTHERS.get(other, "")})[message],
        channel_at=NOW + timedelta(seconds=message),
        received_at=NOW + timedelta(seconds=5),
        channel_message_id=str(message),
        quoted=str(REQUEST) if edits else None,
    )


@cache
def _judge(
    unjudged: tuple[int, ...], other: str, opted_out: bool, about: About | None
) -> tuple[Amended, GuardJudgement, Concerned]:
    messages = tuple(in_order([_unjudged(m, other) for m in unjudged]))
    concerned = Concerned()
    if about is not None:
        verdict = Verdict.TURN if about.for_turn else Verdict.STORED
        request = Known(message=_unjudged(REQUEST, other), seq=about.seq, verdict=verdict)
        concerned = Concerned(
            known=(request,) if about.seq else (),
            waiting=(_unjudged(OTHER, other),) if about.waits else (),
            unanswered=about.unanswered,
            action_from=(about.seq, about.seq) if about.action else None,
        )
    amended = amend(
        messages,
        concerned,
        handled_seq=about.handled_seq if about else 0,
        leased=about.leased if about else False,
    )
    again = [one.message for one in amended.again]
    facts = Facts(mode=Mode.AUTO, opted_out=opted_out)
    return amended, judge(amended.messages, facts, LOCALES, again=again), concerned


@cache
def _recorded(row: Row, leased: bool, judgement: Judgement) -> Made:
    amended, judged, concerned = _judge(*judgement.key)
    case = Case(
        conversation=ConversationId(UUID(int=1)),
        business=BusinessId(1),
        business_slug="model",
        row=GuardRow(
            version=0,
            unguarded=row.unguarded,
            guarded_seq=row.guarded_seq,
            customer_seq=row.customer_seq,
            handled_seq=row.handled_seq,
            due_at=NOW if row.due else None,
            leased=leased,
            opted_out_at=NOW if row.opted_out else None,
        ),
        facts=Facts(mode=Mode.AUTO, opted_out=row.opted_out),
        messages=amended.messages,
        now=NOW,
        locales=("en", "ro"),
        window=timedelta(),
        action=ActionId(UUID(int=1)),
        concerned=concerned,
    )
    made = record(case, judged, amended).row
    return Made(
        guarded_seq=made.guarded_seq,
        customer_seq=made.customer_seq,
        handled_seq=made.handled_seq,
        due=made.due_at is not None,
        opted_out=made.opted_out_at is not None,
    )


def _agent_moves(world: World, rules: Rules, worker: int) -> Iterator[Move]:
    agent = world.agents[worker]
    if agent is None:
        owed = any(
            turn and seq > world.row.handled_seq for seq, turn in zip(world.seqs, world.for_turn, strict=True)
        )
        token = world.tokens + 1
        row = rows.claim(world.row, token, owed=owed, waits_for_guard=rules.waits_for_guard)
        if row is not None:
            claimed = world._replace(row=row, tokens=token)
            yield "agent claims", _in_hand(claimed, worker, _plan(claimed, rules, token))
        return
    free = _in_hand(world, worker, None)
    yield "agent commits", _committed(free, rules, agent)
    if world.faults < rules.faults:
        yield "agent dies", free._replace(faults=world.faults + 1)


def _in_hand(world: World, worker: int, agent: Agent | None) -> World:
    agents = (agent, world.agents[1]) if worker == 0 else (world.agents[0], agent)
    return world._replace(agents=agents)


def _plan(world: World, rules: Rules, token: int) -> Agent:
    """What the turn decides on what its claim gave it."""
    handled = world.row.handled_seq
    given = tuple(
        (m, seq, turn)
        for m, (seq, turn) in enumerate(zip(world.seqs, world.for_turn, strict=True))
        if seq and seq <= world.row.guarded_seq
    )
    taken, seq_to = _take(given, handled)
    pending = world.pending
    dropped = pending is not None and world.beside and rules.claims_see_edits
    if pending is None or dropped:
        met = _met(None, taken, rules.order_by_seq)
    else:
        prompt = world.outs[pending.prompt]
        state = prompt.state
        if state == "sending" and not rules.waits_for_sending:
            state = "sent"
        met = _met(
            (state, pending.at_seq, prompt.at_send_seq if prompt.attempt else None), taken, rules.order_by_seq
        )
    messages = tuple(m for m, _ in taken)
    action = pending.id if pending else 0
    match met:
        case "Confirmed":
            return Agent(token, "execute", seq_to, action, messages)
        case "WaitForPrompt":
            return Agent(token, "wait", seq_to)
        case "Repeat":
            return Agent(token, "repeat", seq_to, action)
        case "PromptIsTheAnswer":
            return Agent(token, "finish", seq_to)
        case "NewRequest":
            return Agent(token, "ask" if REQUEST in messages else "say", seq_to, action)
        case _:
            raise AssertionError(f"a meeting that these messages can't come to: {met}")


@cache
def _take(given: tuple[tuple[int, int, bool], ...], handled: int) -> tuple[tuple[tuple[int, int], ...], int]:
    heard = sorted(
        (
            _heard(m, seq, "", Verdict.TURN if turn else Verdict.STORED)
            for m, seq, turn in given
        ),
        key=lambda one: one.seq,
    )  # fmt: skip
    taken = take(heard, after=handled)
    return tuple((one.id.int, one.seq) for one in taken.messages), taken.seq_to


def _heard(message: int, seq: int, text: str, verdict: Verdict) -> Heard:
    return Heard(
        seq=seq,
        id=MessageId(UUID(int=message)),
        kind=MessageKind.TEXT,
        text=text,
        button=None,
        quoted=None,
        channel_at=NOW,
        received_at=NOW,
        verdict=verdict,
        unsupported=False,
    )


@cache
def _met(
    pending: tuple[str, int, int | None] | None,
    taken: tuple[tuple[int, int], ...],
    order_by_seq: bool,
) -> str:
    """The product's word on what the turn's messages mean to the pending action."""
    texts = TEXTS | {OTHER: OTHERS["more"]}
    heard = [_heard(m, seq, texts[m], Verdict.TURN) for m, seq in taken]
    whole = take(heard, after=0)
    answer = match(whole.texts, LOCALES)
    if pending is None:
        return type(meet(None, whole, answer)).__name__
    state, at_seq, at_send_seq = pending
    if not order_by_seq and at_send_seq is not None:
        at_send_seq = -1
    met = meet(
        Pending(
            id=ActionId(UUID(int=1)),
            tool="book",
            arguments="{}",
            shown="{}",
            digest=b"",
            summary="",
            confirmations_needed=1,
            asked=Asked.CUSTOMER,
            waits_for=WaitsFor.CUSTOMER,
            at_seq=at_seq,
            prompt=Prompt(
                outbound=OutboundId(UUID(int=1)),
                state=PROMPT_STATES[state],
                at_send_seq=at_send_seq,
                sent_at=NOW if at_send_seq is not None else None,
            ),
        ),
        whole,
        answer,
    )
    assert isinstance(
        met,
        Confirmed
        | Declined
        | Recheck
        | Repeat
        | WaitForPrompt
        | PromptIsTheAnswer
        | NoLongerOpen
        | NewRequest,
    )
    return type(met).__name__


def _committed(world: World, rules: Rules, agent: Agent) -> World:
    if agent.plan == "wait":
        row = rows.release(world.row, agent.token, fenced=rules.fencing)
        return world if row is None else world._replace(row=row)
    if agent.plan == "execute":
        return _executed(world, rules, agent)
    done = rows.commit(world.row, agent.token, agent.seq_to, fenced=rules.fencing)
    if done is None:
        return world
    row, live = done
    after = world._replace(row=row)
    if (
        agent.plan in ("say", "ask")
        and agent.ends
        and after.pending is not None
        and after.pending.id == agent.ends
    ):
        after = _unsent(after, after.pending.prompt)._replace(pending=None)
    if not live or agent.plan == "finish":
        return after
    if agent.plan == "say":
        return _queue(after, Out("reply", agent.seq_to))
    after = _queue(after, Out("prompt", agent.seq_to))
    place = len(after.outs) - 1
    if agent.plan == "repeat":
        same = after.pending is not None and after.pending.id == agent.ends
        return (
            after._replace(pending=after.pending._replace(prompt=place)) if same and after.pending else after
        )
    action = Action(id=after.actions + 1, prompt=place, at_seq=after.row.guarded_seq)
    return after._replace(pending=action, actions=action.id)


def _executed(world: World, rules: Rules, agent: Agent) -> World:
    """X: by token and state, the action still open; else the lease goes back."""
    row, pending = world.row, world.pending
    ours = row.token == agent.token or not rules.fencing
    if not (ours and not row.opted_out and pending is not None and pending.id == agent.ends):
        released = rows.release(row, agent.token, fenced=rules.fencing)
        return world if released is None else world._replace(row=released)
    if world.beside:
        raise Violation("an action was executed whose request had been edited")
    if world.before_claim[pending.prompt]:
        raise Violation("a yes that was committed before the prompt's send was claimed executed the action")
    if world.outs[pending.prompt].state != "sent":
        raise Violation("an action was executed while nobody knew whether its prompt had been sent")
    done = rows.commit(row, agent.token, agent.seq_to, fenced=rules.fencing)
    assert done is not None
    after = world._replace(row=done[0], pending=None, executed=world.executed + 1)
    return _queue(after, Out("receipt", agent.seq_to))


def _queue(world: World, out: Out) -> World:
    assert len(world.outs) < 12, "a turn makes one outbound"
    return world._replace(
        outs=(*world.outs, out), calls=(*world.calls, 0), before_claim=(*world.before_claim, 0)
    )


def _unsent(world: World, prompt: int) -> World:
    """The prompt of an action that ended does not leave any more."""
    if world.outs[prompt].state in ("queued", "draft"):
        return _with_out(world, prompt, world.outs[prompt]._replace(state="discarded"))
    return world


def _end_drafts(world: World) -> World:
    """The customer wrote: drafts are superseded, and what they asked with them."""
    for place, out in enumerate(world.outs):
        if out.state == "draft" and out.kind != "receipt":
            world = _with_out(world, place, out._replace(state="superseded"))
            if world.pending is not None and world.pending.prompt == place:
                world = world._replace(pending=None)
    return world


def _with_out(world: World, place: int, out: Out) -> World:
    return world._replace(outs=(*world.outs[:place], out, *world.outs[place + 1 :]))


def _lease_moves(world: World, rules: Rules) -> Iterator[Move]:
    row = world.row
    if not row.token:
        return
    alive = any(agent is not None and agent.token == row.token for agent in world.agents)
    if not alive:  # W2: void
        yield "a dead worker's lease is void", world._replace(row=rows.void(row))
    elif not row.lapsed and world.faults < rules.faults:
        yield (
            "a live worker's lease lapses",
            world._replace(row=row._replace(lapsed=True), faults=world.faults + 1),
        )


def _dispatch_moves(world: World, rules: Rules, worker: int) -> Iterator[Move]:
    held = world.dispatchers[worker]
    if held is None:
        for place, out in enumerate(world.outs):
            if out.state == "queued":
                yield from _looks(world, rules, worker, place)
        return
    free = _sends(world, worker, None)
    if isinstance(held, Looked):
        if held.version != world.row.version and rules.dispatch_compares:
            yield "dispatch's look was stale", free
        elif world.outs[held.at].state == "queued":
            yield from _recorded_send(free, rules, worker, held)
        else:
            yield "dispatch's reply is gone", free
        return
    yield from _calls(world, free, rules, worker, held)
    if world.faults < rules.faults:
        yield "dispatch dies", free._replace(faults=world.faults + 1)


def _sends(world: World, worker: int, held: Looked | Sending | None) -> World:
    pair = (held, world.dispatchers[1]) if worker == 0 else (world.dispatchers[0], held)
    return world._replace(dispatchers=pair)


def _looks(world: World, rules: Rules, worker: int, place: int) -> Iterator[Move]:
    """D1, and the claim that does without it where nothing stands against a plain send."""
    decision = _decision(world, rules, place)
    if decision == "NotYet":
        return
    look = Looked(world.row.version, place, decision)
    yield f"dispatch looks at {world.outs[place].kind} {place}", _sends(world, worker, look)
    plain = (
        decision == "Send"
        and not world.outs[place].attempt
        and world.row.customer_seq <= world.outs[place].basis_seq
    )
    if plain:
        yield from _recorded_send(world, rules, worker, look)


def _decision(world: World, rules: Rules, place: int) -> str:
    row, out = world.row, world.outs[place]
    queued = [(one.basis_seq, at) for at, one in enumerate(world.outs) if one.state == "queued"]
    return _decide(
        row.unguarded if rules.waits_for_guard else 0,
        row.customer_seq,
        row.opted_out,
        bool(row.sending),
        row.superseded_in_row,
        min(queued)[1] == place,
        out.basis_seq,
        out.kind == "receipt",
        out.may_have_left,
    )


@cache
def _decide(  # noqa: PLR0917
    unguarded: int, customer_seq: int, opted_out: bool, sending: bool, in_row: int, first: bool, basis_seq: int, receipt: bool, may_have_left: bool
) -> str:  # fmt: skip
    snapshot = delivery.Snapshot(
        outbound=OutboundId(UUID(int=1)),
        conversation=ConversationId(UUID(int=1)),
        business=BusinessId(1),
        account=AccountId(1),
        channel="model",
        traits=Traits(text_max=4096),
        reply_to=None,
        account_next_at=None,
        person_waits_until=None,
        has_template=False,
        last_customer_at=None,
        window_closed_at=None,
        user_id="customer",
        origin=delivery.Origin.TURN,
        basis_seq=basis_seq,
        epoch=0,
        mode_at_decision=Mode.AUTO,
        held=None,
        body="",
        buttons=None,
        round=1,
        receipt=receipt,
        parts_sent=0,
        tries=0,
        may_have_left=may_have_left,
        not_before=None,
        thread=None,
        in_reply_to=None,
        now=NOW,
        version=0,
        unguarded=unguarded,
        customer_seq=customer_seq,
        in_handoff=False,
        handoff_epoch=0,
        opted_out=opted_out,
        modes=(Mode.AUTO,),
        account_on=True,
        account_waits_until=None,
        sending=sending,
        first_in_line=first,
        superseded_in_row=in_row,
        unanswered_since=NOW,
        local_now=NOW,
        quiet_from=time(0),
        quiet_to=time(0),
    )
    return type(delivery.decide(snapshot)).__name__


def _recorded_send(world: World, rules: Rules, worker: int, look: Looked) -> Iterator[Move]:
    """D2: the claim of the send, or what became of the reply instead."""
    row, out = world.row._replace(version=world.row.version + 1), world.outs[look.at]
    match look.decision:
        case "Send":
            if world.gone:
                raise Violation(f"a {out.kind} left although the channel had said that they opted out")
            if _stop_stands(world):
                raise Violation(f"a {out.kind} left although a STOP had been committed")
            attempt = world.attempts + 1
            claimed = out._replace(
                state="sending",
                attempt=attempt,
                attempt_open=True,
                at_send_seq=row.guarded_seq,
                may_have_left=True,
            )
            before = (
                *world.before_claim[: look.at],
                world.come >> YES & 1,
                *world.before_claim[look.at + 1 :],
            )
            after = _with_out(world, look.at, claimed)._replace(
                row=row._replace(sending=attempt, superseded_in_row=0), attempts=attempt, before_claim=before
            )
            yield f"dispatch claims {out.kind} {look.at}", _sends(after, worker, Sending(look.at, attempt))
        case "Supersede" | "Discard":
            state, in_row = (
                ("superseded", row.superseded_in_row + 1)
                if look.decision == "Supersede"
                else ("discarded", row.superseded_in_row)
            )
            after = _with_out(world, look.at, out._replace(state=state))._replace(
                row=row._replace(superseded_in_row=in_row)
            )
            if after.pending is not None and after.pending.prompt == look.at and rules.superseded_ends_action:
                after = after._replace(pending=None)
            yield f"dispatch {state} {out.kind} {look.at}", after
        case _:
            raise AssertionError(f"a decision that this conversation can't come to: {look.decision}")


def _stop_stands(world: World) -> bool:
    """A STOP is committed, judged or not."""
    return world.other == "stop"


def _calls(world: World, free: World, rules: Rules, worker: int, held: Sending) -> Iterator[Move]:
    if held.called:
        yield "dispatch stores that it was accepted", _settled(free, rules, held, accepted=True)
        return
    if rules.opts_out and not held.late:
        yield "provider says that they opted out", _opted_out(free, rules, held)
    if not held.late or not rules.gives_late_calls_back:
        calls = (*world.calls[: held.out], world.calls[held.out] + 1, *world.calls[held.out + 1 :])
        yield (
            f"provider takes {held.out}",
            _sends(world, worker, held._replace(called=True))._replace(calls=calls),
        )
    if held.late:
        yield "dispatch gives the call back", _settled(free, rules, held, accepted=False)


def _settled(world: World, rules: Rules, held: Sending, *, accepted: bool) -> World:
    outcome = Accepted(provider_id=None) if accepted else GivenBack()
    state = settled(outcome, last_part=True, idempotent=rules.idempotent, backoff=timedelta()).outbound
    assert state is not None
    before = world.outs[held.out]
    row, out = rows.settle(world.row, before, held.attempt, state, accepted=accepted)
    if not rules.forward_only and before.state in rows.STILL_MOVES:
        out = out._replace(state=state)
    if before.state == "sent" and out.state != "sent":
        raise Violation("a reply that was sent is queued again")
    return _with_out(world._replace(row=row), held.out, out)


def _opted_out(world: World, rules: Rules, held: Sending) -> World:
    """D3 of an opt-out that the channel knew of: nothing more leaves, and what was asked is over."""
    state = settled(
        OptedOut(reason="21610"), last_part=True, idempotent=rules.idempotent, backoff=timedelta()
    ).outbound
    assert state is not None
    row, out = rows.settle(
        world.row, world.outs[held.out], held.attempt, state, accepted=False, opts_out=rules.opt_out_counts
    )
    after = _with_out(world._replace(row=row, gone=True), held.out, out)
    over = out.state == "discarded" and after.pending is not None and after.pending.prompt == held.out
    return after._replace(pending=None) if over and rules.opt_out_ends_action else after


def _clock_moves(world: World, rules: Rules) -> Iterator[Move]:
    for place, out in enumerate(world.outs):
        if out.attempt_open:
            holders = [w for w in (0, 1) if _holds(world.dispatchers[w], place, out.attempt)]
            if holders and world.faults >= rules.faults:
                continue
            again = rules.idempotent or not rules.unknown_stays
            given_up = _with_out(
                world, place, out._replace(attempt_open=False, state="queued" if again else "unknown") if out.state == "sending" else out._replace(attempt_open=False)
            )  # fmt: skip
            if world.row.sending == out.attempt:
                given_up = given_up._replace(row=world.row._replace(sending=0, version=world.row.version + 1))
            for worker in holders:
                held = given_up.dispatchers[worker]
                assert isinstance(held, Sending)
                given_up = _sends(given_up, worker, held._replace(late=True))
            yield f"nobody settled {place}", given_up._replace(faults=world.faults + len(holders))
        elif out.state == "unknown":
            after = _with_out(world, place, out._replace(state="draft"))
            yield (
                f"{place} may have arrived",
                after._replace(row=world.row._replace(version=world.row.version + 1)),
            )


def _holds(held: Looked | Sending | None, place: int, attempt: int) -> bool:
    return isinstance(held, Sending) and (held.out, held.attempt) == (place, attempt)


def planted(name: str) -> Rules:
    """The protocol with one bug of transactions.md in it."""
    return replace(Rules(), **PLANTED[name])  # type: ignore[arg-type]


PLANTED: dict[str, dict[str, object]] = {
    "no fencing token": {"fencing": False},
    "the guard zeroes what is owed": {"guard_compares": False, "guard_subtracts": False},
    "neither turn nor send waits for the guard": {"waits_for_guard": False},
    "the send's claim does not compare the version": {"dispatch_compares": False},
    "confirmation by state and clocks, not by seq": {"order_by_seq": False},
    "a yes while the prompt is sending is decided at once": {"waits_for_sending": False},
    "a superseded prompt leaves its action open": {"superseded_ends_action": False},
    "an edited request leaves its action open": {"edits_end_actions": False, "others": ("edit",)},
    "a claim overlooks an edit that came during the turn": {"claims_see_edits": False, "others": ("edit",)},
    "an unknown outcome is sent again": {"unknown_stays": False},
    "an opt-out at the channel leaves its question open": {
        "opts_out": True,
        "opt_out_ends_action": False,
        "messages": 2,
    },
    "an opt-out at the channel is forgotten": {"opts_out": True, "opt_out_counts": False, "messages": 2},
    "an outcome that comes late goes back": {"forward_only": False, "idempotent": True, "messages": 1},
}
Search = Callable[[Rules], Found]
