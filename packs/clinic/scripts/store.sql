-- What scripts do to a clinic's tables and read of them, as its tenant: `add_…`, `change_…` and `all_…` of what a script names.

-- name: add_appointments
-- Appointments as staff make them, past ones too: start is local.
-- $1 business int · $2 documents json: id, customer, service, start, dentist?, note?
insert into clinic.appointment (id, business, customer, dentist_no, service, starts_at, ends_at, idempotency_key, note)
select d.id, $1, d.customer, p.no, s.code, d.start at time zone b.time_zone, d.start at time zone b.time_zone + make_interval(mins => s.minutes), 'staff-' || d.id, d.note
from json_to_recordset($2::json) as d (id uuid, customer uuid, service text, start timestamp, dentist text, note text)
  join leeway.business b on b.id = $1 join clinic.service s on s.business = $1 and s.code = d.service
  join lateral (select x.no from clinic.dentist x join clinic.offer o on o.business = x.business and o.dentist_no = x.no and o.service = s.code
                where x.business = $1 and x.name = coalesce(d.dentist, x.name) order by x.no limit 1) p on true

-- name: change_appointments
-- Staff move or cancel appointments.
-- $1 business int · $2 documents json: id, start?, state?
update clinic.appointment a set state = coalesce(d.state, a.state), starts_at = coalesce(d.start at time zone b.time_zone, a.starts_at),
  ends_at = coalesce(d.start at time zone b.time_zone + (a.ends_at - a.starts_at), a.ends_at)
from json_to_recordset($2::json) as d (id uuid, start timestamp, state text) join leeway.business b on b.id = $1
where a.business = $1 and a.id = d.id

-- name: all_appointments
-- Every appointment that stands.
-- $1 business int
select a.id::text, a.customer::text, a.service, d.name as dentist, to_char(a.starts_at at time zone b.time_zone, 'YYYY-MM-DD"T"HH24:MI') as start
from clinic.appointment a join leeway.business b on b.id = a.business join clinic.dentist d on d.business = a.business and d.no = a.dentist_no
where a.business = $1 and a.state = 'booked' order by a.starts_at, a.id

-- name: add_holidays
-- Days on which the clinic is closed.
-- $1 business int · $2 documents json: day, name
insert into clinic.holiday (business, day, names) select $1, d.day, json_build_object('en', d.name)::jsonb from json_to_recordset($2::json) as d (day date, name text)

-- name: add_time_off
-- A dentist is away.
-- $1 business int · $2 documents json: dentist, from, until
insert into clinic.time_off (business, dentist_no, starts_at, ends_at)
select $1, p.no, d."from" at time zone b.time_zone, d.until at time zone b.time_zone
from json_to_recordset($2::json) as d (dentist text, "from" timestamp, until timestamp) join leeway.business b on b.id = $1
  join clinic.dentist p on p.business = $1 and p.name = d.dentist

-- name: all_patients
-- The names that customers gave.
-- $1 business int
select p.customer::text, p.name from clinic.patient p where p.business = $1 order by p.customer
