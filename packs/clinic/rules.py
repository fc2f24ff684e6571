"""When the clinic can take whom. Pure: the clinic's facts and the instant go in, a decision comes out.

Instants are in UTC; opening hours are local times of the clinic's zone. A slot is free when it lies inside
one stretch of opening hours on a day that is none off, after now, beside what its dentist and its customer have
booked, what others hold, and its dentist's time off.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from packs.clinic.dates import NamedDays, normal
from packs.clinic.facts import Dentist, Diary, PartOfDay, Service, Span, Why, merged
from shared.packs import Refusal

GRID: Final = timedelta(minutes=15)  # slots offered begin on it; a customer may ask for any minute
APPOINTMENT_MAX: Final = timedelta(minutes=480)  # the schema's bound on a service
OFFERED_MAX: Final = 8
ALTERNATIVES_MAX: Final = 3
OTHER_DENTIST_WEIGHS: Final = timedelta(minutes=30)  # how far the same dentist is preferred as an alternative

_PARTS: Final = {
    PartOfDay.MORNING: (time(0), time(12)),
    PartOfDay.AFTERNOON: (time(12), time(17)),
    PartOfDay.EVENING: (time(17), time.max),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for, as the model put it; `start` is an instant already."""

    service: str
    dentist: str | None
    start: datetime
    leaving: date | None = None  # the day that an appointment moves away from: a customer may name both


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    start: datetime
    dentist: Dentist


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookable:
    """It can be booked now, with this dentist."""

    service: Service
    dentist: Dentist
    start: datetime


def instant(text: str, zone: ZoneInfo) -> datetime | Refusal:
    """An ISO time as an instant; local where it states no offset. Of an hour that exists twice, the first."""
    stated = datetime.fromisoformat(text)
    if stated.tzinfo is not None:
        return stated.astimezone(UTC)
    meant = stated.replace(tzinfo=zone).astimezone(UTC)
    if meant.astimezone(zone).replace(tzinfo=None) != stated:
        return Refusal(code=Why.NO_SUCH_TIME)
    return meant


def local_iso(start: datetime, zone: ZoneInfo) -> str:
    """The instant as the clinic's clock shows it, with its offset: one text, one instant."""
    return start.astimezone(zone).isoformat(timespec="minutes")


def judge(wish: Wish, diary: Diary, *, now: datetime, named: NamedDays) -> Bookable | Refusal:
    """Can this be booked? `named` is what the customer's own words say of the day."""
    service = find_service(diary, wish.service)
    if isinstance(service, Refusal):
        return service
    able = find_able(diary, service, wish.dentist)
    if isinstance(able, Refusal):
        return able
    day = diary.today(wish.start)
    if wish.start <= now:
        return Refusal(code=Why.IN_THE_PAST)
    if day > diary.last_day(now):
        return Refusal(code=Why.TOO_FAR, detail={"last_day": diary.last_day(now).isoformat()})
    if not _agrees(named, day, wish.leaving):
        days = sorted({*named.days(diary.today(now)), day})
        return Refusal(code=Why.DATE_MISMATCH, detail={"days": [one.isoformat() for one in days]})
    return _judge_time(diary, service, able, wish.start)


def find_service(diary: Diary, asked: str) -> Service | Refusal:
    """By code or by a name in any language, but for case and accents."""
    wanted = normal(asked)
    for service in diary.services:
        if wanted in {service.code, *map(normal, service.names.values())}:
            return service
    return Refusal(
        code=Why.UNKNOWN_SERVICE, detail={"services": {one.code: dict(one.names) for one in diary.services}}
    )


def find_able(diary: Diary, service: Service, asked: str | None) -> Sequence[Dentist] | Refusal:
    """Who could do it: the dentist asked for, else everybody who offers it, in the clinic's order."""
    offering = [dentist for dentist in diary.dentists if service.code in dentist.services]
    if asked is None:
        return offering or Refusal(code=Why.NOT_OFFERED, detail={"dentists": []})
    words = _name_words(asked)
    known = {dentist: _name_words(dentist.name) for dentist in diary.dentists}
    called = [one for one in known if words and words == known[one]]  # a whole name before part of another
    called = called or [one for one in known if words and words <= known[one]]
    if len(called) != 1:
        return Refusal(code=Why.UNKNOWN_DENTIST, detail={"dentists": [one.name for one in diary.dentists]})
    if called[0] not in offering:
        return Refusal(code=Why.NOT_OFFERED, detail={"dentists": [one.name for one in offering]})
    return called


def open_on(diary: Diary, day: date) -> list[Span]:
    """The stretches of a local day in which the clinic is open, as instants; none on a day off."""
    if day in diary.holidays:
        return []
    return [
        (_at(day, one.opens, diary.zone), _at(day, one.closes, diary.zone))
        for one in diary.hours
        if one.weekday == day.isoweekday()
    ]


def open_between(diary: Diary, begins: datetime, ends: datetime) -> list[Span]:
    """When the clinic is open between two instants, in order and apart."""
    days = days_from(diary.today(begins), diary.today(ends))
    spans = [(max(opens, begins), min(closes, ends)) for day in days for opens, closes in open_on(diary, day)]
    return merged(span for span in spans if span[0] < span[1])


