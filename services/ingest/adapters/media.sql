-- name: claim
-- M0: parts whose content is to be fetched, for this process alone until the claim's end, which is its name. A process that dies over one leaves it
-- due again. $1 most int · $2 tries at most int · $3 how long a claim holds interval
with due as materialized (
  select message, n, business from media_part where due_at <= now() and tries < $2 order by due_at limit $1 for no key update skip locked),
claimed as (
  update media_part p set due_at = now() + $3::interval, tries = p.tries + 1 from due d where p.message = d.message and p.n = d.n and p.business = d.business
  returning p.message, p.n, p.business, p.kind, p.mime, p.reference, p.tries, p.due_at)
select p.*, a.id as account, a.channel, a.secrets, a.settings
from claimed p join inbound_message m on m.id = p.message and m.business = p.business join channel_account a on a.id = m.account and a.business = p.business

-- name: give_up
-- M1: parts whose last claim ran out: whoever had it died over it. $1 tries at most int
update media_part p set state = 'failed', reason = 'not fetched', due_at = null where due_at <= now() and tries >= $1 returning p.message

-- name: store
-- M2: the content is here. Nothing where another process has the claim ($4) by now.
-- $1 message uuid · $2 n int · $3 business int · $4 claim timestamptz · $5 content bytea
update media_part p set state = 'stored', reason = null, due_at = null, content = $5, bytes = octet_length($5::bytea) where p.message = $1 and p.n = $2 and p.business = $3 and p.due_at = $4 returning p.n

-- name: end
-- M3: it will never be here. $5 state text · $6 reason text
update media_part p set state = $5, reason = $6, due_at = null where p.message = $1 and p.n = $2 and p.business = $3 and p.due_at = $4 returning p.n

-- name: later
-- M4: not this time; due again after a pause. $5 reason text · $6 pause interval
update media_part p set reason = $5, due_at = now() + $6::interval where p.message = $1 and p.n = $2 and p.business = $3 and p.due_at = $4 returning p.n
