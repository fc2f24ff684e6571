-- name: drafts
-- What waits as drafts, oldest first, of a business or of all; or one of them.
-- $1 slug text (null: all) · $2 most int · $3 outbound uuid (null: all)
select b.slug as business, o.conversation, p.name, i.user_id as address, k.channel, o.id, o.reason, o.body as text, o.round, sha256(convert_to(o.body, 'UTF8')) as digest, o.receipt, o.parts, o.parts_sent,
  a.summary, a.tool, o.created_at as since, business_now() as now,
  o.reason is not distinct from 'may_have_arrived'
    or exists (select from send_attempt t where t.outbound = o.id and t.state in ('unknown', 'undecided', 'retried')) as may_have_left
from outbound o join business b on b.id = o.business join conversation c on c.id = o.conversation join customer p on p.id = c.customer
  join channel_identity i on i.conversation = o.conversation join channel_account k on k.id = c.account and k.business = o.business
  left join pending_action a on a.id = o.action and a.prompt = o.id and a.state || '' = 'customer'
where o.state = 'draft' and b.slug = coalesce($1::text, b.slug) and o.id = coalesce($3::uuid, o.id)
order by o.created_at, o.id limit $2

-- name: approvals
-- Actions that wait for an operator and that nobody decided about, oldest first, of a business or of all.
-- $1 slug text (null: all) · $2 most int
select b.slug as business, a.conversation, p.name, i.user_id as address, k.channel, a.id, a.tool, a.summary, a.waits_until as until, business_now() as now,
  coalesce(f.at, a.created_at) as since, f.at is not null as confirmed
from pending_action a join business b on b.id = a.business join conversation c on c.id = a.conversation join customer p on p.id = c.customer
  join channel_identity i on i.conversation = a.conversation join channel_account k on k.id = c.account and k.business = a.business
  cross join lateral (select max(x.at) as at from confirmation x where x.action = a.id) f
where a.state = 'operator' and a.decision is null and b.slug = coalesce($1::text, b.slug)
order by since, a.id limit $2

-- name: handoffs
-- Conversations that people answer, oldest first, of a business or of all, with what the customer said last.
-- $1 slug text (null: all) · $2 most int
select b.slug as business, h.conversation, p.name, i.user_id as address, k.channel, h.reason, h.claimed_by, m.body as said, h.opened_at as since, business_now() as now
from handoff h join conversation_state s on s.conversation = h.conversation and s.state = 'handoff' and s.handoff_epoch = h.epoch
  join business b on b.id = h.business join conversation c on c.id = h.conversation join customer p on p.id = c.customer
  join channel_identity i on i.conversation = h.conversation join channel_account k on k.id = c.account and k.business = h.business
  left join lateral (select x.body from inbound_message x where x.conversation = h.conversation and x.kind <> 'echo' order by x.seq desc nulls first limit 1) m on true
where h.released_at is null and b.slug = coalesce($1::text, b.slug)
order by h.opened_at, h.conversation limit $2

-- name: find_drafts
-- Replies whose id lies between two; drafts first, then what was decided about.
-- $1 first uuid · $2 last uuid
select o.id, case when o.state = 'draft' then 0 when exists (select from draft_decision d where d.outbound = o.id) then 1 else 2 end as rank
from outbound o where o.id between $1 and $2 order by rank limit 2

-- name: find_approvals
-- Actions whose id lies between two; first what waits for an operator, then what was decided about.
-- $1 first uuid · $2 last uuid
select a.id, case when a.state = 'operator' and a.decision is null then 0 when a.decided is not null then 1 else 2 end as rank
from pending_action a where a.id between $1 and $2 order by rank limit 2

-- name: find_conversations
-- Conversations whose id lies between two; those in handoff first, where it is about handoffs.
-- $1 first uuid · $2 last uuid · $3 about handoffs boolean
select s.conversation as id, case when $3 and s.state = 'handoff' then 0 else 1 end as rank
from conversation_state s where s.conversation between $1 and $2 order by rank limit 2

-- name: find_by_address
-- Conversations of a business with whoever has that address, on its channel or as a verified number; in the same order.
-- $1 slug text · $2 address text · $3 about handoffs boolean
select i.conversation as id, case when $3 and s.state = 'handoff' then 0 else 1 end as rank
from business b join channel_identity i on i.business = b.id join conversation_state s on s.conversation = i.conversation join customer p on p.id = i.customer
where b.slug = $1 and (i.user_id = $2 or p.phone_key = $2 or p.phone = $2) order by rank limit 2