def week(diary: Diary) -> dict[int, list[str]]:
    """For each ISO weekday its stretches of opening hours, "09:00-13:00"; none on a closed day."""
    stretches: dict[int, list[str]] = {weekday: [] for weekday in range(1, 8)}
    for one in diary.hours:
        stretches[one.weekday].append(f"{one.opens:%H:%M}-{one.closes:%H:%M}")
    return stretches


def free_slots(
    diary: Diary, service: Service, able: Iterable[Dentist], days: Iterable[date], *, now: datetime
) -> Iterator[Slot]:
    """Every free slot on the grid, day by day, with each dentist who could do it."""
    dentists = list(able)
    for day in days:
        for opens, closes in open_on(diary, day):
            start = opens
            while start + service.length <= closes:
                if start > now and not _clashes(diary.own, start, start + service.length):
                    yield from (
                        Slot(start=start, dentist=dentist)
                        for dentist in dentists
                        if _is_free(diary, dentist, start, start + service.length)
                    )
                start += GRID


def offered(slots: Iterable[Slot], zone: ZoneInfo, part: PartOfDay | None) -> list[Slot]:
    """One slot per start, in the part of the day asked for; at most OFFERED_MAX, spread over what is free."""
    begins, ends = _PARTS[part] if part else (time.min, time.max)
    by_start: dict[datetime, Slot] = {}
    for slot in slots:
        if begins <= slot.start.astimezone(zone).time() < ends:
            by_start.setdefault(slot.start, slot)
    found = [by_start[start] for start in sorted(by_start)]
    if len(found) <= OFFERED_MAX:
        return found
    return [found[index * len(found) // OFFERED_MAX] for index in range(OFFERED_MAX)]


def nearest(slots: Iterable[Slot], wish: Wish, length: timedelta) -> list[Slot]:
    """The free slots nearest to what was asked, soonest first, none overlapping another.

    Another dentist's count as further away, so that a customer keeps their own where the time allows.
    """
    words = _name_words(wish.dentist or "")

    def away(slot: Slot) -> tuple[timedelta, datetime]:
        other = not words <= _name_words(slot.dentist.name)
        return abs(slot.start - wish.start) + (OTHER_DENTIST_WEIGHS if other else timedelta()), slot.start

    chosen: list[Slot] = []
    for slot in sorted(slots, key=away):
        if all(abs(slot.start - one.start) >= length for one in chosen):
            chosen.append(slot)
        if len(chosen) == ALTERNATIVES_MAX:
            break
    return sorted(chosen, key=lambda slot: slot.start)


def days_from(first: date, last: date) -> list[date]:
    return [first + timedelta(days=count) for count in range((last - first).days + 1)]


def _judge_time(
    diary: Diary, service: Service, able: Sequence[Dentist], start: datetime
) -> Bookable | Refusal:
    end = start + service.length
    spans = open_on(diary, diary.today(start))
    if not any(opens <= start and end <= closes for opens, closes in spans):
        return Refusal(code=Why.CLOSED, detail=_closed(diary, diary.today(start)))
    own = _clashes(diary.own, start, end)
    if own:
        return Refusal(code=Why.OVERLAPS_OWN, detail={"own": local_iso(own[0], diary.zone)})
    for dentist in able:
        if _is_free(diary, dentist, start, end):
            return Bookable(service=service, dentist=dentist, start=start)
    if all(_clashes(diary.off.get(dentist.no, []), start, end) for dentist in able):
        return Refusal(code=Why.DENTIST_AWAY, detail={"dentists": [dentist.name for dentist in able]})
    return Refusal(code=Why.SLOT_TAKEN)


def _closed(diary: Diary, day: date) -> dict[str, Any]:
    """What is open on a day, or why nothing is."""
    detail: dict[str, Any] = {"open": [_clock_span(span, diary.zone) for span in open_on(diary, day)]}
    if day in diary.holidays:
        detail["holiday"] = dict(diary.holidays[day])
    return detail


def _agrees(named: NamedDays, day: date, leaving: date | None) -> bool:
    """Do the customer's words fit the day? They may name the day an appointment moves away from as well."""
    if named.agrees(day):
        return True
    rest = named.without(leaving) if leaving else named
    return bool(rest) and rest.agrees(day)


def _is_free(diary: Diary, dentist: Dentist, start: datetime, end: datetime) -> bool:
    return _clashes(diary.spans.get(dentist.no, []), start, end) is None


def _clashes(spans: Sequence[Span], start: datetime, end: datetime) -> Span | None:
    """The span that overlaps. They are sorted and apart, so only the last that begins before `end` can."""
    before = bisect_left(spans, (end,))
    return spans[before - 1] if before and spans[before - 1][1] > start else None


def _at(day: date, at: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, at, zone).astimezone(UTC)


def _clock_span(span: Span, zone: ZoneInfo) -> str:
    return "-".join(f"{end.astimezone(zone):%H:%M}" for end in span)


def _name_words(name: str) -> frozenset[str]:
    """A name's words without title, case and accents."""
    return frozenset(normal(name).replace(".", " ").split()) - {
        "dr",
        "doctor",
        "doctorul",
        "doamna",
        "domnul",
    }
