-- Every query runs as leeway_tenant: row-level security shows the turn's business alone. $1 is that business, said again.

-- name: diary
-- All that deciding about appointments takes: the clinic's own data, and what is booked between $3 and $4. $2 is the sender.
-- No appointment is longer than 480 minutes (checked by the table), which bounds how early one may begin that reaches in.
select json_build_object(
  'name', b.name, 'address', p.address, 'phone', p.phone, 'currency', p.currency, 'horizon_days', p.horizon_days,
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
  'busy', (
    select coalesce(json_agg(json_build_object(
      'dentist_no', a.dentist_no, 'mine', a.customer = $2,
      'starts_at', extract(epoch from a.starts_at)::bigint, 'ends_at', extract(epoch from a.ends_at)::bigint)
      order by a.starts_at), '[]')
    from clinic.appointment a
    where a.business = $1 and a.state = 'booked'
      and a.starts_at > $3::timestamptz - interval '480 minutes' and a.starts_at < $4 and a.ends_at > $3)
)::text as facts
from clinic.practice p join leeway.business b on b.id = p.business
where p.business = $1

-- name: my_appointments
-- The sender's ($2) own appointments that are not over at $3, soonest first.
select a.id, s.names::text as names, d.name as dentist, a.starts_at
from clinic.appointment a
join clinic.dentist d on d.business = a.business and d.no = a.dentist_no
join clinic.service s on s.business = a.business and s.code = a.service
where a.business = $1 and a.customer = $2 and a.state = 'booked' and a.ends_at > $3
order by a.starts_at
limit 20

-- name: book
-- One appointment for the sender ($2), unless its key ($4) has made one before. The dentist's row is locked first: two who
-- want one hour then meet there in turn, where they would wait for each other inside the constraint and end in a deadlock.
with chosen as (
  select d.no, s.code, s.minutes
  from clinic.dentist d
  join clinic.offer o on o.business = d.business and o.dentist_no = d.no
  join clinic.service s on s.business = o.business and s.code = o.service
  where d.business = $1 and d.name = $6 and s.code = $5
  for no key update of d)
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

-- name: seed
-- A clinic's own data from one JSON document ($2), unless the business has a clinic already: then nothing changes.
with practice as (
  insert into clinic.practice (business, address, phone, currency)
  select $1, j ->> 'address', j ->> 'phone', j ->> 'currency' from (select $2::text::jsonb as j) document
  on conflict (business) do nothing
  returning business),
document as (select business, $2::text::jsonb as j from practice),
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
  join dentist on dentist.name = d ->> 'name', jsonb_array_elements_text(d -> 'services') code)
insert into clinic.opening (business, weekday, opens, closes)
select business, h.weekday, h.opens, h.closes
from document, jsonb_to_recordset(j -> 'hours') as h (weekday smallint, opens time, closes time)
