-- Every query runs as leeway_tenant: row-level security shows the turn's business alone. $1 is that business, said again.

-- name: ledger
-- The currency of an expense whose customer names none; no row where the business has set none.
select currency from expenses.ledger where business = $1

-- name: totals
-- What the sender ($2) spent, one row a currency, with the number of expenses in it.
select currency, sum(amount)::text as total, count(*)::int as expenses
from expenses.expense
where business = $1 and customer = $2 and state = 'kept'
group by currency
order by currency

-- name: list
-- The sender's ($2) newest expenses, at most $3, the newest first, each with how many there are in all.
select no, item, amount::text as amount, currency, added_at, (count(*) over ())::int as of
from expenses.expense
where business = $1 and customer = $2 and state = 'kept'
order by no desc
limit $3

-- name: find
-- The sender's ($2) expense of that number ($3). One that was deleted, or is another's, is not there.
select no, item, amount::text as amount, currency
from expenses.expense
where business = $1 and customer = $2 and no = $3 and state = 'kept'

-- name: add
-- An expense under the sender's ($2) next number, unless its key ($3) has made one before. Additions of one customer wait
-- for each other at their numbering.
with again as (
  select from expenses.expense where business = $1 and added_key = $3),
numbered as (
  insert into expenses.numbering as n (business, customer, last_no)
  select $1, $2, 1 where not exists (select from again)
  on conflict (business, customer) do update set last_no = n.last_no + 1
  returning last_no)
insert into expenses.expense (business, customer, no, item, amount, currency, added_at, added_key)
select $1, $2, last_no, $4, $5, $6, $7, $3 from numbered
on conflict (added_key, business) do nothing

-- name: added
-- The sender's ($2) expense that the key $3 made, as it was added.
select no, item, amount::text as amount, currency
from expenses.expense
where business = $1 and customer = $2 and added_key = $3

-- name: delete
-- The sender's ($2) expense of that number ($3) is marked at $5 as deleted by the key $4, unless that key has deleted before.
update expenses.expense set state = 'deleted', deleted_key = $4, deleted_at = $5
where business = $1 and customer = $2 and no = $3 and state = 'kept'
  and not exists (select from expenses.expense where business = $1 and deleted_key = $4)

-- name: deleted
-- The sender's ($2) expense that the key $3 deleted, as it was.
select no, item, amount::text as amount, currency
from expenses.expense
where business = $1 and customer = $2 and deleted_key = $3

-- name: seed
-- A ledger in the currency $2, unless the business has one already: then nothing changes.
insert into expenses.ledger (business, currency) values ($1, $2)
on conflict (business) do nothing
