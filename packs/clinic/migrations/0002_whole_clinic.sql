-- What a clinic needs besides booking: days off, holds, names, notes, and each change once.

alter table clinic.practice add holds boolean not null default false;
comment on column clinic.practice.holds is 'whether a proposed booking keeps its slot for 15 minutes';

alter table clinic.appointment add note text check (length(note) between 1 and 1000);
comment on column clinic.appointment.note is 'written by staff; the model sees it as untrusted text';

-- Public holidays, and whatever else closes the clinic for a whole local day.
create table clinic.holiday (
  business int not null references clinic.practice,
  day date not null,
  names jsonb not null check (jsonb_typeof(names) = 'object' and names ? 'en'),
  primary key (business, day));
comment on column clinic.holiday.names is 'language → name; English is always there';

create table clinic.time_off (
  business int not null,
  dentist_no bigint not null,
  starts_at timestamptz not null, ends_at timestamptz not null,
  check (ends_at > starts_at),
  primary key (business, dentist_no, starts_at),
  foreign key (business, dentist_no) references clinic.dentist (business, no));

-- A customer holds one slot at most. A hold keeps others from being offered the slot; what is booked decides the constraint.
create table clinic.hold (
  business int not null, customer uuid not null,
  dentist_no bigint not null,
  starts_at timestamptz not null, ends_at timestamptz not null,
  expires_at timestamptz not null,
  check (ends_at > starts_at),
  primary key (business, customer),
  foreign key (customer, business) references leeway.customer (id, business),
  foreign key (business, dentist_no) references clinic.dentist (business, no));
create index hold_open on clinic.hold (business, expires_at);

create table clinic.patient (
  business int not null, customer uuid not null,
  name text not null check (length(name) between 1 and 60),
  primary key (business, customer),
  foreign key (customer, business) references leeway.customer (id, business));
comment on column clinic.patient.name is 'as the customer gave and confirmed it';

-- One row for each change that was carried out; its key makes a second attempt find that it was.
create table clinic.change (
  business int not null, key text not null check (length(key) between 1 and 200),
  customer uuid not null,
  kind text not null check (kind in ('reschedule', 'cancel', 'rename')),
  appointment uuid,
  at timestamptz not null default now(),
  constraint change_once primary key (business, key),
  check ((appointment is null) = (kind = 'rename')),
  foreign key (customer, business) references leeway.customer (id, business),
  foreign key (appointment, business) references clinic.appointment (id, business));
create index change_appointment on clinic.change (appointment, at) where appointment is not null;

select leeway.secure_table(t::regclass, 'business') from unnest(array[
  'clinic.holiday', 'clinic.time_off', 'clinic.hold', 'clinic.patient', 'clinic.change']) t;

grant select, insert on clinic.holiday, clinic.time_off, clinic.hold, clinic.patient, clinic.change to leeway_tenant;
grant update (starts_at, ends_at, state) on clinic.appointment to leeway_tenant;
grant update (name) on clinic.patient to leeway_tenant;
grant update (dentist_no, starts_at, ends_at, expires_at), delete on clinic.hold to leeway_tenant;
