"""What came of a wish, in one English sentence for the operator. Pure."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from services.console.core import outcomes as o

_DRAFTS: Final = {
    "queued": "it is on its way already",
    "sending": "it is on its way already",
    "sent": "it has gone out meanwhile",
    "delivered": "it has gone out meanwhile",
    "read": "it has gone out meanwhile, and was read",
    "unknown": "it was sent meanwhile, and nobody knows whether it arrived",
    "superseded": "the customer wrote again, people took over, or another reply took its place",
    "discarded": "it was discarded with what it asked about",
}
_DECISIONS: Final = {
    "send": "sent",
    "edit": "edited and sent",
    "discard": "discarded",
    "expired": "declined because its time was over",
}
_ACTIONS: Final = {
    "customer": "the customer is asked",
    "executed": "it was carried out",
    "refused": "it could not be carried out",
    "declined": "it was declined",
    "cleared": "it was withdrawn",
    "replaced": "another request took its place",
    "superseded": "its question was never sent",
    "unknown": "nobody knows whether it was carried out",
}


def sentence(outcome: o.Outcome) -> str:
    """The outcome for a person: what happened, or why nothing did and what to do."""
    return _SENTENCES[type(outcome)](outcome)


def _when(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _always(text: str) -> Callable[[Any], str]:
    return lambda _: text


def _discarded(one: o.Discarded) -> str:
    return f"Discarded{', and what it asked about has ended' if one.ended_request else ''}."


def _taken_over(one: o.TakenOver) -> str:
    cleared = " What waited for the customer's yes is cleared." if one.ended_request else ""
    return f"Taken over: only people answer now.{cleared}"


def _summary_changed(one: o.SummaryChanged) -> str:
    if not one.summary:
        return "Not sent: this question can't be edited; send it as it is, or discard it."
    return f"Not sent: the question must keep the system's words: {one.summary}"


def _handed_over(one: o.HandedOver) -> str:
    claimed = f"claimed by {one.by}, {_when(one.at)}" if one.by else "nobody has claimed it"
    return f"People answer it already ({one.reason}); {claimed}."


_SENTENCES: Final[Mapping[type, Callable[[Any], str]]] = {
    o.OnItsWay: lambda one: f"It is on its way{', as edited' if one.edited else ''}.",
    o.Discarded: _discarded,
    o.Decided: lambda one: "Approved; it is carried out." if one.approved else "Declined; the customer is told.",
    o.Claimed: _always("It is yours."),
    o.Released: _always("Released: the bot answers again."),
    o.TakenOver: _taken_over,
    o.NotFound: _always("There is none of that id."),
    o.AlreadyDecided: lambda one: f"Already decided by {one.by} ({_DECISIONS.get(one.what, one.what)}, {_when(one.at)}).",
    o.MovedOn: lambda one: f"It is no draft any more: {_DRAFTS.get(one.state, one.state)}.",
    o.TextChanged: _always("Nothing was done: its text was changed meanwhile. Look at it again."),
    o.OptedOut: _always("The customer has opted out: nothing may be sent to them until they opt in again."),
    o.NotJudgedYet: _always("A message of the customer came in just now; look at it, then decide."),
    o.CustomerWrote: _always("Not sent: the customer has written since, and gets an answer to that."),
    o.RequestClosed: lambda one: f"Not sent: what it asks about is over ({_ACTIONS.get(one.state, one.state)}). Discard it.",
    o.RequestOver: _always("Not sent: the question is older than 24 hours. Its request has ended, and the draft with it."),
    o.DryRunRefused: lambda one: f"Not sent: what it asks about could not be done now. {one.why}",
    o.SummaryChanged: _summary_changed,
    o.Blank: _always("There is nothing to read in that text."),
    o.TooLong: lambda one: f"That text is too long; at most {one.most:,} characters.",
    o.MayHaveArrived: _always("Not sent: it may have reached the customer already. Say that it must go again, or discard it."),
    o.InHandoff: _always("People answer this conversation; release it first."),
    o.NotInHandoff: _always("The bot answers this conversation; take it over first."),
    o.HandedOver: _handed_over,
    o.AlreadyClaimed: lambda one: f"Already claimed by {one.by}, {_when(one.at)}.",
    o.NotWaiting: lambda one: f"It waits for no operator: {_ACTIONS.get(one.state, one.state)}.",
    o.TimeOver: lambda one: f"Its time was over {_when(one.until)}: what nobody approves is declined.",
    o.NotOneLine: _always("The reason is one line, with something to read in it."),
}  # fmt: skip
