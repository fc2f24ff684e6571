-- What scripts do to the tables of expenses and read of them, as their tenant: `add_…` and `all_…` of what a script names.

-- name: add_expenses
-- Expenses that are there already, numbered in their order for each customer.
-- $1 business int · $2 documents json: id, customer, item, amount, currency?
with d as materialized (
  select x.*, row_number() over (partition by x.customer order by x.place) as no
  from (select r.*, row_number() over () as place from json_to_recordset($2::json) as r (id uuid, customer uuid, item text, amount numeric, currency text)) x),
numbered as (
  insert into expenses.numbering (business, customer, last_no) select $1, customer, max(no) from d group by customer returning customer)
insert into expenses.expense (business, customer, no, item, amount, currency, added_at, added_key)
select $1, d.customer, d.no, d.item, d.amount, coalesce(d.currency, l.currency), leeway.business_now(), 'script-' || d.id
from d join numbered n on n.customer = d.customer join expenses.ledger l on l.business = $1

-- name: all_expenses
-- Every expense that is kept.
-- $1 business int
select e.customer::text, e.no, e.item, e.amount::text as amount, e.currency from expenses.expense e where e.business = $1 and e.state = 'kept' order by e.customer, e.no
