"""Migrations run beside the previous release's services: what could break those, or hold them up, is not let through."""

import pytest

from shared.database.migrate import PIPELINE, read_migrations
from shared.packs import load_packs, migrations_of
from tests.support.migration_rules import problems

# Before these nobody ran the product, and nobody could upgrade it.
BEFORE = {"leeway": 3, "clinic": 2, "expenses": 1}
LATER = [
    migration
    for schema, folder in [("leeway", PIPELINE), *migrations_of(load_packs()).items()]
    for migration in read_migrations(schema, folder)
    if migration.number > BEFORE.get(schema, 0)
]


def test_every_migration_since_the_first_release_may_run_beside_the_release_before_it() -> None:
    wrong = {one.label: [str(problem) for problem in problems(one.text)] for one in LATER}
    assert not {label: found for label, found in wrong.items() if found}
    for one in LATER:
        if one.concurrently:
            assert one.indexes(), one.label


@pytest.mark.parametrize(
    "text",
    [
        "alter table outbound add column note text",
        "alter table outbound add column note text not null default 'none, so far; really'",
        "alter table outbound add column n int not null default 0, add column at timestamptz default now()",
        "alter table outbound add column tries smallint default -1::smallint",
        "alter table outbound add column cost numeric(14, 8), add column tags text[] not null default '{}'",
        "alter table outbound add constraint short check (length(body) < 9) not valid",
        "alter table outbound validate constraint short",
        "alter table outbound drop constraint outbound_state_check, add constraint outbound_state_check check (state <> 'x') not valid",
        "alter table outbound alter column body set default '', alter column body drop not null",
        "alter table outbound set (fillfactor = 70)",
        "create table later (id uuid primary key); create index later_id on later (id); alter table later add check (id is not null)",
        "create table later (id int); insert into later values (1); alter table later drop column id",
        "alter table business add column colour text check (colour <> '')",
        "update business set name = name",
        "create function f() returns int language sql as $$ select 1; drop table outbound $$",
        "comment on column outbound.note is 'it says; what it says'",
        "grant select (note) on outbound to leeway_tenant; select secure_table('later', 'business')",
        "-- allowed: there are never more than three of its rows\nalter table dead drop column reason",
    ],
)  # fmt: skip
def test_what_is_harmless_is_let_through(text: str) -> None:
    assert not problems(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("alter table outbound drop column note", "a release later"),
        ("alter table outbound drop note", "a release later"),
        ("alter table outbound rename column body to words", "old name"),
        ("alter table outbound rename to replies", "old name"),
        ("drop table flag", "nobody has looked"),
        ("drop index outbound_history", "nobody has looked"),
        ("drop function shift()", "nobody has looked"),
        ("create or replace function shift() returns int language sql as $$ select 1 $$", "nobody has looked"),
        ("truncate flag", "nobody has looked"),
        ("lock table outbound", "nobody has looked"),
        ("set local lock_timeout = 0", "nobody has looked"),
        ("revoke select on outbound from leeway_tenant", "nobody has looked"),
        ("do $$ begin drop table outbound; end $$", "nobody has looked"),
        ("alter table outbound add column note text not null", "give it a default"),
        ("alter table outbound add column id2 uuid default gen_random_uuid()", "use a constant"),
        ("alter table outbound add column n int check (n > 0)", "not valid"),
        ("alter table outbound add column n int references flag", "not valid"),
        ("alter table outbound add column n int unique", "not valid"),
        ("alter table outbound add column n int generated always as (1) stored", "written anew"),
        ("alter table outbound add column n text, add column m text not null", "give it a default"),
        ("alter table outbound alter column body set not null", "may insert nulls"),
        ("alter table business alter column name set not null", "may insert nulls"),
        ("alter table outbound alter column body drop default", "count on it"),
        ("alter table outbound alter column body type varchar(9)", "old type"),
        ("alter table business alter column name type varchar(9)", "old type"),
        ("alter table outbound add check (body <> '')", "not valid"),
        ("alter table outbound add foreign key (id) references flag", "not valid"),
        ("alter table outbound add unique (body)", "builds an index"),
        ("alter table outbound add constraint short check (true) not valid, validate constraint short", "later file"),
        ("create index outbound_body on outbound (body)", "make it concurrently"),
        ("create unique index on outbound (body)", "make it concurrently"),
        ("create index concurrently if not exists x on outbound (body)", "file of its own"),
        ("update outbound set body = ''", "in portions"),
        ("delete from flag", "in portions"),
        ("-- allowed: no\ndelete from flag", "in portions"),
        ("-- allowed: there are never many of them\nselect secure_table('x', 'y'); delete from flag", "in portions"),
    ],
)  # fmt: skip
def test_what_would_break_the_previous_release_or_hold_it_up_is_found(text: str, why: str) -> None:
    (found,) = problems(text)
    assert why in found.why


def test_what_the_first_releases_did_is_found_too() -> None:
    """The rules see real files: these changed states and defaults of tables under nobody's feet."""
    second = (PIPELINE / "0002_safe_agent.sql").read_text(encoding="utf-8")
    assert any("pending_action" in one.statement for one in problems(second))
