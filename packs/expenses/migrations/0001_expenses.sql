-- What customers spent. Used as role leeway_tenant only. Every table is read for one business, mostly for one customer of it.

create schema if not exists expenses;

create table expenses.ledger (
  business int primary key references leeway.business,
  currency text not null check (currency ~ '^[A-Z]{3}$'));
comment on column expenses.ledger.currency is 'of an expense whose customer named none';

-- The last number each customer's expenses were given. Its row is what two additions at once wait for.
create table expenses.numbering (
  business int not null, customer uuid not null,
  last_no int not null constraint numbering_full check (last_no between 1 and 99999),
  primary key (business, customer),
  foreign key (customer, business) references leeway.customer (id, business));

-- A deleted expense stays, marked: the receipt of its addition stays true, and its number is never given again.
create table expenses.expense (
  business int not null, customer uuid not null,
  no int not null,
  item text not null check (length(item) between 1 and 80),
  amount numeric(9, 2) not null check (amount > 0),
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  state text not null default 'kept' check (state in ('kept', 'deleted')),
  added_at timestamptz not null, added_key text not null check (length(added_key) between 1 and 200),
  deleted_at timestamptz, deleted_key text check (length(deleted_key) between 1 and 200),
  primary key (business, customer, no),
  unique (added_key, business),
  unique (deleted_key, business),
  check ((state = 'deleted') = (deleted_at is not null) and (state = 'deleted') = (deleted_key is not null)),
  foreign key (business, customer) references expenses.numbering);
comment on column expenses.expense.no is 'small, and the customer''s own: "delete expense 2"';

select leeway.secure_table(t::regclass, 'business') from unnest(array[
  'expenses.ledger', 'expenses.numbering', 'expenses.expense']) t;

grant usage on schema expenses to leeway_tenant;
grant select, insert on all tables in schema expenses to leeway_tenant;
grant update (last_no) on expenses.numbering to leeway_tenant;
grant update (state, deleted_at, deleted_key) on expenses.expense to leeway_tenant;
