-- Every query runs as leeway_tenant: row-level security shows the turn's business alone. $1 is that business, said again.

-- name: diary
-- All that deciding about appointments takes: the clinic's own data, and what is taken between $3 and $4. $2 is the sender.
-- $5, if not null, is the appointment that is about to move: it stands in nobody's way. Holds count until they expire ($6 is now).
-- No appointment is longer than 480 minutes (checked by the table), which bounds how early one may begin that reaches in.
-- Days off are told for 40 days more: the calendar in the prompt wants them without what is booked.
select json_build_object(
  'name', b.name, 'address', p.address, 'phone', p.phone, 'currency', p.currency, 'horizon_days', p.horizon_days,
  'holds', p.holds,
  'services', (
    select coalesce(json_agg(json_build_object(
      'code', s.code, 'names', s.names, 'minutes', s.minutes, 'price', s.price::text) order by s.minutes, s.code), '[]')
    from clinic.service s where s.business = $1),
  'dentists', (
    select coalesce(json_agg(json_build_object(
      'no', d.no, 'name', d.name, 'services', array(
        select o.service from clinic.offer o where o.business = $1 and o.dentist_no = d.no)) order by d.no), '[]')
    from clinic.dentist d where d.business = $1),
  'hours', (
    select coalesce(json_agg(json_build_object(
      'weekday', h.weekday, 'opens', to_char(h.opens, 'HH24:MI'), 'closes', to_char(h.closes, 'HH24:MI'))
      order by h.weekday, h.opens), '[]')
    from clinic.opening h where h.business = $1),
  'holidays', (
    select coalesce(json_agg(json_build_object('day', h.day, 'names', h.names) order by h.day), '[]')
    from clinic.holiday h
    where h.business = $1 and h.day >= (($3::timestamptz - interval '1 day') at time zone 'UTC')::date
      and h.day <= (($4::timestamptz + interval '40 days') at time zone 'UTC')::date),
  'away', (
    select coalesce(json_agg(json_build_object(
      'dentist_no', t.dentist_no,
      'starts_at', extract(epoch from t.starts_at)::bigint, 'ends_at', extract(epoch from t.ends_at)::bigint)
      order by t.starts_at, t.dentist_no), '[]')
    from clinic.time_off t
    where t.business = $1 and t.ends_at > $3 and t.starts_at < $4 + interval '40 days'),
  'busy', (
    select coalesce(json_agg(json_build_object(
      'dentist_no', taken.dentist_no, 'mine', taken.mine,
      'starts_at', extract(epoch from taken.starts_at)::bigint, 'ends_at', extract(epoch from taken.ends_at)::bigint)
      order by taken.starts_at), '[]')
    from (
      select a.dentist_no, a.customer = $2 as mine, a.starts_at, a.ends_at
      from clinic.appointment a
      where a.business = $1 and a.state = 'booked' and a.id is distinct from $5::uuid
        and a.starts_at > $3 - interval '480 minutes' and a.starts_at < $4 and a.ends_at > $3
      union all
      select h.dentist_no, false, h.starts_at, h.ends_at
      from clinic.hold h
      where h.business = $1 and h.customer <> $2 and h.expires_at > $6::timestamptz
        and h.starts_at < $4 and h.ends_at > $3) taken)
)::text as facts
from clinic.practice p join leeway.business b on b.id = p.business
where p.business = $1

-- name: my_appointments
-- The sender's ($2) own appointments that are not over at $3, soonest first.
select a.id, a.service, s.names::text as names, d.name as dentist, a.starts_at, a.note
from clinic.appointment a
join clinic.dentist d on d.business = a.business and d.no = a.dentist_no
join clinic.service s on s.business = a.business and s.code = a.service
where a.business = $1 and a.customer = $2 and a.state = 'booked' and a.ends_at > $3
order by a.starts_at
limit 20

-- name: own_appointment
-- The appointment $3, if it is the sender's ($2): one look-up, and the same nothing for another's and for none.
select a.id, a.state, a.service, s.names::text as names, d.name as dentist, a.starts_at
from clinic.appointment a
join clinic.dentist d on d.business = a.business and d.no = a.dentist_no
join clinic.service s on s.business = a.business and s.code = a.service
where a.business = $1 and a.customer = $2 and a.id = $3

