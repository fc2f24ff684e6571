"""What codes of the record mean to who reads them for the first time."""

from typing import Final

NOTHING: Final = {
    "autonomy_off": "the mode is off; people can read the message",
    "channel_disabled": "the channel account is switched off",
    "duplicate": "it is known already",
    "handoff_active": "people answer this conversation: /reply TEXT as one of them, or /release it",
    "loop": "the other end looks like a machine, and a word of ours would be answered",
    "opt_out": "the customer has opted out; START opts in again",
    "opted_out": "the customer has opted out; START opts in again",
    "reaction": "a reaction asks for nothing",
    "stale": "it is older than what was answered already",
}
HANDOFFS: Final = {
    "budget": "the spending cap is reached",
    "handoff_requested": "the customer asked for a person",
    "loop": "the other end looks like a machine",
    "model_failed": "the model gave no answer",
    "operator": "an operator took over",
    "owner_takeover": "the owner wrote from their own phone",
    "processing_failed": "the message could not be processed",
    "rate_limited": "too many messages in ten minutes",
}
DRAFTS: Final = {
    "handoff": "people answer this conversation",
    "late": "it comes too late to be sent by itself",
    "level_0": "a tool at level 0 was called",
    "may_have_arrived": "it may have arrived already",
    "mode_off": "the mode is off",
    "processing_failed": "it could not be sent",
    "send_failed": "the channel refused it",
    "suggest": "the mode is suggest",
    "unbacked_claim": "it claims something that was not done",
}


def told(code: str | None, words: dict[str, str]) -> str:
    """A code in words, with what follows its colon; one that is not known, as readable as it gets."""
    name, _, detail = (code or "no reason is given").partition(": ")
    said = words.get(name, name.replace("_", " "))
    return f"{said}: {detail}" if detail else said
