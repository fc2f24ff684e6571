-- A dental clinic: who works there, what they do, when it is open, who comes when. Used as role leeway_tenant only.
-- Tables that are read whole for a business have it first in their key; an appointment is found by its id.

create schema if not exists clinic;

create table clinic.practice (
  business int primary key references leeway.business,
  address text not null check (length(address) between 1 and 200),
  phone text not null check (length(phone) between 1 and 40),
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  horizon_days int not null default 180 check (horizon_days between 1 and 366));
comment on column clinic.practice.horizon_days is 'how far ahead an appointment may lie';

create table clinic.service (
  business int not null references clinic.practice,
  code text not null check (code ~ '^[a-z][a-z0-9_]{0,39}$'),
  names jsonb not null check (jsonb_typeof(names) = 'object' and names ? 'en'),
  minutes int not null check (minutes between 5 and 480),
  price numeric(10, 2) not null check (price >= 0),
  primary key (business, code));
comment on column clinic.service.names is 'language → name; English is always there';

create table clinic.dentist (
  business int not null references clinic.practice,
  no bigint generated always as identity unique,
  name text not null check (length(name) between 1 and 80),
  primary key (business, no),
  unique (business, name));
comment on column clinic.dentist.no is 'unique in the whole installation: the constraint against double booking counts on it';

create table clinic.offer (
  business int not null,
  dentist_no bigint not null, service text not null,
  primary key (business, dentist_no, service),
  foreign key (business, dentist_no) references clinic.dentist (business, no),
  foreign key (business, service) references clinic.service (business, code));

-- Local times of the business's zone. A lunch break is the gap between two rows of a weekday.
create table clinic.opening (
  business int not null references clinic.practice,
  weekday smallint not null check (weekday between 1 and 7),
  opens time not null, closes time not null,
  check (closes > opens and closes < '24:00'),
  primary key (business, weekday, opens));
comment on column clinic.opening.weekday is 'ISO: 1 is Monday';

-- A range over uuid makes "the same customer" an overlap, which GiST knows without an extension.
create type clinic.uuid_range as range (subtype = uuid);

create table clinic.appointment (
  id uuid, business int not null,
  customer uuid not null,
  dentist_no bigint not null, service text not null,
  starts_at timestamptz not null, ends_at timestamptz not null,
  state text not null default 'booked' check (state in ('booked', 'cancelled')),
  idempotency_key text not null check (length(idempotency_key) between 1 and 200),
  booked_at timestamptz not null default now(),
  primary key (id, business),
  unique (idempotency_key, business),
  check (ends_at > starts_at and ends_at <= starts_at + interval '480 minutes'),
  foreign key (customer, business) references leeway.customer (id, business),
  foreign key (business, dentist_no) references clinic.dentist (business, no),
  foreign key (business, service) references clinic.service (business, code),
  constraint appointment_dentist_free exclude using gist (
    int8range(dentist_no, dentist_no, '[]') with &&, tstzrange(starts_at, ends_at) with &&) where (state = 'booked'),
  constraint appointment_customer_free exclude using gist (
    clinic.uuid_range(customer, customer, '[]') with &&, tstzrange(starts_at, ends_at) with &&) where (state = 'booked'));
create index appointment_diary on clinic.appointment (business, starts_at);
create index appointment_customer on clinic.appointment (customer, starts_at);

select leeway.secure_table(t::regclass, 'business') from unnest(array[
  'clinic.practice', 'clinic.service', 'clinic.dentist', 'clinic.offer', 'clinic.opening', 'clinic.appointment']) t;

grant usage on schema clinic to leeway_tenant;
grant select, insert on all tables in schema clinic to leeway_tenant;
-- A booking locks its dentist's row, which takes the right to update one of its columns.
grant update (name) on clinic.dentist to leeway_tenant;
