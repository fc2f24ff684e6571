"""Exceptions as logs may show them: where they were raised, and what they say only where that can't be somebody's words."""

import traceback
from collections.abc import Iterator

from shared.errors import LeewayError

FRAMES_MAX = 30  # of one exception, the innermost ones
EXCEPTIONS_MAX = 10  # of one chain, with the members of groups

# Our own say sentences, and these say names of code or of the system. Any other may quote the value that it choked on.
SPEAKS_FREELY = (
    LeewayError,
    AssertionError,
    AttributeError,
    ImportError,
    MemoryError,
    NameError,
    NotImplementedError,
    OSError,
    RecursionError,
    TypeError,
)


def told(error: BaseException) -> str:
    """The exception with those behind it, the first cause first. Values of variables never are in it."""
    return "\n\n".join(_one(each) for each in list(_chain(error))[-EXCEPTIONS_MAX:])


def headline(error: BaseException) -> str:
    """What it is, and what it says where it may."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(error, SPEAKS_FREELY) and str(error):
        return f"{name}: {error}"
    sqlstate = getattr(error, "sqlstate", None)
    return f"{name} ({sqlstate})" if isinstance(sqlstate, str) else name


def _chain(error: BaseException, seen: frozenset[int] = frozenset()) -> Iterator[BaseException]:
    if id(error) in seen:
        return
    seen |= {id(error)}
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _chain(before, seen)
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _chain(member, seen)
    yield error


def _one(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES_MAX:]
    if not frames:
        return headline(error)
    return f"Traceback (most recent call last):\n{''.join(traceback.format_list(frames))}{headline(error)}"