-- name: book
-- One appointment for the sender ($2), unless its key ($4) has made one before; their hold has served. The dentist's row is
-- locked first: two who want one hour then meet there in turn, where they would wait for each other inside the constraint
-- and end in a deadlock.
with chosen as (
  select d.no, s.code, s.minutes
  from clinic.dentist d
  join clinic.offer o on o.business = d.business and o.dentist_no = d.no
  join clinic.service s on s.business = o.business and s.code = o.service
  where d.business = $1 and d.name = $6 and s.code = $5
  for no key update of d),
released as (delete from clinic.hold where business = $1 and customer = $2)
insert into clinic.appointment (id, business, customer, idempotency_key, dentist_no, service, starts_at, ends_at)
select $3, $1, $2, $4, no, code, $7::timestamptz, $7::timestamptz + make_interval(mins => minutes) from chosen
on conflict (idempotency_key, business) do nothing

-- name: booked
-- The sender's ($2) appointment that the key $3 made, as it was booked.
select a.id, s.names::text as names, d.name as dentist, a.starts_at
from clinic.appointment a
join clinic.dentist d on d.business = a.business and d.no = a.dentist_no
join clinic.service s on s.business = a.business and s.code = a.service
where a.business = $1 and a.customer = $2 and a.idempotency_key = $3

-- name: lock_dentist
-- Holds of one dentist are placed one after the other.
select d.no from clinic.dentist d where d.business = $1 and d.no = $2 order by d.no for no key update

-- name: hold
-- The sender ($2) holds a slot from $4 to $5 with dentist $3 until $6, in place of what they held; no row if it is taken at $7.
insert into clinic.hold (business, customer, dentist_no, starts_at, ends_at, expires_at)
select $1, $2, $3, $4, $5, $6
where not exists (
    select from clinic.hold h
    where h.business = $1 and h.customer <> $2 and h.dentist_no = $3 and h.expires_at > $7
      and h.starts_at < $5 and h.ends_at > $4)
  and not exists (
    select from clinic.appointment a
    where a.business = $1 and a.dentist_no = $3 and a.state = 'booked'
      and a.starts_at > $4::timestamptz - interval '480 minutes' and a.starts_at < $5 and a.ends_at > $4)
on conflict (business, customer) do update
set dentist_no = excluded.dentist_no, starts_at = excluded.starts_at, ends_at = excluded.ends_at,
  expires_at = excluded.expires_at
returning customer

-- name: reschedule
-- Moves the sender's ($2) appointment $3 from $7 to $8, unless the key ($4) has moved one before or it is not as it was shown
-- (service $5, dentist $6). One update: when the constraints refuse it, the appointment stands where it stood. The dentist's
-- row is locked first, as for a booking.
with chosen as (
  select d.no, s.code, s.minutes
  from clinic.dentist d
  join clinic.offer o on o.business = d.business and o.dentist_no = d.no
  join clinic.service s on s.business = o.business and s.code = o.service
  where d.business = $1 and d.name = $6 and s.code = $5
  order by d.no
  for no key update of d),
moved as (
  update clinic.appointment a
  set starts_at = $8::timestamptz, ends_at = $8::timestamptz + make_interval(mins => chosen.minutes)
  from chosen
  where a.business = $1 and a.customer = $2 and a.id = $3 and a.state = 'booked'
    and a.dentist_no = chosen.no and a.service = chosen.code and date_trunc('minute', a.starts_at) = $7::timestamptz
    and not exists (select from clinic.change c where c.business = $1 and c.key = $4)
  returning a.id)
insert into clinic.change (business, key, customer, kind, appointment)
select $1, $4, $2, 'reschedule', id from moved

-- name: cancel
-- Cancels the sender's ($2) appointment $3, unless the key ($4) has cancelled one before or it is not as it was shown
-- (dentist $5, start $6).
with gone as (
  update clinic.appointment a
  set state = 'cancelled'
  from clinic.dentist d
  where a.business = $1 and a.customer = $2 and a.id = $3 and a.state = 'booked'
    and d.business = $1 and d.no = a.dentist_no and d.name = $5 and date_trunc('minute', a.starts_at) = $6::timestamptz
    and not exists (select from clinic.change c where c.business = $1 and c.key = $4)
  returning a.id)
insert into clinic.change (business, key, customer, kind, appointment)
select $1, $4, $2, 'cancel', id from gone

