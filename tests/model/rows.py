"""The statements that decide in SQL, as small functions over the rows they touch.

I1, A1, A4 (with R) and D3 exist only as SQL; these mirrors stand in for them in the search, and test_mirrors.py holds
each of them to the real statement on a real Postgres. What they leave out (texts, metering, handoffs) decides nothing
that the search looks at.
"""

from typing import NamedTuple

NOT_OPEN = ("superseded", "discarded")
STILL_MOVES = ("sending", "unknown", "sent", "delivered", "read")  # states that D3 may change


class Row(NamedTuple):
    """`conversation_state`: times are true when they are due, the token is 0 when there is no lease."""

    version: int = 0
    unguarded: int = 0
    guarded_seq: int = 0
    customer_seq: int = 0
    handled_seq: int = 0
    guard_due: bool = False
    due: bool = False
    token: int = 0
    lapsed: bool = False
    opted_out: bool = False
    sending: int = 0  # the attempt under way, 0 when there is none
    superseded_in_row: int = 0
    decision: bool = False  # an approval was decided, and its turn has not run


class Out(NamedTuple):
    """An outbound with its latest attempt (0: none)."""

    kind: str  # prompt, reply, receipt
    basis_seq: int
    state: str = "queued"
    attempt: int = 0
    attempt_open: bool = False
    at_send_seq: int = 0
    may_have_left: bool = False


class Action(NamedTuple):
    """The open pending action."""

    id: int
    prompt: int  # its place among the outbounds
    at_seq: int


def store(row: Row, new: int) -> Row:
    """I1: messages that were not there before are owed to the guard."""
    if not new:
        return row
    return row._replace(unguarded=row.unguarded + new, version=row.version + 1, guard_due=True)


def claim(row: Row, token: int, *, owed: bool, waits_for_guard: bool = True) -> Row | None:
    """A1: the lease, where a turn is due and nobody has it. `owed`: a message above `handled_seq` is for a turn; a
    decision's turn takes none of them."""
    free = not row.token or row.lapsed
    owed = owed or row.decision
    if not (row.due and owed and free and not row.opted_out) or (row.unguarded and waits_for_guard):
        return None
    return row._replace(token=token, lapsed=False, version=row.version + 1)


def commit(
    row: Row, token: int, seq_to: int, *, fenced: bool = True, decides: bool = False
) -> tuple[Row, bool] | None:
    """A4: the turn's end, where the lease is still its own; whether its reply may go out. `decides`: the turn was for a
    decision, which stays owed where it could not be carried out."""
    if fenced and row.token != token:
        return None
    handled = max(row.handled_seq, seq_to)
    live = not row.opted_out
    after = row._replace(
        handled_seq=handled,
        token=0,
        lapsed=False,
        version=row.version + 1,
        due=(row.customer_seq > handled or (row.decision and not decides)) and live,
        decision=row.decision and not (decides and live),
    )
    return after, live


def release(row: Row, token: int, *, fenced: bool = True) -> Row | None:
    """R: the lease goes back, and what is owed stays due."""
    if fenced and row.token != token:
        return None
    return void(row)


def void(row: Row) -> Row:
    """W2: a dead worker's lease."""
    owed = row.customer_seq > row.handled_seq or row.decision
    return row._replace(token=0, lapsed=False, version=row.version + 1, due=owed)


def settle(
    row: Row, out: Out, attempt: int, state: str, *, accepted: bool, opts_out: bool = False
) -> tuple[Row, Out]:
    """D3: what came of an attempt, forward only. `state` is what the outbound becomes if nothing newer decides it. `opts_out`: the
    channel said that this person opted out, which counts however late it is heard."""
    current = row.sending == attempt
    if opts_out:
        handled = max(row.handled_seq, row.customer_seq)
        row = row._replace(
            opted_out=True, due=False, handled_seq=handled, version=row.version + (not current)
        )
    if current:
        row = row._replace(sending=0, version=row.version + 1)
    if out.attempt == attempt:
        out = out._replace(attempt_open=False)
    if accepted:
        moved = out.state in (*STILL_MOVES, "queued", "draft") and out.state not in ("delivered", "read")
        return row, out._replace(state="sent") if moved else out
    if out.state in ("sending", "unknown") and out.attempt == attempt:
        out = out._replace(state=state)
    return row, out
