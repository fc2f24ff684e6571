-- name: open_changes
-- Announced changes of number or id that nobody decided about, oldest first.
-- $1 slug text
select x.id, b.slug as business, k.channel, k.address, x.old_user_id, x.new_user_id, x.announced_at,
  exists (select from channel_identity i where i.account = x.account and i.user_id = x.new_user_id) as has_written
from identity_change x join business b on b.id = x.business join channel_account k on k.id = x.account and k.business = x.business
where x.decided is null and ($1::text is null or b.slug = $1) order by x.announced_at, x.id

-- name: lock_change
-- One change, with both sides, until its decision is committed.
-- $1 change uuid
select x.business, x.decided, o.customer as old_customer, n.conversation as new_conversation, n.customer as new_customer
from identity_change x left join channel_identity o on o.account = x.account and o.user_id = x.old_user_id
  left join channel_identity n on n.account = x.account and n.user_id = x.new_user_id
where x.id = $1 order by x.id for no key update of x

-- name: link
-- A conversation is another customer's from now on: what it waited for ends, and whoever works on it looks again.
-- $1 business int · $2 conversation uuid · $3 customer uuid
with locked as materialized (
  select s.conversation from conversation_state s where s.conversation = $2 and s.business = $1 order by s.conversation for no key update of s),
row as (
  update conversation_state s set version = s.version + 1 from locked l where s.conversation = l.conversation returning s.conversation),
moved as (
  update conversation c set customer = $3 from row where c.id = row.conversation and c.business = $1 returning c.id),
identity as (
  update channel_identity i set customer = $3 from moved where i.conversation = moved.id and i.business = $1),
ended as (
  update pending_action a set state = 'cleared', reason = 'identity_changed', ended_at = now()
  from moved where a.conversation = moved.id and a.state in ('customer', 'operator') returning a.prompt),
unsent as (
  update outbound o set state = 'discarded', ring_at = null from ended where o.id = ended.prompt and o.state || '' in ('queued', 'draft'))
select id from moved

-- name: decide
-- $1 change uuid · $2 decided text · $3 by text
update identity_change set decided = $2, decided_by = $3, decided_at = business_now() where id = $1
