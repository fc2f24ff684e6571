-- name: lock_row
-- The one row that decides, locked first: whoever changes what is known of, owed to or allowed for the customer meets here.
-- $1 conversation uuid
select s.business, s.unguarded, s.customer_seq, s.state, s.handoff_epoch, s.opted_out_at is not null as opted_out
from conversation_state s where s.conversation = $1 order by s.conversation for no key update

-- name: draft
-- A reply as it is, with the action it asks about and the decision on the round that the operator saw. Read under the row's lock it holds.
-- $1 outbound uuid · $2 round int
select o.id, o.business, o.conversation, o.state, o.reason, o.round, o.body, o.basis_seq, o.origin_kind, o.receipt, o.created_at, business_now() as now,
  o.reason is not distinct from 'may_have_arrived'
    or exists (select from send_attempt t where t.outbound = o.id and t.state in ('unknown', 'undecided', 'retried')) as may_have_left,
  a.id as action, a.customer, a.tool, a.arguments, a.digest, a.summary, a.state as action_state, a.prompt = o.id as asked_by_this,
  d.decision, d.decided_by, d.decided_at
from outbound o left join pending_action a on a.id = o.action and a.business = o.business
  left join draft_decision d on d.outbound = o.id and d.round = $2
where o.id = $1

-- name: seen
-- What an operator may have seen of a reply: as the draft that it is, and as it was when it was decided about.
-- $1 outbound uuid
select o.round, sha256(convert_to(o.body, 'UTF8')) as digest from outbound o where o.id = $1 and o.state || '' = 'draft'
union all select d.round, d.text_digest from draft_decision d where d.outbound = $1
order by round desc

-- name: queue_draft
-- A draft as it was seen goes out: decision, next round, at once. Its letter among the dead is settled with it. Nothing returned: it is no
-- longer that draft.
-- $1 outbound uuid · $2 conversation uuid · $3 round int · $4 digest of the text seen bytea · $5 decision text · $6 by text · $7 text text (null: as it is)
with row as (
  update conversation_state s set version = s.version + 1 where s.conversation = $2 returning s.conversation, s.handoff_epoch),
reply as (
  update outbound o
  set state = 'queued', reason = null, round = o.round + 1, body = coalesce($7, o.body), parts_sent = case when $7::text is null then o.parts_sent else 0 end, epoch = row.handoff_epoch,
    suspect = 0, first_try_at = null, not_before = null, ring_at = now()
  from row where o.id = $1 and o.conversation = row.conversation and o.state || '' = 'draft' and o.round = $3 and sha256(convert_to(o.body, 'UTF8')) = $4
  returning o.id, o.business),
letter as (
  update dead d set settled_at = now(), settled_how = 'sent by ' || $6::text from reply where d.stage = 'dispatch' and d.subject = reply.id and coalesce(d.settled_at, 'infinity') = 'infinity')
insert into draft_decision (outbound, business, round, decision, text_digest, decided_by) select id, business, $3, $5, $4, $6 from reply
on conflict do nothing returning outbound

-- name: discard_draft
-- A draft as it was seen never goes out, and the action whose prompt it is ends with it. Nothing returned: it is no longer that draft.
-- $1 outbound uuid · $2 conversation uuid · $3 round int · $4 digest of the text seen bytea · $5 by text · $6 the action ends as text · $7 and why text
with row as (
  update conversation_state s set version = s.version + 1 where s.conversation = $2 returning s.conversation),
ended as (
  update pending_action a set state = $6, reason = $7, ended_at = business_now()
  from row, outbound p where p.id = $1 and a.id = p.action and a.prompt = p.id and a.conversation = row.conversation and a.state || '' = 'customer' returning a.id),
reply as (
  update outbound o set state = 'discarded', ring_at = null
  from row where o.id = $1 and o.conversation = row.conversation and o.state || '' = 'draft' and o.round = $3 and sha256(convert_to(o.body, 'UTF8')) = $4
  returning o.id, o.business),
letter as (
  update dead d set settled_at = now(), settled_how = 'discarded by ' || $5::text from reply where d.stage = 'dispatch' and d.subject = reply.id and coalesce(d.settled_at, 'infinity') = 'infinity'),
decision as (
  insert into draft_decision (outbound, business, round, decision, text_digest, decided_by) select id, business, $3, 'discard', $4, $5 from reply
  on conflict do nothing returning outbound)
select decision.outbound, (select count(*) from ended) > 0 as ended from decision

-- name: approval
-- An action that waits for an operator, or did.
-- $1 action uuid
select id, business, conversation, tool, state, decided, decided_by, decided_at, waits_until, business_now() as now from pending_action where id = $1

