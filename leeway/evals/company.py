"""A script's business: made fresh, with its people, settings and rows, and what its names stand for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from leeway.businesses import NewBusiness, new_secret, seed_pack
from leeway.evals.reading import store_queries
from leeway.evals.record import QUERIES
from leeway.evals.script import Changes, Customer, Script, Settings, ToolLevel
from leeway.evals.stage import Stage
from leeway.telephone import Line, Telephone
from shared.autonomy import Mode
from shared.ids import BusinessId, CustomerId, new_id
from shared.packs import Pack
from shared.phones import phone_key

NAMESPACE: Final = UUID("6f1d7d0e-6f38-4f0e-9d6b-0d5c1f0a7c11")
STAFF: Final = "script"
CHANNEL: Final = "sim"
PLAIN: Final = {
    "mode", "rate_per_10_min", "takeover_quiet_min", "approval_hours", "handoff_remind_min", "handoff_tell_min",
    "reminder_hours", "turn_cap_usd", "conversation_cap_usd", "day_cap_usd",
}  # fmt: skip
NUMBERS: Final = "+4070000{:04d}"
UNREACHABLE_NUMBER: Final = "+40700000099"  # the sim channel's test number


@dataclass(slots=True, kw_only=True)
class Person:
    """A customer of the script."""

    key: str
    name: str
    phone: str
    telephone: Telephone
    id: CustomerId | None = None  # known beforehand
    posted: list[dict[str, Any]] = field(default_factory=list)  # what they sent last


@dataclass(slots=True, kw_only=True)
class Company:
    """The business under a script."""

    script: Script
    slug: str
    business: BusinessId
    pack: Pack
    zone: ZoneInfo
    line: Line
    people: Mapping[str, Person]
    aliases: dict[str, str] = field(default_factory=dict)

    def spelled(self, value: Any) -> Any:
        """A text with its `{names}` as what they stand for; in lists and mappings too."""
        if isinstance(value, str):
            for name, stands_for in self.aliases.items():
                value = value.replace(f"{{{name}}}", stands_for)
            return value
        if isinstance(value, Mapping):
            return {key: self.spelled(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.spelled(one) for one in value]
        return value


async def found(stage: Stage, script: Script, *, slug: str) -> Company:
    """The script's business, as it is when the script begins."""
    zone = ZoneInfo(script.time_zone)
    stage.time.set(datetime.fromisoformat(script.clock).replace(tzinfo=zone))
    installation, pack = stage.installation, stage.packs[script.pack]
    wanted = script.settings
    business = await installation.businesses.create(
        NewBusiness(
            slug=slug,
            name="Leeway Demo",
            mode=wanted.mode or Mode.AUTO,
            pack=script.pack,
            locales=tuple(script.locales),
            time_zone=script.time_zone,
            window_ms=_ms(wanted.window or timedelta()),
        )
    )
    secret = new_secret()
    await installation.businesses.add_account(business, channel=CHANNEL, address=slug, inbound=[secret])
    await seed_pack(installation.parts.database, pack, business, installation.parts.clock)
    line = Line(
        database=installation.parts.database,
        clock=installation.parts.clock,
        address=slug,
        secret=secret,
        client=stage.client,
    )
    company = Company(
        script=script, slug=slug, business=business, pack=pack, zone=zone, line=line,
        people={key: _person(key, one, n, line) for n, (key, one) in enumerate(script.customers.items(), 1)},
    )  # fmt: skip
    quiet = wanted.model_copy(update={"reminder_hours": wanted.reminder_hours or 0})
    await set_dials(stage, company, quiet)
    await put(stage, company, script.store)
    return company


async def closed(stage: Stage, company: Company) -> None:
    """The script is over: nothing that a later one's time brings about happens here."""
    await stage.dials.change(company.slug, {"mode": Mode.OFF.value, "reminder_hours": 0}, by=STAFF)


async def set_dials(stage: Stage, company: Company, wanted: Settings) -> None:
    """Change what is named, as a manager would by command."""
    slug = company.slug
    plain = wanted.model_dump(exclude_none=True, mode="json", include=PLAIN)
    if wanted.window is not None:
        plain["window_ms"] = _ms(wanted.window)
    if wanted.stale_after is not None:
        plain["stale_after_s"] = int(wanted.stale_after.total_seconds())
    if plain:
        await stage.dials.change(slug, plain, by=STAFF)
    for tool, level in wanted.levels.items():
        to, asked = (level.level, level.asked) if isinstance(level, ToolLevel) else (level, None)
        await stage.dials.set_level(slug, tool, to, asked, packs=stage.packs, by=STAFF)
    if isinstance(wanted, Changes) and wanted.account_mode is not None:
        await stage.dials.channel_mode(CHANNEL, slug, wanted.account_mode, by=STAFF)


async def put(
    stage: Stage, company: Company, rows: Mapping[str, Sequence[Mapping[str, Any]]], *, how: str = "add"
) -> None:
    """Rows into the pack's tables, by the pack's own statements `add_…` and `change_…`, as its tenant."""
    for thing, wanted in rows.items():
        documents = [await _document(stage, company, row) for row in wanted]
        queries = store_queries(company.pack)
        async with stage.installation.parts.database.tenant(company.business, queries) as sql:
            await sql.fetch(f"{company.pack.name}.{how}_{thing}", company.business, json.dumps(documents))


async def rows_of(stage: Stage, company: Company, thing: str) -> list[dict[str, Any]]:
    """All rows of a thing, by the pack's own statement `all_…`."""
    queries = store_queries(company.pack)
    async with stage.installation.parts.database.tenant(company.business, queries) as sql:
        return [dict(row) for row in await sql.fetch(f"{company.pack.name}.all_{thing}", company.business)]


async def _document(stage: Stage, company: Company, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its customer's id, and an id of its own that its name stands for."""
    document = dict(company.spelled(row))
    if "customer" in document:
        document["customer"] = str(await known(stage, company, document["customer"]))
    if (name := document.get("id")) is not None:
        alias = company.aliases.setdefault(name, str(uuid5(NAMESPACE, f"{company.slug}/{name}")))
        document["id"] = alias
    else:
        document["id"] = str(new_id())
    return document


async def known(stage: Stage, company: Company, key: str) -> CustomerId:
    """The customer's id; who never wrote is made known as staff would."""
    person = company.people[key]
    if person.id is None:
        conversation = (await stage.record.read(company.business)).conversation_of(person.phone)
        person.id = conversation["customer"] if conversation else await _introduced(stage, company, person)
    return person.id


async def _introduced(stage: Stage, company: Company, person: Person) -> CustomerId:
    made = CustomerId(new_id())
    await stage.installation.parts.database.fetch(
        QUERIES["people"], company.business, [made], [person.name], [person.phone], [phone_key(person.phone)]
    )
    return made


def _person(key: str, customer: Customer, number: int, line: Line) -> Person:
    phone = customer.phone or (UNREACHABLE_NUMBER if customer.unreachable else NUMBERS.format(number))
    return Person(key=key, name=customer.name, phone=phone, telephone=Telephone(line, phone))


def _ms(of: timedelta) -> int:
    return int(of.total_seconds() * 1000)
