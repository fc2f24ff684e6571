"""Where a span stands: in which trace, and under which id. Pure.

Both follow from the ids of rows: the trace of a message, and the span of each stage's work on it, are digests of its id. So a
stage goes on with a trace also where no ticket told it, and a log line names the trace where no span is told at all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from uuid import UUID

_CONTEXT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_CONTEXT_CHARS = 55
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span by its trace and id, and whether the trace is told (sampled)."""

    trace: int
    span: int
    sampled: bool = True


def trace_id(cause: UUID) -> str:
    """The trace of a message, or of what happens without one, as logs and tracing show it: 32 hexadecimal digits."""
    return blake2b(cause.bytes, digest_size=16).hexdigest()


def trace_of(cause: UUID) -> int:
    """The same as a number. A digest, since samplers take a part of it for a random number, which an id by time is not."""
    return int(trace_id(cause), 16)


def span_of(subject: UUID, work: str) -> int:
    """The id of the span of that work on a message or turn. Only for work that is done once."""
    return int.from_bytes(blake2b(subject.bytes + work.encode(), digest_size=8).digest(), "big")


def write(context: TraceContext | None) -> str:
    """As W3C's traceparent; empty for none."""
    if context is None:
        return ""
    return f"00-{context.trace:032x}-{context.span:016x}-{int(context.sampled):02x}"


def read(text: str) -> TraceContext | None:
    """What `write` wrote. None for anything else: a trace that is lost is no reason to lose work."""
    found = _CONTEXT.fullmatch(text)
    if found is None:
        return None
    trace, span, flags = (int(part, 16) for part in found.groups())
    return TraceContext(trace, span, bool(flags & _SAMPLED)) if trace and span else None


def write_header(contexts: Sequence[TraceContext | None]) -> str:
    """For a packet: a traceparent for each of its ids, in their order, by commas; empty where there is nothing to tell."""
    return ",".join(map(write, contexts)) if any(contexts) else ""


def read_header(header: object, ids: int) -> list[TraceContext | None]:
    """As many as the packet has ids, whatever came: a header that is none, too short or too long is no error."""
    if not isinstance(header, str) or len(header) > ids * (_CONTEXT_CHARS + 1):
        return [None] * ids
    told = [read(text) for text in header.split(",")[:ids]]
    return told + [None] * (ids - len(told))