-- name: answer
-- The operator's answer; the agent is owed a turn for it. Once: nothing returned where it was answered.
-- $1 action uuid · $2 conversation uuid · $3 decision uuid · $4 decided text · $5 why text · $6 by text
with action as (
  update pending_action a set decision = $3, decided = $4, decided_why = $5, decided_by = $6, decided_at = business_now()
  where a.id = $1 and a.conversation = $2 and a.state || '' = 'operator' and a.decision is null returning a.conversation)
update conversation_state s set decision_owed = $3, due_at = least(coalesce(s.due_at, now()), now()), version = s.version + 1
from action where s.conversation = action.conversation returning s.conversation

-- name: handoff
-- The handoff that is open.
-- $1 conversation uuid · $2 epoch int
select reason, opened_at, claimed_by, claimed_at from handoff where conversation = $1 and epoch = $2 and released_at is null

-- name: claim
-- The handoff is somebody's, once.
-- $1 conversation uuid · $2 epoch int · $3 by text
with claimed as (
  update handoff h set claimed_by = $3, claimed_at = business_now() where h.conversation = $1 and h.epoch = $2 and h.released_at is null and h.claimed_by is null returning h.conversation)
update conversation_state s set version = s.version + 1 from claimed where s.conversation = claimed.conversation returning s.conversation

-- name: reply
-- A person's message, after all that was said. Who answers a handoff that nobody claimed has claimed it. An origin that was there is no second message.
-- $1 conversation uuid · $2 epoch int · $3 by text · $4 outbound uuid · $5 origin uuid · $6 text text
with row as (
  update conversation_state s set version = s.version + 1 where s.conversation = $1 and s.state = 'handoff' and s.handoff_epoch = $2 returning s.conversation, s.business, s.guarded_seq),
claimed as (
  update handoff h set claimed_by = $3, claimed_at = business_now() from row where h.conversation = row.conversation and h.epoch = $2 and h.released_at is null and h.claimed_by is null),
o as (
  insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, body, ring_at)
  select $4, row.business, row.conversation, 'operator', $5, row.guarded_seq, $2, 'auto', $6, now() from row
  on conflict (origin, part, origin_kind) do nothing)
select conversation from row

-- name: release
-- The bot answers again. What was said meanwhile is history; only what waits for the agent makes the conversation due.
-- $1 conversation uuid · $2 epoch int · $3 by text · $4 note text
with row as (
  update conversation_state s
  set state = 'bot', handoff_epoch = s.handoff_epoch + 1, released_at = business_now(), version = s.version + 1,
    due_at = case when s.opted_out_at is null and (s.customer_seq > s.handled_seq or s.decision_owed is not null) then coalesce(s.due_at, now()) else s.due_at end
  where s.conversation = $1 and s.state = 'handoff' and s.handoff_epoch = $2 returning s.conversation, s.due_at),
released as (
  update handoff h set released_at = business_now(), released_by = $3, note = $4 from row where h.conversation = row.conversation and h.epoch = $2 and coalesce(h.released_at, 'infinity') = 'infinity')
select row.due_at is not null as due from row

-- name: take
-- People take over: as the guard does it. What the customer has not confirmed is cleared with its unsent prompt; other drafts of the bot's
-- are superseded, but for receipts; a turn under way is cut off by the epoch and keeps its row due until it ends.
-- $1 conversation uuid · $2 epoch int · $3 by text
with row as (
  update conversation_state s
  set state = 'handoff', handoff_epoch = s.handoff_epoch + 1, version = s.version + 1, handled_seq = s.guarded_seq, window_opened_at = null,
    due_at = case when s.lease_token is not null and s.lease_until > now() then s.due_at end
  where s.conversation = $1 and s.state = 'bot' and s.handoff_epoch = $2 returning s.conversation, s.business, s.handoff_epoch),
handed as (
  insert into handoff (conversation, business, epoch, reason, claimed_by, claimed_at) select conversation, business, handoff_epoch, 'operator', $3, business_now() from row),
ended as (
  update pending_action a set state = 'cleared', reason = 'operator', ended_at = business_now()
  from row cross join lateral (select y.id from pending_action y where y.conversation = row.conversation and y.state = 'customer' offset 0) d where a.id = d.id returning a.prompt),
replies as (
  update outbound o set state = case when (o.id in (select prompt from ended)) is true then 'discarded' else 'superseded' end, ring_at = null
  from row cross join lateral (select y.id from outbound y where y.conversation = row.conversation and y.state = 'draft' offset 0) d
  where o.id = d.id and (o.id in (select prompt from ended) or (o.origin_kind <> 'operator' and not o.receipt))
  returning o.id),
unsent as (
  update outbound o set state = 'discarded', ring_at = null from ended where o.id = ended.prompt and o.state || '' = 'queued')
select row.conversation, (select count(*) from ended) > 0 as ended from row

-- name: conversation_of
-- Whose action it is.
-- $1 action uuid
select conversation from pending_action where id = $1