-- name: changed
-- Whether the key $3 has carried out a change for the sender ($2).
select c.kind from clinic.change c where c.business = $1 and c.customer = $2 and c.key = $3

-- name: my_name
-- The sender's ($2) name, as they gave and confirmed it.
select p.name from clinic.patient p where p.business = $1 and p.customer = $2

-- name: rename
-- The sender's ($2) name is $4 from now on, unless the key ($3) has said so before.
with once as (
  insert into clinic.change (business, key, customer, kind) values ($1, $3, $2, 'rename')
  on conflict (business, key) do nothing
  returning business)
insert into clinic.patient (business, customer, name) select $1, $2, $4 from once
on conflict (business, customer) do update set name = excluded.name

-- name: reminders
-- What is booked and begins after $2 and not after $3, whoever comes.
select a.id, a.customer, s.names::text as names, d.name as dentist, a.starts_at
from clinic.appointment a
join clinic.dentist d on d.business = a.business and d.no = a.dentist_no
join clinic.service s on s.business = a.business and s.code = a.service
where a.business = $1 and a.state = 'booked' and a.starts_at > $2 and a.starts_at <= $3
order by a.starts_at, a.id

-- name: dentists
-- Who works at the clinic.
select d.no, d.name from clinic.dentist d where d.business = $1 order by d.no

-- name: dentist_calendar
-- Dentist $2's appointments that begin after $3, cancelled ones too, each with when it was last changed and how often.
select a.id, a.state, s.names::text as names, a.starts_at, a.ends_at, a.note, p.address,
  coalesce(n.name, c.name) as patient, coalesce(changes.last, a.booked_at) as stamp, changes.times
from clinic.appointment a
join clinic.practice p on p.business = a.business
join clinic.service s on s.business = a.business and s.code = a.service
join leeway.customer c on c.id = a.customer and c.business = a.business
left join clinic.patient n on n.business = a.business and n.customer = a.customer
cross join lateral (
  select max(h.at) as last, count(*)::int as times from clinic.change h where h.appointment = a.id) changes
where a.business = $1 and a.dentist_no = $2 and a.starts_at > $3
order by a.starts_at, a.id

-- name: seed
-- A clinic's own data from one JSON document ($2), unless the business has a clinic already: then nothing changes.
-- Time off begins so many weeks after the Monday before $3, for so many days, in the business's zone.
with practice as (
  insert into clinic.practice (business, address, phone, currency)
  select $1, j ->> 'address', j ->> 'phone', j ->> 'currency' from (select $2::text::jsonb as j) document
  on conflict (business) do nothing
  returning business),
document as (
  select p.business, $2::text::jsonb as j, b.time_zone as zone
  from practice p join leeway.business b on b.id = p.business),
service as (
  insert into clinic.service (business, code, names, minutes, price)
  select business, s.code, s.names, s.minutes, s.price
  from document, jsonb_to_recordset(j -> 'services') as s (code text, names jsonb, minutes int, price numeric)),
dentist as (
  insert into clinic.dentist (business, name)
  select business, d ->> 'name' from document, jsonb_array_elements(j -> 'dentists') d
  returning no, name),
offer as (
  insert into clinic.offer (business, dentist_no, service)
  select document.business, dentist.no, code
  from document, jsonb_array_elements(j -> 'dentists') d
  join dentist on dentist.name = d ->> 'name', jsonb_array_elements_text(d -> 'services') code),
holiday as (
  insert into clinic.holiday (business, day, names)
  select business, h.day, h.names from document, jsonb_to_recordset(j -> 'holidays') as h (day date, names jsonb)),
time_off as (
  insert into clinic.time_off (business, dentist_no, starts_at, ends_at)
  select document.business, dentist.no, first.day at time zone zone, (first.day + make_interval(days => t.days)) at time zone zone
  from document, jsonb_to_recordset(j -> 'time_off') as t (dentist text, weeks_ahead int, days int)
  join dentist on dentist.name = t.dentist,
  lateral (
    select date_trunc('week', $3::timestamptz at time zone zone) + make_interval(weeks => t.weeks_ahead) as day) first)
insert into clinic.opening (business, weekday, opens, closes)
select business, h.weekday, h.opens, h.closes
from document, jsonb_to_recordset(j -> 'hours') as h (weekday smallint, opens time, closes time)
