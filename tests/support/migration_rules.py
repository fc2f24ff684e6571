"""What a migration may do while the previous release's code runs on the same database, and none of it waits long.

Shut by default: a statement is let through if it has one of the shapes below, or if a line over it says why it is harmless
all the same: ``-- allowed: the reason``. Tables that the file itself makes may be shaped as it likes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# A handful of rows an installation: nobody notices that they are read whole under a lock.
SMALL = {"business", "channel_account", "account_rate", "worker", "tool_level", "audit_head"}
ALLOWED = re.compile(r"-- allowed: \S.{9,}")
EXCUSED = "\0"
QUOTED = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$", re.DOTALL)
CONCURRENTLY = "-- concurrently\n"

# Shapes of whole statements that need no look at a table.
HARMLESS = (
    r"comment on ",
    r"grant (select|insert|update|delete|usage)\b",
    r"create (table|type|schema|function|policy|sequence)\b",
    r"select (leeway\.)?secure_table\(",
)
# Shapes of what `alter table` may do to a table that others use. The first that fits decides; None: nothing is wrong.
ALTERATIONS: tuple[tuple[str, str | None], ...] = (
    (r"add column if not exists ", "say `add column`: a file is applied once"),
    (r"add column .* (references|unique|primary key|check|constraint)\b", "a constraint on it reads the whole table under a lock: add it apart, `not valid`"),
    (r"add column .* generated\b", "the whole table is written anew under a lock"),
    (r"add column .* default (?!('[^']*'|-?\d+(\.\d+)?|true|false|null|now\(\)|business_now\(\))(::[a-z ]+(\[\])?)?( not null)?$)", "a default that is worked out row by row writes the table anew: use a constant, now() or business_now()"),
    (r"add column (?=.*not null)(?!.*default)", "the previous release's inserts don't name it: give it a default"),
    (r"add column ", None),
    (r"add (constraint \w+ )?(check|foreign key)\b.* not valid$", None),
    (r"add (constraint \w+ )?(check|foreign key)\b", "it reads the whole table under a lock: add it `not valid`, and validate it in a later file"),
    (r"add ", "it builds an index under a lock: make that concurrently, in a file of its own"),
    (r"validate constraint ", None),
    (r"drop constraint ", None),
    (r"alter column \w+ set default ", None),
    (r"alter column \w+ (drop not null|set statistics \d+|set storage \w+)$", None),
    (r"alter column \w+ drop default", "the previous release's inserts count on it"),
    (r"alter column \w+ set not null", "the previous release may insert nulls, and the whole table is read under a lock"),
    (r"alter column \w+ (set data )?type ", "the previous release reads the old type, and the table is written anew under a lock"),
    (r"drop (column )?", "the previous release names it: drop it a release later"),
    (r"rename ", "the previous release knows the old name"),
    (r"set \(", None),
    (r"(enable|force) row level security", None),
)  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """A statement that must not run beside the previous release, and why."""

    statement: str
    why: str

    def __str__(self) -> str:
        return f"{self.statement[:80]}: {self.why}"


def problems(text: str) -> Sequence[Problem]:
    """What is wrong with a migration, in its order."""
    if text.startswith(CONCURRENTLY):
        return []  # leeway's own reading of such a file lets through what is harmless, and nothing else
    statements = list(_statements(text))
    made = {_table(match[1]) for one, _ in statements if (match := re.match(r"create table ([\w.]+)", one))}
    found = []
    for statement, excused in statements:
        if not excused and (why := _why_not(statement, made)) is not None:
            found.append(Problem(statement, why))
    return found


def _why_not(statement: str, made: set[str]) -> str | None:
    if match := re.match(r"alter table (?:only )?([\w.]+) (.+)$", statement):
        table, actions = _table(match[1]), _split(match[2])
        return None if table in made else _alterations(actions, small=table in SMALL)
    if match := re.match(
        r"create (?:unique )?index (?:concurrently )?(?:if not exists )?(?:\w+ )?on (?:only )?([\w.]+)",
        statement,
    ):
        if " concurrently " in statement:
            return "it can't run in a transaction: put it into a file of its own that begins with `-- concurrently`"
        if _table(match[1]) in made | SMALL:
            return None
        return "writers wait until it is built: make it concurrently, in a file of its own"
    if match := re.match(r"(?:insert into|update|delete from) ([\w.]+)", statement):
        if _table(match[1]) in made | SMALL:
            return None
        return "rows that are in use stay locked until the file has ended: a job does that in portions"
    if any(re.match(shape, statement) for shape in HARMLESS):
        return None
    return "nobody has looked whether that is harmless beside the previous release"


def _alterations(actions: Sequence[str], *, small: bool) -> str | None:
    for action in actions:
        why = next((why for shape, why in ALTERATIONS if re.match(shape, action)), "it is of no known shape")
        if why is not None and not (small and "under a lock" in why and "previous release" not in why):
            return why
    added = {match[1] for one in actions if (match := re.match(r"add constraint (\w+) ", one))}
    validated = {match[1] for one in actions if (match := re.match(r"validate constraint (\w+)", one))}
    return (
        "the lock of adding it is held while it is validated: do that in a later file"
        if added & validated
        else None
    )


def _statements(text: str) -> Iterator[tuple[str, bool]]:
    """Each statement on one line, lower-case, without comments and bodies of functions; and whether a line over it excuses it."""
    for piece in QUOTED.sub(_calm, text).split(";"):
        if statement := " ".join(piece.replace(EXCUSED, "").lower().split()):
            yield statement, EXCUSED in piece


def _calm(found: re.Match[str]) -> str:
    """What stands in for a comment, a text or a body: nothing that would be taken for the end of a statement."""
    if found[0].startswith("--"):
        return EXCUSED if ALLOWED.fullmatch(found[0]) else ""
    if found[0].startswith("$"):
        return "$$"
    return found[0].replace(";", ",")


def _split(actions: str) -> Sequence[str]:
    """At the commas that stand in no parentheses and no text."""
    parts, depth, quoted = [""], 0, False
    for char in actions:
        quoted ^= char == "'"
        depth += {"(": 1, ")": -1}.get(char, 0) if not quoted else 0
        if char == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _table(name: str) -> str:
    return name.removeprefix("leeway.")
